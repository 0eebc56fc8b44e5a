// Who waits for whom, in each discipline.
//
// "buffer": every turn holds the one lock `gate`.
// "critical": an explorer holds its own seat while it writes, and `index` only while it claims. The
// learner closes the gate, so that no explorer comes in, and then takes every seat, so that none is
// left inside. Locks are taken in the order gate, seats by number, index; nobody waits for a lock
// that stands earlier than one it holds, so there is no circle.
// Every lock is robust. An open claim found on a seat that was just taken is a dead explorer's.
#include <sched.h>

#include "store.hpp"

namespace rb {
namespace {

using Got = RobustMutex::Got;

Got lock_gate(SegmentHeader& header, Waiting& waiting) {
  const Got at_once = header.gate.try_lock();
  if (at_once != Got::no) return at_once;
  struct Counted {
    std::atomic<std::uint32_t>& count;
    explicit Counted(std::atomic<std::uint32_t>& c) : count(c) { count.fetch_add(1, std::memory_order_relaxed); }
    ~Counted() { count.fetch_sub(1, std::memory_order_relaxed); }
  } counted(header.waiting_at_gate);
  return header.gate.lock(waiting);
}

void unlock_gate(SegmentHeader& header) {
  header.gate.unlock();
  // Who was just woken needs a moment to come in; a caller in a tight loop would be back before it
  // every time.
  if (header.waiting_at_gate.load(std::memory_order_relaxed) != 0) sched_yield();
}

}  // namespace

ExplorerTurn::ExplorerTurn(Store& store, std::size_t seat, std::uint64_t count, Waiting& waiting)
    : store_(store), header_(*store.header_), seat_(seat) {
  switch (header_.discipline) {
    case Discipline::unshared: store_.claim(seat_, count); break;
    case Discipline::buffer:
      seat_ = 0;
      if (lock_gate(header_, waiting) == Got::from_the_dead) store_.distrust_tree();
      store_.bury_open_claim(seat_);
      store_.claim(seat_, count);
      break;
    case Discipline::critical:
      take_seat(waiting);
      try {
        store_.bury_behind_index(seat_, waiting);
        claim_beside_others(count, waiting);
      } catch (...) {
        header_.seats[seat_].lock.unlock();
        throw;
      }
      break;
  }
  first_ = header_.claims[seat_].first.load(std::memory_order_relaxed);
}

ExplorerTurn::~ExplorerTurn() {
  header_.claims[seat_].count.store(0, std::memory_order_release);
  if (header_.discipline == Discipline::buffer) unlock_gate(header_);
  if (header_.discipline == Discipline::critical) header_.seats[seat_].lock.unlock();
}

void ExplorerTurn::take_seat(Waiting& waiting) {
  if (header_.gate_closed.load()) {
    // A learner is inside, or waits to be. Queue behind it; the lock itself is not wanted. Whoever
    // has it can open the gate: the learner that closed it has left, or died.
    if (lock_gate(header_, waiting) == Got::from_the_dead) store_.distrust_tree();
    header_.gate_closed.store(0);
    unlock_gate(header_);
  }
  header_.seats[seat_].lock.lock(waiting);
}

void ExplorerTurn::claim_beside_others(std::uint64_t count, Waiting& waiting) {
  for (unsigned round = 1;; ++round) {
    store_.lock_index(waiting);
    const bool free = !store_.would_lap_a_writer(count);
    if (free) store_.claim(seat_, count);
    header_.index.unlock();
    if (free) return;
    // The ring came round to a slot that is still being written (a ring smaller than what is under
    // way, or a stopped explorer). No blocking wait: the other one may be waiting for this seat.
    let_writers_finish(waiting, round);
  }
}

void ExplorerTurn::let_writers_finish(Waiting& waiting, unsigned round) {
  for (std::size_t other = 0; other < kSeats; ++other) {
    if (other == seat_ || header_.claims[other].count.load(std::memory_order_acquire) == 0) continue;
    if (header_.seats[other].lock.try_lock() == Got::no) continue;
    try {
      store_.bury_behind_index(other, waiting);
    } catch (...) {
      header_.seats[other].lock.unlock();
      throw;
    }
    header_.seats[other].lock.unlock();
  }
  waiting.begin();
  sched_yield();
  const bool go_on = round % 1024 != 0 || waiting.go_on();
  waiting.end();
  if (!go_on) throw Interrupted();
}

LearnerTurn::LearnerTurn(Store& store, Waiting& waiting) : store_(store), header_(*store.header_) {
  if (header_.discipline == Discipline::unshared) return;
  if (lock_gate(header_, waiting) == Got::from_the_dead) store_.distrust_tree();
  if (header_.discipline == Discipline::buffer) {
    store_.bury_open_claim(0);
    return;
  }
  header_.gate_closed.store(1);
  try {
    take_every_seat(waiting);
  } catch (...) {
    leave();
    throw;
  }
}

LearnerTurn::~LearnerTurn() { leave(); }

void LearnerTurn::take_every_seat(Waiting& waiting) {
  // Sequentially consistent like gate_closed: an explorer that took a new seat after this look has
  // also seen the gate closed.
  const std::size_t taken = std::min<std::size_t>(header_.seats_taken.load(), kSeats);
  while (seats_held_ < taken) {
    header_.seats[seats_held_].lock.lock(waiting);
    store_.bury_behind_index(seats_held_++, waiting);
  }
}

void LearnerTurn::leave() {
  if (header_.discipline == Discipline::unshared) return;
  while (seats_held_ > 0) header_.seats[--seats_held_].lock.unlock();
  header_.gate_closed.store(0);
  unlock_gate(header_);
}

}  // namespace rb
