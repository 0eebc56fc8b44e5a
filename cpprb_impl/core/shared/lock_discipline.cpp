// Steps G0 to G6 of docs/protocol.md.
//
// "buffer": every guard holds the single lock `gate`.
// "critical": an explorer holds its registration while it writes, and `index` only while it claims rows. The learner
// closes the gate, so that no more explorers enter, and then takes every registration, so that none is left inside.
// Locks are always taken in the order: gate, registrations by number, index. No process waits for a lock that precedes
// one that it holds, so there is no cycle. Every lock is robust, and no lock protects data that a dying process could
// leave incomplete: see docs/protocol.md.
// Every memory order stronger than relaxed has a line in tests/weak_memory/orders, which `make orders` checks.
#include "lock_discipline.hpp"

#include <sched.h>

#include <algorithm>

#include "../base/failpoints.hpp"

namespace rb {
namespace {

using Got = RobustMutex::Got;

void lock_gate(SegmentHeader& header, Waiting& waiting) {
  RB_FAILPOINT(G1);
  if (header.gate.try_lock() != Got::no) return;
  struct Counted {
    std::atomic<std::uint32_t>& count;
    explicit Counted(std::atomic<std::uint32_t>& c) : count(c) { count.fetch_add(1, std::memory_order_relaxed); }
    ~Counted() { count.fetch_sub(1, std::memory_order_relaxed); }
  } counted(header.waiting_at_gate);
  header.gate.lock(waiting);
}

void unlock_gate(SegmentHeader& header) {
  RB_FAILPOINT(G2);
  header.gate.unlock();
  // A process that has just been woken needs a moment to take the lock, and a caller in a tight loop would always take
  // it first. A killed waiter remains counted, which only costs a yield.
  if (header.waiting_at_gate.load(std::memory_order_relaxed) != 0) sched_yield();
}

}  // namespace

ExplorerGuard::ExplorerGuard(SharedStore& store, Waiting& waiting) : store_(store) {
  SegmentHeader& header = *store_.header_;
  switch (header.discipline) {
    case Discipline::none: registration_ = store_.take_registration(waiting); break;
    case Discipline::critical: register_before_the_gate(waiting); break;
    case Discipline::buffer:
      lock_gate(header, waiting);
      try {
        registration_ = store_.take_registration(waiting);
      } catch (...) {
        unlock_gate(header);
        throw;
      }
      break;
  }
}

ExplorerGuard::~ExplorerGuard() {
  SegmentHeader& header = *store_.header_;
  RB_FAILPOINT(E7);
  header.registrations[registration_].claim.store(0, std::memory_order_release);
  RB_FAILPOINT(G0);
  header.registrations[registration_].lock.unlock();
  if (header.discipline == Discipline::buffer) unlock_gate(header);
}

void ExplorerGuard::register_before_the_gate(Waiting& waiting) {
  SegmentHeader& header = *store_.header_;
  for (;;) {
    registration_ = store_.take_registration(waiting);
    // This load is sequentially consistent with the learner's closing of the gate and its check for registrations in
    // use: either we see that the gate is closed, or the learner finds our registration taken.
    if (!header.gate_closed.load()) return;
    header.registrations[registration_].lock.unlock();
    // A learner is inside or about to enter. Queue behind it by taking its lock. The lock's next holder may open the
    // gate, because the learner that closed it has left or died.
    lock_gate(header, waiting);
    header.gate_closed.store(0);
    unlock_gate(header);
  }
}

void SharedStore::lock_for_learner(Waiting& waiting) {
  if (header_->discipline == Discipline::none) return;
  lock_gate(*header_, waiting);
  if (header_->discipline == Discipline::buffer) return;
  RB_FAILPOINT(G3);
  header_->gate_closed.store(1);
  try {
    take_every_registration(waiting);
  } catch (...) {
    unlock_for_learner();
    throw;
  }
}

void SharedStore::take_every_registration(Waiting& waiting) {
  const std::size_t used = registrations_used();
  while (registrations_held_ < used) {
    RB_FAILPOINT(G4);
    header_->registrations[registrations_held_].lock.lock(waiting);
    reclaim(registrations_held_++);
  }
}

void SharedStore::unlock_for_learner() {
  if (header_->discipline == Discipline::none) return;
  while (registrations_held_ > 0) header_->registrations[--registrations_held_].lock.unlock();
  header_->gate_closed.store(0);
  unlock_gate(*header_);
}

}  // namespace rb
