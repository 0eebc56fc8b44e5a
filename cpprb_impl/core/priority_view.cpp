#include "priority_view.hpp"

#include <algorithm>
#include <bit>

#include "points.hpp"
#include "shared_store.hpp"

namespace rb {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;

// An entry of the journal: which round of the journal it belongs to, from 1 on, and the slot.
constexpr unsigned kSlotBits = 40;
constexpr std::uint64_t kSlots = std::uint64_t{1} << kSlotBits;

}  // namespace

std::uint64_t PriorityView::journal_entries(std::uint64_t capacity) {
  return std::bit_ceil(std::clamp<std::uint64_t>(capacity, 1 << 8, 1 << 16));
}

PriorityView::PriorityView(SharedStore& store)
    : store_(store),
      header_(*store.header_),
      journal_(reinterpret_cast<Atomic*>(store.memory_.data() + store.header_->journal_at)),
      entries_(journal_entries(store.capacity())),
      memory_(Memory::make_private(PriorityTree::bytes(store.capacity()))),
      tree_(memory_.data(), store.capacity()) {
  tree_.format();
}

PriorityView::~PriorityView() {
  if (counted_) header_.learners.fetch_sub(1);
}

float PriorityView::leaf_in(std::uint64_t slot) const {
  const auto row = store_.row_in(slot);
  const PriorityWord found{store_.priority(slot).load()};  // sequentially consistent: see catch_up()
  return row && found.is_of(*row) ? found.leaf() : 0.0f;
}

void PriorityView::mend(std::size_t slot) {
  tree_.leaves()[slot] = leaf_in(slot);
  tree_.refresh(slot, 1);
}

// `count` rows from number `first` on.
void PriorityView::look_at(std::uint64_t first, std::uint64_t count) {
  const std::uint64_t capacity = store_.capacity();
  if (count >= capacity) return look_at_all();
  const std::uint64_t slot = first % capacity, before_end = std::min(count, capacity - slot);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t each = slot + i < capacity ? slot + i : slot + i - capacity;
    tree_.leaves()[each] = leaf_in(each);
  }
  tree_.refresh(slot, before_end);
  tree_.refresh(0, count - before_end);
}

void PriorityView::look_at_all() {
  for (std::uint64_t slot = 0; slot < store_.capacity(); ++slot) tree_.leaves()[slot] = leaf_in(slot);
  tree_.rebuild();
}

void PriorityView::catch_up() {
  if (!counted_) {
    // Sequentially consistent, as an updater's look at the number of learners after its change: either it sees us
    // and writes into the journal, or we see its change.
    header_.learners.fetch_add(1);
    counted_ = true;
    journal_seen_ = header_.journal_head.load(acquire);
    look_at_all();
  }
  if (const std::uint64_t cleared = header_.cleared.load(acquire); cleared != cleared_) {
    tree_.format();
    open_.clear();
    cleared_ = seen_ = cleared;
  }
  RB_POINT(T1);
  const std::uint64_t head = std::max(header_.head.load(acquire), seen_);
  RB_POINT(T2);
  std::erase_if(open_, [&](Open& open) {
    const bool still = ClaimWord{header_.seats[open.seat].claim.load(acquire)} == open.claim;
    // What a stopped or dead explorer committed of it is there. More and more seldom: such a claim may stay for long.
    if (!still || std::has_single_bit(++open.times)) look_at(open.claim.first(), open.claim.count());
    return !still;
  });
  RB_POINT(T3);
  const std::size_t seats = std::min<std::size_t>(header_.seats_used.load(acquire), kSeats);
  for (std::size_t seat = 0; seat < seats; ++seat) {
    const ClaimWord claim{header_.seats[seat].claim.load(acquire)};
    if (claim.count() != 0 && claim.first() < head &&
        std::none_of(open_.begin(), open_.end(), [&](const Open& open) { return open.is(seat, claim); }))
      open_.push_back({seat, claim});
  }
  RB_POINT(T4);
  if (head != seen_) look_at(seen_, head - seen_);
  seen_ = head;
  RB_POINT(T5);
  read_journal();
}

void PriorityView::read_journal() {
  const std::uint64_t end = header_.journal_head.load(acquire);
  if (end - journal_seen_ > entries_ / 2) {  // the oldest may have been written over
    journal_seen_ = end;
    late_.clear();
    return look_at_all();
  }
  changed_.clear();
  const auto read = [&](std::uint64_t number) {
    const std::uint64_t found = entry(number).load(acquire), round = number / entries_ + 1;
    if (found / kSlots == round % (1 << 24)) changed_.push_back(found % kSlots);
    return found / kSlots == round % (1 << 24);
  };
  // Of a learner that was killed between claiming and writing an entry it never comes.
  std::erase_if(late_, [&](std::uint64_t number) { return read(number) || end - number > entries_ / 2; });
  for (; journal_seen_ != end; ++journal_seen_)
    if (!read(journal_seen_)) late_.push_back(journal_seen_);
  for (const std::size_t slot : changed_) tree_.leaves()[slot] = leaf_in(slot);
  tree_.refresh_scattered(changed_);
}

void PriorityView::remember(const Drawn& drawn) {
  Sample& sample = samples_[next_sample_++ % kRemembered];
  sample.slots = drawn.slots;
  sample.rows = drawn.rows;
  sampled_at_ = seen_;
}

const PriorityView::Sample* PriorityView::sample_of(const std::int64_t* index, std::size_t count) const {
  for (std::size_t back = 1; back <= kRemembered; ++back) {
    const Sample& sample = samples_[(next_sample_ + kRemembered - back) % kRemembered];
    if (sample.slots.size() == count && std::equal(index, index + count, sample.slots.begin(),
                                                   [](auto a, auto b) { return static_cast<std::size_t>(a) == b; }))
      return &sample;
  }
  return nullptr;
}

bool PriorityView::update(const std::int64_t* index, std::size_t count, const float* leaves) {
  const Sample* sample = sample_of(index, count);
  changed_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const auto slot = static_cast<std::size_t>(index[i]);
    const auto row = store_.row_in(slot);
    if (!row || (sample != nullptr ? *row != sample->rows[i] : *row >= sampled_at_)) continue;
    Atomic& priority = store_.priority(slot);
    PriorityWord found{priority.load(relaxed)};
    bool changed = false;
    while (!changed && found.is_of(*row)) {
      RB_POINT(U1);
      // Sequentially consistent: see catch_up().
      changed = priority.compare_exchange_weak(found.bits, PriorityWord::of(*row, leaves[i]).bits);
    }
    if (!changed) continue;
    tree_.leaves()[slot] = leaves[i];
    changed_.push_back(slot);
  }
  if (changed_.empty()) return false;
  if (header_.learners.load() > (counted_ ? 1u : 0u)) write_journal();
  tree_.refresh_scattered(changed_);
  return true;
}

// U2.
void PriorityView::write_journal() {
  std::uint64_t number = header_.journal_head.fetch_add(changed_.size(), relaxed);
  const std::uint64_t first = number;
  for (const std::size_t slot : changed_) {
    RB_POINT(U2);
    entry(number).store((number / entries_ + 1) % (1 << 24) * kSlots + slot, release);
    ++number;
  }
  // No need to read what we wrote ourselves.
  if (journal_seen_ == first && late_.empty()) journal_seen_ = number;
}

}  // namespace rb
