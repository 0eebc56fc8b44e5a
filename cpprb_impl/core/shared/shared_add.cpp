// How explorers add rows (steps E1 to E9), and how the claim of a process that died is reclaimed (B1, B2).
// Every memory order stronger than relaxed has a line in tests/weak_memory/orders, which `make orders` checks.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "../base/failpoints.hpp"
#include "../protocol/process_word.hpp"
#include "lock_discipline.hpp"
#include "shared_store.hpp"
#include "stream_links.hpp"

namespace rb {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto acquire_release = std::memory_order_acq_rel;

using Got = RobustMutex::Got;

// Yields the processor, and checks for signals from time to time.
void wait_a_moment(Waiting& waiting, unsigned round) {
  waiting.begin();
  sched_yield();
  const bool go_on = round % 256 != 0 || waiting.go_on();
  waiting.end();
  if (!go_on) throw Interrupted();
}

// Calls put(i, link) for each of the `count` rows from `at` on, whose numbers are first, first + 1, ... Rows before
// `cleared` were removed.
template <class Put>
void with_links(const NewRows& rows, std::size_t at, std::size_t count, std::uint64_t first, std::uint64_t cleared,
                Put put) {
  if (rows.linked == nullptr) return rows.links->link(first, rows.steps + at, count, cleared, put);
  const bool is_kept = first == rows.linked_from + at;
  for (std::size_t i = 0; i < count; ++i) put(i, is_kept ? rows.linked[at + i] : rows.linked[at + i].alone());
}

}  // namespace

std::uint64_t SharedStore::chunk() const { return std::clamp<std::uint64_t>(capacity() / 64, 1, ClaimWord::kMost); }

std::uint64_t SharedStore::add(const NewRows& given, Waiting& waiting) {
  // If there are more rows than the ring holds, only the last ones would survive.
  const std::uint64_t unused = given.count > capacity() ? given.count - capacity() : 0;
  std::uint64_t first_slot = next_slot();
  if (given.count == 0) return first_slot;
  std::uint64_t end = 0;  // end of our rows' numbers
  {
    ExplorerGuard guard(*this, waiting);
    NewRows rows = given;
    std::optional<Rows::NewFrames> frames;
    if (framed_) rows.data = frames.emplace(*rows_, guard.registration(), given.data, unused, given.count).data();
    std::vector<std::size_t> left;
    for (std::size_t at = unused; at < rows.count;) {
      const std::size_t count = std::min<std::size_t>(chunk(), rows.count - at);
      const std::uint64_t before = at == unused ? unused : 0;
      const std::uint64_t first = claim(guard.registration(), count, before, waiting);
      if (at == unused) first_slot = (first - before) % capacity();
      if (rows.links != nullptr) rows.links->skip(first - before, rows.steps, before);
      end = first + count;
      copy(count, waiting, [&] { place(rows, at, count, first, guard.registration(), left); });
      for (const std::size_t each : left) {
        const std::uint64_t slot = place_later(rows, each, guard.registration(), waiting);
        if (each == 0) first_slot = slot;
      }
      left.clear();
      at += count;
    }
  }
  RB_FAILPOINT(E8);
  if (given.largest > 0) raise_max_priority(given.largest);
  give_way(end);
  return first_slot;
}

// E9. A learner's own process does not give way to the learner. The yielded processor may go to a process other than
// the learner, so an explorer gives way to each request only for a limited time.
void SharedStore::give_way(std::uint64_t end) {
  const std::uint64_t until = header_->give_way_until.load(relaxed);
  if (end >= until || until == requested_until_.load(relaxed)) return;
  const std::uint64_t now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  if (seen_until_.load(relaxed) != until) {
    seen_until_.store(until, relaxed);
    gives_way_until_.store(now + kGivesWayNanoseconds, relaxed);
  }
  if (now > gives_way_until_.load(relaxed)) return;
  RB_FAILPOINT(E9);
  sched_yield();
}

// E1. Takes the registration that this process owns, or a different one if it owns none or is already using it.
std::size_t SharedStore::take_registration(Waiting& waiting) {
  std::size_t registration = registration_.load(relaxed);
  const bool kept = registration != kNoRegistration &&
                    (no_free_registration_ || header_->registrations[registration].owner.load(relaxed) == process_);
  if (!kept || !try_registration(registration, waiting)) {
    registration = take_another_registration(registration, waiting);
    registration_.store(registration, relaxed);
  }
  reclaim(registration);
  return registration;
}

