// What stands at the start of a buffer's memory: everything that all its users share, locks included.
//
// Rows are numbered from 0 for ever; row `s` lives in slot `s % capacity`. The rows that can be
// sampled are [tail, head) without the holes. The tail moves BEFORE the slots of old rows are written
// again, so whoever dies in between costs rows, and never leaves a torn one in sight.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "locks.hpp"

namespace rb {

enum class Discipline : std::uint32_t {
  unshared = 0,  // one process, whose interpreter lock is the only one
  buffer = 1,    // one lock around every call
  critical = 2,  // explorers lock only the claiming of rows; a gate keeps the learner apart from them
};

inline constexpr std::size_t kSeats = 16;
inline constexpr std::size_t kHoles = 32;

// Rows [first, first + count) that an explorer is writing; count 0: none.
struct Claim {
  std::atomic<std::uint64_t> first;
  std::atomic<std::uint64_t> count;
};

// An explorer writes only while it holds the lock of its seat. Explorers beyond kSeats share seats.
struct alignas(64) Seat {
  RobustMutex lock;
};

// Rows that were claimed by somebody who died before writing them.
struct Holes {
  struct Range {
    std::uint64_t first, count;
    std::uint64_t end() const { return first + count; }
  };
  std::uint32_t used;
  Range ranges[kHoles];

  bool contain(std::uint64_t row) const {
    return std::any_of(ranges, ranges + used, [row](auto& r) { return row >= r.first && row < r.end(); });
  }
  bool cover(std::uint64_t first, std::uint64_t count) const {
    return std::any_of(ranges, ranges + used, [=](auto& r) { return first >= r.first && first + count <= r.end(); });
  }
  std::uint64_t rows(std::uint64_t tail) const {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < used; ++i)
      if (ranges[i].end() > tail) sum += ranges[i].end() - std::max(ranges[i].first, tail);
    return sum;
  }
  void forget_before(std::uint64_t tail) {
    used = static_cast<std::uint32_t>(
        std::remove_if(ranges, ranges + used, [tail](auto& r) { return r.end() <= tail; }) - ranges);
  }
  // No place for another hole: give up the rows between the two oldest ones as well.
  void join_the_two_oldest() {
    std::sort(ranges, ranges + used, [](auto& a, auto& b) { return a.first < b.first; });
    ranges[0].count = ranges[1].end() - ranges[0].first;
    std::copy(ranges + 2, ranges + used, ranges + 1);
    used -= 1;
  }
};

struct SegmentHeader {
  static constexpr std::uint64_t kMagic = 0x3231'6c70'6d69'6272;  // changes with the layout below

  // Written once, before anybody else can see the segment.
  std::uint64_t magic;
  std::uint64_t capacity;  // rows
  std::uint64_t stride;    // bytes a row
  std::uint64_t tree_at, rows_at, description_at, description_bytes, bytes;
  Discipline discipline;
  std::uint32_t prioritized;

  // Rows. Written under the lock (buffer) or under `index` (critical).
  alignas(64) std::atomic<std::uint64_t> head;
  std::atomic<std::uint64_t> tail;
  Holes holes;
  Claim claims[kSeats];

  // Priorities. The tree's nodes know the leaves of the rows before `in_tree`; the learner brings in
  // the others before it samples, so that adding costs an explorer one float.
  alignas(64) std::atomic<std::uint64_t> in_tree;
  std::atomic<std::uint32_t> tree_dirty;  // somebody is changing nodes, or died doing so
  std::atomic<double> max_priority;       // largest raw priority since clear()

  // Locks.
  alignas(64) RobustMutex gate;  // "buffer": the one lock; "critical": held by the learner
  std::atomic<std::uint32_t> gate_closed;
  std::atomic<std::uint32_t> waiting_at_gate;
  std::atomic<std::uint32_t> seats_taken;
  alignas(64) RobustMutex index;
  Seat seats[kSeats];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<double>::is_always_lock_free,
              "atomics in shared memory must not hide a lock");

}  // namespace rb
