// Every memory order stronger than relaxed has a line in tests/weak_memory/orders, which `make orders` checks.
#include "priority_view.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>

#include "../base/failpoints.hpp"
#include "shared_store.hpp"

namespace rb {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr std::uint64_t kNoRow = ~std::uint64_t{0};

// An entry of the journal: a slot whose priority is about to change or has changed, and the round of the journal to
// which the entry belongs, counted from 1.
struct Entry {
  static constexpr unsigned kSlotBits = 40;
  static_assert(PriorityView::kMostRows == std::uint64_t{1} << kSlotBits);

  std::uint64_t bits;

  static Entry of(std::uint64_t round, std::uint64_t slot, bool done) {
    return {(round << 1 | std::uint64_t{done}) << kSlotBits | slot};
  }
  bool is_of_a_later(std::uint64_t round) const {
    constexpr std::uint64_t kRounds = std::uint64_t{1} << (63 - kSlotBits);
    const std::uint64_t later = ((bits >> (kSlotBits + 1)) - round) % kRounds;
    return later != 0 && later < kRounds / 2;
  }
  bool is_of(std::uint64_t round) const {
    return bits >> (kSlotBits + 1) == round % (std::uint64_t{1} << (63 - kSlotBits));
  }
  bool is_done() const { return bits >> kSlotBits & 1; }
  std::uint64_t slot() const { return bits & ((std::uint64_t{1} << kSlotBits) - 1); }
};

}  // namespace

std::uint64_t PriorityView::journal_entries(std::uint64_t capacity) {
  return std::bit_ceil(std::clamp<std::uint64_t>(capacity, 1 << 8, 1 << 16));
}

PriorityView::PriorityView(SharedStore& store, std::optional<SequenceOptions> sequences, bool by_priority)
    : store_(store),
      header_(*store.header_),
      sequences_(sequences),
      by_priority_(by_priority),
      journal_(reinterpret_cast<Atomic*>(store.memory_.data() + store.header_->journal_at)),
      entries_(journal_entries(store.capacity())),
      memory_(Memory::make_private(PriorityTree::bytes(store.capacity()))),
      tree_(memory_.data(), store.capacity()) {}

PriorityView::~PriorityView() {
  if (!has_caught_up_ || process_ != getpid()) return;  // a forked child may have a copy of it
  if (by_priority_) header_.learners[place_].compare_exchange_strong(registration_.bits, 0);
  end_yielding();
}

Span PriorityView::ending_in(std::uint64_t slot) const {
  const LinkWord link = store_.link_in(slot);
  return sequences_.value_or(SequenceOptions{}).ending_at(link.number(), link.is_last());
}

float PriorityView::leaf_in(std::uint64_t slot) const {
  const auto row = store_.row_in(slot);
  if (sequences_ && !(row && is_end(slot))) return 0;
  if (!by_priority_) return 1;
  const PriorityWord found{store_.priority(slot).load()};  // sequentially consistent: see join()
  return row && found.is_of(*row) ? found.leaf() : 0.0f;
}

void PriorityView::refresh_leaf(std::size_t slot) {
  set_leaf(slot, leaf_in(slot));
  tree_.refresh(slot, 1);
}

void PriorityView::lose(std::size_t slot) {
  set_leaf(slot, 0);
  tree_.refresh(slot, 1);
}

// Refreshes `count` rows, starting with row number `first`.
void PriorityView::refresh_rows(std::uint64_t first, std::uint64_t count) {
  const std::uint64_t capacity = store_.capacity();
  count = std::min(count, capacity);
  const std::uint64_t slot = first % capacity, before_end = std::min(count, capacity - slot);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t each = slot + i < capacity ? slot + i : slot + i - capacity;
    set_leaf(each, leaf_in(each));
  }
  tree_.refresh(slot, before_end);
  tree_.refresh(0, count - before_end);
}

// Refreshes all rows seen so far. Step T4 handles later ones.
void PriorityView::refresh_all() { refresh_rows(cleared_, seen_ - cleared_); }

// Finds the rows that a slow, stopped or dead explorer has committed so far. Explorers commit in order, but skip slots
// held by other processes. Rows after such a slot are found later, because the claim may stay open for a long time and
// is therefore rarely scanned as a whole.
void PriorityView::refresh_open_claim(Open& open) {
  const std::uint64_t first = open.claim.first(), known = open.committed;
  if (std::has_single_bit(++open.times)) return refresh_rows(first, open.claim.count());
  while (open.committed < open.claim.count()) {
    const std::uint64_t row = first + open.committed;
    const SlotWord found{store_.word(row % store_.capacity()).load(acquire)};
    if (!found.is_written() || found.row() < row) break;
    ++open.committed;
  }
  if (open.committed != known) refresh_rows(first + known, open.committed - known);
}

