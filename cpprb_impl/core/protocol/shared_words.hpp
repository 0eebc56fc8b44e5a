// The words through which processes agree on a slot, a claim and a priority; see docs/protocol.md.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

namespace rb {

using Atomic = std::atomic<std::uint64_t>;
static_assert(Atomic::is_always_lock_free && sizeof(Atomic) == 8, "atomics in shared memory must not hide a lock");

// The contents of a slot. Row numbers never repeat, a slot's numbers only increase, and each is written at most once,
// so an unchanged word means the same row. 2^52 rows are enough for a year at 10^8 per second.
struct SlotWord {
  std::uint64_t bits = 0;  // 0: never used

  static SlotWord writing(std::uint64_t row, std::uint64_t registration) { return {row << 12 | registration << 2 | 1}; }
  static SlotWord written(std::uint64_t row) { return {row << 12 | 2}; }
  static SlotWord free(std::uint64_t row) {
    return {row << 12};
  }  // the process that should have written this row has died

  bool is_writing() const { return (bits & 3) == 1; }
  bool is_written() const { return (bits & 3) == 2; }
  std::uint64_t row() const { return bits >> 12; }
  std::uint64_t registration() const { return bits >> 2 & 1023; }
  bool operator==(const SlotWord&) const = default;
};

// Which row a row continues: how many rows before it the previous row of its stream is (0: it begins a run), the number
// of its step in its run, from 1 on, and whether it is the first or the last step of its episode.
struct LinkWord {
  static constexpr std::uint64_t kMost = (std::uint64_t{1} << 31) - 1;  // of a distance, and of steps in a run

  std::uint64_t bits = 0;

  static LinkWord of(std::uint64_t back, std::uint64_t number, bool is_first, bool is_last) {
    return {back << 33 | number << 2 | std::uint64_t{is_first} << 1 | std::uint64_t{is_last}};
  }
  std::uint64_t back() const { return bits >> 33; }
  std::uint64_t number() const { return bits >> 2 & kMost; }
  bool is_first() const { return (bits & 2) != 0; }
  bool is_last() const { return (bits & 1) != 0; }
  LinkWord alone() const { return of(0, 1, is_first(), is_last()); }  // of a row that continues none
};

// Rows [first, first + count) that a registration's holder is writing; 0: none.
struct ClaimWord {
  static constexpr std::uint64_t kMost = 256;  // rows

  std::uint64_t bits = 0;

  static ClaimWord of(std::uint64_t first, std::uint64_t count) { return {first << 12 | count}; }
  std::uint64_t first() const { return bits >> 12; }
  std::uint64_t count() const { return bits & 4095; }
  bool operator==(const ClaimWord&) const = default;
};

// A learner, and the low half of the number up to which it has read the journal; 0: none. Tickets are not reused
// (within 2^32 learners), so an unchanged place still belongs to the same learner.
struct LearnerWord {
  std::uint64_t bits = 0;

  static LearnerWord of(std::uint32_t ticket, std::uint64_t seen) {
    return {std::uint64_t{ticket} << 32 | static_cast<std::uint32_t>(seen)};
  }
  std::uint32_t ticket() const { return static_cast<std::uint32_t>(bits >> 32); }
  // The number of entries before `end` that the learner has not read.
  std::uint32_t behind(std::uint64_t end) const {
    return static_cast<std::uint32_t>(end) - static_cast<std::uint32_t>(bits);
  }
  bool operator==(const LearnerWord&) const = default;
};

// A leaf, and the low half of the number of its row.
struct PriorityWord {
  std::uint64_t bits = 0;

  static PriorityWord of(std::uint64_t row, float leaf) { return {row << 32 | std::bit_cast<std::uint32_t>(leaf)}; }
  float leaf() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits)); }
  bool is_of(std::uint64_t row) const {
    return static_cast<std::uint32_t>(bits >> 32) == static_cast<std::uint32_t>(row);
  }
  bool operator==(const PriorityWord&) const = default;
};

}  // namespace rb
