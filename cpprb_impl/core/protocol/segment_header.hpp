// The header at the start of a shared buffer's memory; docs/protocol.md explains how it is used.
// Every memory order stronger than relaxed has a line in tests/weak_memory/orders, which `make orders` checks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "locks.hpp"
#include "shared_words.hpp"

namespace rb {

enum class Discipline : std::uint32_t {
  none = 1,      // no process waits for another
  buffer = 2,    // one lock around every call
  critical = 3,  // explorers lock only the claiming of rows; a gate keeps the learner apart from them
};

inline constexpr std::size_t kRegistrations = 256;
inline constexpr std::size_t kLearners = 64;  // the largest number of learners

// A registration is used by one call of add() at a time. Only its holder changes the claim. The owner is the process
// that prefers this registration (process_word.hpp), or 0; ownership only affects speed and memory.
struct alignas(64) Registration {
  RobustMutex lock;
  Atomic claim;
  Atomic owner;
};

struct SegmentHeader {
  static constexpr std::uint64_t kMagic = 0x3631'6c70'6d69'6272;  // changes with the layout below

  // Written once. The magic number is written last: a process that sees it sees everything written before.
  Atomic magic;
  std::uint64_t capacity;  // rows
  std::uint64_t stride;    // bytes per row
  std::uint64_t journal_at, rows_at, description_at, description_bytes, tables_at, frames_at, bytes;
  Discipline discipline;
  std::uint32_t prioritized;

  alignas(64) Atomic head;

  alignas(64) Atomic cleared;
  // Until the head reaches `holes_until`, a slot may lack a row, because a process died, committed late or skipped
  // slots. `holes_made` counts how often that has happened.
  Atomic holes_until, holes_made;
  std::atomic<double> max_priority;               // largest raw priority
  std::atomic<std::uint32_t> registrations_used;  // registrations from this one on were never taken
  std::atomic<std::uint32_t> learner_tickets, learners_used;
  // A learner that is far behind asks explorers to yield the processor after each call until the head is here, or until
  // it sets this to 0. A hint: nothing depends on it.
  Atomic give_way_until;

  alignas(64) Atomic journal_head;

  alignas(64) Atomic learners[kLearners];  // LearnerWord

  // Locks, for the disciplines that use them.
  alignas(64) RobustMutex gate;  // "buffer": the one lock; "critical": held by the learner
  std::atomic<std::uint32_t> gate_closed;
  std::atomic<std::uint32_t> waiting_at_gate;
  alignas(64) RobustMutex index;

  Registration registrations[kRegistrations];
};

// The magic number of the segment at `at`. The segment's creator stores it last, so a process that sees it sees the
// whole header.
inline std::uint64_t magic_at(const void* at) {
  static_assert(offsetof(SegmentHeader, magic) == 0);
  return static_cast<const Atomic*>(at)->load(std::memory_order_acquire);
}

static_assert(std::atomic<double>::is_always_lock_free, "atomics in shared memory must not hide a lock");

}  // namespace rb