// If all places are taken, the learner that is furthest behind loses its place. It joins again at its next sample.
void PriorityView::join() {
  std::uint32_t ticket;
  do ticket = header_.learner_tickets.fetch_add(1, relaxed) + 1;
  while (ticket == 0);
  // Start half a journal back, because a change announced there may not have been made yet.
  const std::uint64_t end = header_.journal_head.load();
  journal_seen_ = end - std::min(end, entries_ / 2);
  registration_ = LearnerWord::of(ticket, journal_seen_);
  for (LearnerWord found;;) {
    std::uint32_t most = 0;
    for (std::size_t place = 0; place < kLearners; ++place) {
      const LearnerWord other{header_.learners[place].load()};
      const std::uint32_t behind = other.behind(end);
      if (place != 0 && other.bits != 0 && behind <= most) continue;
      most = behind;
      found = other;
      place_ = place;
      if (other.bits == 0) break;
    }
    std::uint32_t used = header_.learners_used.load();
    while (used <= place_ &&
           !header_.learners_used.compare_exchange_weak(used, static_cast<std::uint32_t>(place_) + 1)) {
    }
    // This is sequentially consistent with an updater's check for learners after its change: either the updater sees us
    // and writes to the journal, or we see its change.
    if (header_.learners[place_].compare_exchange_strong(found.bits, registration_.bits)) break;
  }
  // No row has been seen yet.
  open_.clear();
  late_.clear();
  seen_ = cleared_;
}

// Publishes how far this learner has read the journal. Updaters evict a learner that is too far behind.
void PriorityView::publish_progress() {
  const LearnerWord now = LearnerWord::of(registration_.ticket(), journal_seen_);
  std::uint64_t before = registration_.bits;
  if (now != registration_ && header_.learners[place_].compare_exchange_strong(before, now.bits)) registration_ = now;
}

// A learner that is more than half a journal behind has either ended or must scan all rows anyway, which it does when
// it joins again.
void PriorityView::evict_lagging_learners(std::uint64_t end) {
  for (std::size_t place = 0; place < learners_used(); ++place) {
    LearnerWord other{header_.learners[place].load()};
    if (other.bits != 0 && other != registration_ && other.behind(end) > entries_ / 2)
      header_.learners[place].compare_exchange_strong(other.bits, 0);
  }
}

// If explorers outnumber the cores, the learner gets a small share of one core, and the ring is filled meanwhile.
// Catching up would take all of that share, so the learner requests explorers to yield (E9) until it has drawn as many
// samples as make up for the new rows.
void PriorityView::request_yielding(std::uint64_t head, std::uint64_t new_rows) {
  if (new_rows > kFarBehind) {
    yielding_samples_ = std::max(yielding_samples_, new_rows / kRowsPerSample);
    give_way_until(head + store_.capacity());  // a limit, for a learner that ends or no longer samples
  } else if (yielding_samples_ > 0) {
    --yielding_samples_;
    if (yielding_samples_ == 0) end_yielding();
  }
}

void PriorityView::give_way_until(std::uint64_t head) {
  store_.requested_until_.store(head, relaxed);
  header_.give_way_until.store(head, relaxed);
}

// Another learner's later request stays.
void PriorityView::end_yielding() {
  std::uint64_t requested = store_.requested_until_.load(relaxed);
  store_.requested_until_.store(0, relaxed);
  header_.give_way_until.compare_exchange_strong(requested, 0, relaxed);
}