// Only tries the lock: if it is taken, any other registration works as well. With "critical", waits for the lock,
// because a learner may hold it to keep explorers out; using a registration that the learner does not hold would be
// wrong.
bool SharedStore::try_registration(std::size_t registration, Waiting& waiting) {
  // This is done before taking the lock, because a learner that closes the gate takes all registrations in use.
  std::uint32_t used = header_->registrations_used.load();
  while (used <= registration &&
         !header_->registrations_used.compare_exchange_weak(used, static_cast<std::uint32_t>(registration) + 1)) {
  }
  RB_FAILPOINT(E1);
  if (header_->discipline != Discipline::critical)
    return header_->registrations[registration].lock.try_lock() != Got::no;
  header_->registrations[registration].lock.lock(waiting);
  return true;
}

// Chooses a registration that this process owns and none of its threads is using. Otherwise, chooses the lowest one
// whose owner has ended, so that the number in use never exceeds the number of concurrent processes and threads. If
// there is none, chooses any.
std::size_t SharedStore::take_another_registration(std::size_t last, Waiting& waiting) {
  const auto owner = [&](std::size_t registration) -> Atomic& { return header_->registrations[registration].owner; };
  if (last != kNoRegistration)
    for (std::size_t registration = 0; registration < registrations_used(); ++registration)
      if (registration != last && owner(registration).load(relaxed) == process_ &&
          try_registration(registration, waiting))
        return registration;
  for (std::size_t registration = 0; registration < kRegistrations && !no_free_registration_; ++registration) {
    std::uint64_t found = owner(registration).load(relaxed);
    if (found != 0 && may_be_alive(found)) continue;
    if (owner(registration).compare_exchange_strong(found, process_, relaxed) &&
        try_registration(registration, waiting))
      return registration;
  }
  no_free_registration_ = true;
  for (std::size_t round = 1, registration = process_ >> 32;; ++round) {
    registration = (registration + 1) % kRegistrations;
    if (try_registration(registration, waiting)) return registration;
    if (round % kRegistrations == 0) wait_a_moment(waiting, static_cast<unsigned>(round / kRegistrations));
  }
}

// E2, E3. Returns the number of the first row; the `unused` numbers before it are skipped.
std::uint64_t SharedStore::claim(std::size_t registration, std::uint64_t count, std::uint64_t unused,
                                 Waiting& waiting) {
  const bool locked = header_->discipline == Discipline::critical;
  if (locked) {
    RB_FAILPOINT(G5);
    header_->index.lock(waiting);
  }
  std::uint64_t next = header_->head.load(relaxed), first;
  do {
    first = std::max(next, header_->cleared.load(acquire)) + unused;
    RB_FAILPOINT(E2);
    if (unused > 0) expect_holes_until(first + capacity());
    header_->registrations[registration].claim.store(ClaimWord::of(first, count).bits, release);
    RB_FAILPOINT(E3);
  } while (!header_->head.compare_exchange_weak(next, first + count, std::memory_order_seq_cst, relaxed));
  if (unused > 0) expect_holes_until(first + capacity());  // again, because older rows there may expire from now on
  if (locked) {
    RB_FAILPOINT(G6);
    header_->index.unlock();
  }
  return first;
}

// Step E4.
SharedStore::Marked SharedStore::mark(std::uint64_t row, std::uint64_t slot, std::size_t registration) {
  Atomic& word = this->word(slot);
  SlotWord found{word.load(acquire)};
  for (;;) {
    if (found.row() > row) return Marked::overtaken;
    if (found.is_writing()) {
      const SlotWord held = found;
      const bool dead = reclaim_if_dead(held.registration());
      found.bits = word.load();
      if (!dead && found == held) return Marked::held;
      continue;
    }
    RB_FAILPOINT(E4);
    if (word.compare_exchange_weak(found.bits, SlotWord::writing(row, registration).bits, acquire_release, acquire))
      return Marked::yes;
  }
}

