// How explorers add rows: steps E1 to E8, and burying a process that died doing so (B1, B2).
#include <sched.h>

#include <algorithm>
#include <optional>

#include "failpoints.hpp"
#include "process_word.hpp"
#include "shared_store.hpp"
#include "lock_discipline.hpp"

namespace rb {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto acquire_release = std::memory_order_acq_rel;

using Got = RobustMutex::Got;

// Gives others the processor; looks for signals now and then.
void wait_a_moment(Waiting& waiting, unsigned round) {
  waiting.begin();
  sched_yield();
  const bool go_on = round % 256 != 0 || waiting.go_on();
  waiting.end();
  if (!go_on) throw Interrupted();
}

}  // namespace

std::uint64_t SharedStore::chunk() const { return std::clamp<std::uint64_t>(capacity() / 64, 1, ClaimWord::kMost); }

std::uint64_t SharedStore::add(const NewRows& given, Waiting& waiting) {
  // Of more rows than the ring holds only the last ones would survive.
  const std::uint64_t unused = given.count > capacity() ? given.count - capacity() : 0;
  std::uint64_t first_slot = next_slot();
  if (given.count == 0) return first_slot;
  {
    ExplorerTurn turn(*this, waiting);
    NewRows rows = given;
    std::optional<Rows::NewFrames> frames;
    if (framed_) rows.data = frames.emplace(*rows_, turn.seat(), given.data, unused, given.count).data();
    std::vector<std::size_t> left;
    for (std::size_t at = unused; at < rows.count;) {
      const std::size_t count = std::min<std::size_t>(chunk(), rows.count - at);
      const std::uint64_t before = at == unused ? unused : 0;
      const std::uint64_t first = claim(turn.seat(), count, before, waiting);
      if (at == unused) first_slot = (first - before) % capacity();
      copy(count, waiting, [&] { place(rows, at, count, first, turn.seat(), left); });
      for (const std::size_t each : left) {
        const std::uint64_t slot = place_later(rows, each, turn.seat(), waiting);
        if (each == 0) first_slot = slot;
      }
      left.clear();
      at += count;
    }
  }
  RB_POINT(E8);
  if (given.largest > 0) raise_max_priority(given.largest);
  return first_slot;
}

// E1. Takes the seat that this process owns, or another one if it has none or is using it already.
std::size_t SharedStore::take_seat(Waiting& waiting) {
  std::size_t seat = seat_.load(relaxed);
  const bool kept = seat != kNoSeat && (no_free_seat_ || header_->seats[seat].owner.load(relaxed) == process_);
  if (!kept || !sit(seat, waiting)) {
    seat = take_another_seat(seat, waiting);
    seat_.store(seat, relaxed);
  }
  bury(seat);
  return seat;
}

// The lock is only tried: if it is taken, another seat is as good. Not so with "critical": a learner may hold it to
// keep us out, and a seat that it does not hold would be the wrong one.
bool SharedStore::sit(std::size_t seat, Waiting& waiting) {
  // Before the lock: a learner that closes the gate takes all seats that are in use.
  std::uint32_t used = header_->seats_used.load();
  while (used <= seat && !header_->seats_used.compare_exchange_weak(used, static_cast<std::uint32_t>(seat) + 1)) {
  }
  RB_POINT(E1);
  if (header_->discipline != Discipline::critical) return header_->seats[seat].lock.try_lock() != Got::no;
  header_->seats[seat].lock.lock(waiting);
  return true;
}

// One that this process owns and no thread of it is using; or else the lowest whose owner has ended, so that no more
// seats are in use than processes and threads at once, however many come and go; or else any.
std::size_t SharedStore::take_another_seat(std::size_t last, Waiting& waiting) {
  const auto owner = [&](std::size_t seat) -> Atomic& { return header_->seats[seat].owner; };
  if (last != kNoSeat)
    for (std::size_t seat = 0; seat < seats_used(); ++seat)
      if (seat != last && owner(seat).load(relaxed) == process_ && sit(seat, waiting)) return seat;
  for (std::size_t seat = 0; seat < kSeats && !no_free_seat_; ++seat) {
    std::uint64_t found = owner(seat).load(relaxed);
    if (found != 0 && may_be_alive(found)) continue;
    if (owner(seat).compare_exchange_strong(found, process_, relaxed) && sit(seat, waiting)) return seat;
  }
  no_free_seat_ = true;
  for (std::size_t round = 1, seat = process_ >> 32;; ++round) {
    seat = (seat + 1) % kSeats;
    if (sit(seat, waiting)) return seat;
    if (round % kSeats == 0) wait_a_moment(waiting, static_cast<unsigned>(round / kSeats));
  }
}

// E2, E3. Returns the number of the first row; `unused` numbers before it are passed over.
std::uint64_t SharedStore::claim(std::size_t seat, std::uint64_t count, std::uint64_t unused, Waiting& waiting) {
  const bool locked = header_->discipline == Discipline::critical;
  if (locked) {
    RB_POINT(G5);
    header_->index.lock(waiting);
  }
  std::uint64_t next = header_->head.load(relaxed), first;
  do {
    first = std::max(next, header_->cleared.load(acquire)) + unused;
    RB_POINT(E2);
    if (unused > 0) expect_holes_until(first + capacity());
    header_->seats[seat].claim.store(ClaimWord::of(first, count).bits, release);
    RB_POINT(E3);
  } while (!header_->head.compare_exchange_weak(next, first + count, std::memory_order_seq_cst, relaxed));
  if (unused > 0) expect_holes_until(first + capacity());  // once more: older rows there may be over from now on
  if (locked) {
    RB_POINT(G6);
    header_->index.unlock();
  }
  return first;
}