void PriorityView::catch_up() {
  RB_FAILPOINT(T0);
  const bool has_sampled = has_caught_up_;  // otherwise it is not late
  const std::uint64_t seen_before = seen_;  // an evicted learner starts again
  if (!has_caught_up_) process_ = getpid();
  has_caught_up_ = true;
  if (by_priority_ && !is_registered()) join();
  if (const std::uint64_t cleared = header_.cleared.load(acquire); cleared != cleared_) {
    tree_.clear();
    possible_ = 0;
    open_.clear();
    cleared_ = seen_ = cleared;
  }
  RB_FAILPOINT(T1);
  const std::uint64_t head = std::max(header_.head.load(acquire), seen_);
  if (has_sampled) request_yielding(head, std::min(head - std::max(seen_before, seen_), store_.capacity()));
  RB_FAILPOINT(T2);
  std::erase_if(open_, [&](Open& open) {
    const bool still = ClaimWord{header_.registrations[open.registration].claim.load(acquire)} == open.claim;
    still ? refresh_open_claim(open) : refresh_rows(open.claim.first(), open.claim.count());
    return !still;
  });
  RB_FAILPOINT(T3);
  const std::size_t registrations = store_.registrations_used();
  for (std::size_t registration = 0; registration < registrations; ++registration) {
    const ClaimWord claim{header_.registrations[registration].claim.load(acquire)};
    if (claim.count() != 0 && claim.first() < head &&
        std::none_of(open_.begin(), open_.end(), [&](const Open& open) { return open.is(registration, claim); }))
      open_.push_back({registration, claim});
  }
  RB_FAILPOINT(T4);
  if (head != seen_) refresh_rows(seen_, head - seen_);
  seen_ = head;
  RB_FAILPOINT(T5);
  if (by_priority_) read_journal();
}

void PriorityView::read_journal() {
  const std::uint64_t end = header_.journal_head.load();
  if (is_old(journal_seen_, end)) {
    refresh_all();
    journal_seen_ = end - entries_ / 2;
  }
  changed_.clear();
  const auto is_done = [&](std::uint64_t number) {
    const Entry found{entry(number).load(acquire)};
    if (!found.is_of(round(number))) return false;
    changed_.push_back(found.slot());
    return found.is_done();
  };
  // If an entry is old and still not done, either its writer has died and this last look suffices, or the writer will
  // write a new entry.
  std::erase_if(late_, [&](std::uint64_t number) { return is_done(number) || is_old(number, end); });
  for (; journal_seen_ != end; ++journal_seen_)
    if (!is_done(journal_seen_)) late_.push_back(journal_seen_);
  for (const std::size_t slot : changed_) set_leaf(slot, leaf_in(slot));
  tree_.refresh_scattered(changed_);
  publish_progress();
}

std::uint64_t PriorityView::remember(const Drawn& drawn) {
  const std::uint64_t number = samples_.remember(drawn.slots, drawn.rows);
  sampled_at_ = seen_;
  return number;
}

// Returns the rows that were sampled at `index`, in the same order: kNoRow where the samples that may be meant differ,
// and kNotDrawn where no sample drew the slot.
const std::uint64_t* PriorityView::rows_meant(const std::int64_t* index, std::size_t count, std::uint64_t sample) {
  const std::uint64_t* rows = nullptr;
  const bool found = samples_.each_meant(index, count, sample, [&](const std::vector<std::uint64_t>& those) {
    if (rows == nullptr) {
      rows = those.data();
      return;
    }
    if (rows != agreed_.data()) agreed_.assign(rows, rows + count);
    for (std::size_t i = 0; i < count; ++i)
      if (agreed_[i] != those[i]) agreed_[i] = kNoRow;
    rows = agreed_.data();
  });
  if (found) return rows;
  agreed_.assign(count, kNotDrawn);
  samples_.each_that_drew(index, count,
                          [this](std::size_t i, const std::vector<std::uint64_t>& those, std::size_t place) {
                            agreed_[i] = agreed_[i] == kNotDrawn || agreed_[i] == those[place] ? those[place] : kNoRow;
                          });
  return agreed_.data();
}

bool PriorityView::update(const std::int64_t* index, std::size_t count, const float* leaves, std::uint64_t sample) {
  return set_those(index, count, leaves, meant(index, count, sample));
}

PriorityView::Meant PriorityView::meant(const std::int64_t* index, std::size_t count, std::uint64_t sample) {
  return {rows_meant(index, count, sample), sampled_at_};
}

bool PriorityView::update_rows(const std::int64_t* rows, std::size_t count, const float* leaves) {
  slots_.resize(count);
  for (std::size_t i = 0; i < count; ++i) slots_[i] = static_cast<std::uint64_t>(rows[i]) % store_.capacity();
  return set_those(slots_.data(), count, leaves,
                   [rows](std::size_t i, std::uint64_t row) { return row == static_cast<std::uint64_t>(rows[i]); });
}

void PriorityView::set(const std::vector<std::size_t>& slots, const float* leaves) {
  set_those(slots.data(), slots.size(), leaves, [](std::size_t, std::uint64_t) { return true; });
}