// E5, E6: writes `count` rows, whose slots are consecutive and marked.
void SharedStore::write(const NewRows& rows, std::size_t at, std::size_t count, std::uint64_t first) {
  const std::uint64_t slot = first % capacity();
  rows_->write(rows.data, at, at + count, slot);
  if (prioritized())
    for (std::size_t i = 0; i < count; ++i) {
      const float leaf = rows.leaves != nullptr ? rows.leaves[at + i] : rows.leaf;
      priority(slot + i).store(PriorityWord::of(first + i, leaf).bits, release);
    }
  if (rows.links != nullptr || rows.linked != nullptr) {
    Atomic* const link = &this->link(slot);
    const std::uint64_t stride = header_->stride / sizeof *link;
    with_links(rows, at, count, first, header_->cleared.load(relaxed),
               [=](std::size_t i, LinkWord word) { link[i * stride].store(word.bits, release); });
  }
  for (std::size_t i = 0; i < count; ++i) {
    RB_FAILPOINT(E6);
    const std::uint64_t written = SlotWord::written(first + i).bits;
    framed_ ? word(slot + i).store(written) : word(slot + i).store(written, release);
  }
  // Rows claimed before a clear are removed, and later rows have skipped their slots.
  if (first < header_->cleared.load(acquire)) expect_holes_until(header_->head.load(acquire) + 2 * capacity());
  // An explorer that left a slot to us has meanwhile claimed a later row for it: our row has expired, and no reader
  // returns it. This is sequentially consistent with E3 and the second look in mark(): either we see its claim, or it
  // sees our commit.
  if (!framed_) return;
  const std::uint64_t head = header_->head.load();
  if (first + capacity() < head) expect_holes_until(head + capacity());
}

// Gives rows `at`, `at + 1`, ... the numbers `first`, `first + 1`, ... Rows whose slots are held by other processes are
// added to `left`.
void SharedStore::place(const NewRows& rows, std::size_t at, std::size_t count, std::uint64_t first,
                        std::size_t registration, std::vector<std::size_t>& left) {
  const std::uint64_t first_slot = first % capacity(), until_end = capacity() - first_slot;
  for (std::size_t i = 0; i < count;) {
    const std::size_t begin = i;
    Marked marked = Marked::yes;
    // A division per row would take as long as the rest of the loop.
    std::uint64_t slot = i < until_end ? first_slot + i : i - until_end;
    while (i < count && (i != until_end || i == begin) && (marked = mark(first + i, slot, registration)) == Marked::yes)
      ++i, ++slot;
    if (i > begin) write(rows, at + begin, i - begin, first + begin);
    if (marked == Marked::yes) continue;  // end of the ring, or of our rows
    if (rows.links != nullptr) rows.links->set_apart(rows.steps[at + i]);
    if (marked == Marked::held) left.push_back(at + i);
    ++i;
  }
}

// Stores a row whose slot was held by another process in the next free slot. Returns that slot.
std::uint64_t SharedStore::place_later(const NewRows& rows, std::size_t at, std::size_t registration,
                                       Waiting& waiting) {
  for (std::uint64_t tries = 1;; ++tries) {
    const std::uint64_t row = claim(registration, 1, 0, waiting);
    const Marked marked = mark(row, row % capacity(), registration);
    if (marked == Marked::yes) write(rows, at, 1, row);
    if (marked != Marked::held) return row % capacity();
    if (tries % (2 * capacity()) == 0) wait_a_moment(waiting, static_cast<unsigned>(tries / (2 * capacity())));
  }
}

// Returns whether no process holds the registration; if its holder died, it is reclaimed. The lock doubles as a
// liveness check: the kernel releases it when its holder dies.
bool SharedStore::reclaim_if_dead(std::size_t registration) {
  if (header_->registrations[registration].lock.try_lock() == Got::no) return false;
  reclaim(registration);
  header_->registrations[registration].lock.unlock();
  return true;
}

// B1, B2. We hold the registration's lock: if its claim is open, the process that opened it has died.
void SharedStore::reclaim(std::size_t registration) {
  if (framed_) rows_->reclaim(registration);
  const ClaimWord left{header_->registrations[registration].claim.load(acquire)};
  if (left.count() == 0) return;
  const std::uint64_t end = left.first() + left.count();
  // Expect holes until the ring has wrapped, both before the holes exist and after: we may be stopped in between.
  expect_holes_until(end + capacity());
  for (std::uint64_t row = left.first(); row < end; ++row) {
    std::uint64_t held = SlotWord::writing(row, registration).bits;
    RB_FAILPOINT(B1);
    word(row % capacity()).compare_exchange_strong(held, SlotWord::free(row).bits, std::memory_order_seq_cst, relaxed);
  }
  // B1 and this load of head are sequentially consistent with E3 and the second look in mark(): either we see the claim
  // of an explorer that left the slot to the dead process, or it sees the slot free.
  expect_holes_until(std::max({end, header_->head.load(), header_->cleared.load(acquire)}) + capacity());
  RB_FAILPOINT(B2);
  header_->registrations[registration].claim.store(0, release);
}

}  // namespace rb