// E4.
SharedStore::Marked SharedStore::mark(std::uint64_t row, std::uint64_t slot, std::size_t seat) {
  Atomic& word = this->word(slot);
  SlotWord found{word.load(acquire)};
  for (;;) {
    if (found.row() > row) return Marked::overtaken;
    if (found.is_writing()) {
      const SlotWord held = found;
      const bool dead = bury_if_dead(held.seat());
      found.bits = word.load();
      if (!dead && found == held) return Marked::held;
      continue;
    }
    RB_POINT(E4);
    if (word.compare_exchange_weak(found.bits, SlotWord::writing(row, seat).bits, acquire_release, acquire))
      return Marked::yes;
  }
}

// E5, E6: `count` rows, whose slots are neighbours and marked.
void SharedStore::write(const NewRows& rows, std::size_t at, std::size_t count, std::uint64_t first) {
  const std::uint64_t slot = first % capacity();
  rows_->write(rows.data, at, at + count, slot);
  if (prioritized())
    for (std::size_t i = 0; i < count; ++i) {
      const float leaf = rows.leaves != nullptr ? rows.leaves[at + i] : rows.leaf;
      priority(slot + i).store(PriorityWord::of(first + i, leaf).bits, release);
    }
  for (std::size_t i = 0; i < count; ++i) {
    RB_POINT(E6);
    const std::uint64_t written = SlotWord::written(first + i).bits;
    framed_ ? word(slot + i).store(written) : word(slot + i).store(written, release);
  }
  // Rows that were claimed before a clearing are forgotten, and rows since have left their slots out.
  if (first < header_->cleared.load(acquire)) expect_holes_until(header_->head.load(acquire) + 2 * capacity());
  // An explorer that has left a slot to us meanwhile has claimed a later row for it: ours is over, and no reader
  // returns it. Sequentially consistent, as E3 and the second look in mark(): either we see its claim, or it sees our
  // commit.
  if (!framed_) return;
  const std::uint64_t head = header_->head.load();
  if (first + capacity() < head) expect_holes_until(head + capacity());
}

// Rows at, at + 1, ... get the numbers first, first + 1, ...; those whose slots others hold are `left`.
void SharedStore::place(const NewRows& rows, std::size_t at, std::size_t count, std::uint64_t first, std::size_t seat,
                        std::vector<std::size_t>& left) {
  const std::uint64_t first_slot = first % capacity(), until_end = capacity() - first_slot;
  for (std::size_t i = 0; i < count;) {
    const std::size_t begin = i;
    Marked marked = Marked::yes;
    // No division a row: it would take as long as the rest of the loop.
    std::uint64_t slot = i < until_end ? first_slot + i : i - until_end;
    while (i < count && (i != until_end || i == begin) && (marked = mark(first + i, slot, seat)) == Marked::yes)
      ++i, ++slot;
    if (i > begin) write(rows, at + begin, i - begin, first + begin);
    if (marked == Marked::yes) continue;  // the ring's end, or ours
    if (marked == Marked::held) left.push_back(at + i);
    ++i;
  }
}

// Stores a row whose slot was held in the next slot that is not. Returns that slot.
std::uint64_t SharedStore::place_later(const NewRows& rows, std::size_t at, std::size_t seat, Waiting& waiting) {
  for (std::uint64_t tries = 1;; ++tries) {
    const std::uint64_t row = claim(seat, 1, 0, waiting);
    const Marked marked = mark(row, row % capacity(), seat);
    if (marked == Marked::yes) write(rows, at, 1, row);
    if (marked != Marked::held) return row % capacity();
    if (tries % (2 * capacity()) == 0) wait_a_moment(waiting, static_cast<unsigned>(tries / (2 * capacity())));
  }
}

// Whether no process is on the seat; one that died there is buried. The lock doubles as a liveness check: the kernel
// releases it when its holder dies.
bool SharedStore::bury_if_dead(std::size_t seat) {
  if (header_->seats[seat].lock.try_lock() == Got::no) return false;
  bury(seat);
  header_->seats[seat].lock.unlock();
  return true;
}

// B1, B2. We hold the seat's lock: if its claim is open, the process that opened it has died.
void SharedStore::bury(std::size_t seat) {
  if (framed_) rows_->bury(seat);
  const ClaimWord left{header_->seats[seat].claim.load(acquire)};
  if (left.count() == 0) return;
  const std::uint64_t end = left.first() + left.count();
  // Until the ring has come round. Before the holes are there, and once they are: we may be stopped meanwhile.
  expect_holes_until(end + capacity());
  for (std::uint64_t row = left.first(); row < end; ++row) {
    std::uint64_t held = SlotWord::writing(row, seat).bits;
    RB_POINT(B1);
    word(row % capacity()).compare_exchange_strong(held, SlotWord::free(row).bits, std::memory_order_seq_cst, relaxed);
  }
  // B1 and this look at head are sequentially consistent, as E3 and the second look in mark(): either we see the claim
  // of an explorer that left the slot to the dead one, or it sees the slot free.
  expect_holes_until(std::max({end, header_->head.load(), header_->cleared.load(acquire)}) + capacity());
  RB_POINT(B2);
  header_->seats[seat].claim.store(0, release);
}

}  // namespace rb