// Sets each leaf whose slot holds a row for which is_meant(its place in `index`, row) is true. Returns whether there
// was any such leaf.
template <class Index, class IsMeant>
bool PriorityView::set_those(const Index* index, std::size_t count, const float* leaves, IsMeant is_meant) {
  const bool others = has_others();
  changes_.clear();
  changed_.clear();
  const auto set = [this](std::size_t slot, float leaf) {
    set_leaf(slot, leaf);
    changed_.push_back(slot);
  };
  for (std::size_t i = 0; i < count; ++i) {
    const auto slot = static_cast<std::size_t>(index[i]);
    const auto row = store_.row_in(slot);
    if (!row || !is_meant(i, *row) || !is_end(slot)) continue;
    if (others)
      changes_.push_back({slot, *row, leaves[i]});
    else if (change(slot, *row, leaves[i]))
      set(slot, leaves[i]);
  }
  // Works in small groups, because otherwise the first entry would be old by the time the last one has its number.
  const std::size_t most = entries_ / 8;
  for (std::size_t at = 0; at < changes_.size(); at += most)
    change_with_journal(at, std::min(at + most, changes_.size()));
  for (const Change& each : changes_)
    if (each.made) set(each.slot, each.leaf);
  if (changed_.empty()) return false;
  if (!others && has_others())  // another learner has joined meanwhile
    for (const std::size_t slot : changed_) write_journal(slot, true);
  tree_.refresh_scattered(changed_);
  return true;
}

// Steps U1 to U3 for changes_[first] .. [last - 1].
void PriorityView::change_with_journal(std::size_t first, std::size_t last) {
  const std::uint64_t number = take_numbers(last - first);
  for (std::size_t i = first; i < last; ++i) {
    Change& each = changes_[i];
    each.number = number + (i - first);
    if (!write_entry(each.number, each.slot, false)) each.number = write_journal(each.slot, false);
    each.made = change(each.slot, each.row, each.leaf);
    RB_FAILPOINT(U3);
    each.marked = mark_done(each.number, each.slot);
  }
  // A learner drops an entry that is old and not done, after a last look at the slot. If it loaded the journal's end
  // before we do here, we also find the entry old. If it loads it afterwards, its last look sees our change. All of
  // these operations are sequentially consistent.
  const std::uint64_t end = header_.journal_head.load();
  for (std::size_t i = first; i < last; ++i)
    if (const Change& each = changes_[i]; each.made && (!each.marked || is_old(each.number, end)))
      write_journal(each.slot, true);
}

// This is sequentially consistent, like change(): see join().
bool PriorityView::has_others() const {
  for (std::size_t place = 0; place < learners_used(); ++place)
    if (const std::uint64_t found = header_.learners[place].load(); found != 0 && found != registration_.bits)
      return true;
  return false;
}

// U1: one atomic operation for all entries, because every updater contends for this word.
std::uint64_t PriorityView::take_numbers(std::uint64_t count) {
  RB_FAILPOINT(U1);
  const std::uint64_t number = header_.journal_head.fetch_add(count), end = number + count, mark = entries_ / 8;
  if (journal_seen_ == number) journal_seen_ = end;  // our own entries need not be read
  if (number / mark != end / mark) evict_lagging_learners(end);
  return number;
}

// U1. Returns false if we were stopped for a whole round, so that the entry belongs to a later number.
bool PriorityView::write_entry(std::uint64_t number, std::size_t slot, bool done) {
  RB_FAILPOINT(U1);
  std::uint64_t found = entry(number).load(relaxed);
  while (!Entry{found}.is_of_a_later(round(number)))
    if (entry(number).compare_exchange_weak(found, Entry::of(round(number), slot, done).bits, release, relaxed))
      return true;
  return false;
}

std::uint64_t PriorityView::write_journal(std::size_t slot, bool done) {
  for (;;)
    if (const std::uint64_t number = take_numbers(1); write_entry(number, slot, done)) return number;
}

// U3. Returns false if the entry belongs to a later number.
bool PriorityView::mark_done(std::uint64_t number, std::size_t slot) {
  std::uint64_t announced = Entry::of(round(number), slot, false).bits;
  return entry(number).compare_exchange_strong(announced, Entry::of(round(number), slot, true).bits, release, relaxed);
}

// Step U2.
bool PriorityView::change(std::size_t slot, std::uint64_t row, float leaf) {
  Atomic& priority = store_.priority(slot);
  PriorityWord found{priority.load(relaxed)};
  while (found.is_of(row)) {
    RB_FAILPOINT(U2);
    if (priority.compare_exchange_weak(found.bits, PriorityWord::of(row, leaf).bits)) return true;
  }
  return false;
}

}  // namespace rb
