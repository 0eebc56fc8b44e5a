#include "private_store.hpp"

#include <utility>

#include "../base/sizes.hpp"

namespace rb {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kNoRow = ~std::uint64_t{0};

}  // namespace

PrivateStore::PrivateStore(std::unique_ptr<Rows> rows, std::uint64_t capacity, bool prioritized, bool check_for_update)
    : Store(std::move(rows)), capacity_(capacity), prioritized_(prioritized), check_for_update_(check_for_update) {
  rows_->check_sizes(capacity);
  const std::uint64_t rows_at = prioritized ? round_up(PriorityTree::bytes(capacity), kPage) : 0;
  const std::uint64_t end = plus(rows_at, times(capacity, rows_->stride()));
  memory_ = Memory::make_private(round_up(plus(end, 1), kPage));  // at least one byte, even without fields
  if (prioritized) tree_ = PriorityTree(memory_.data(), capacity);
  rows_->bind(memory_.data() + rows_at, capacity);
}

std::uint64_t PrivateStore::add(const NewRows& rows, Waiting&) {
  const std::size_t skip = rows.count > capacity_ ? rows.count - capacity_ : 0;
  rows_->prepare(rows.data, skip, rows.count, head_);
  const std::uint64_t first = std::exchange(head_, head_ + rows.count);
  if (head_ - tail_ > capacity_) tail_ = head_ - capacity_;
  const std::uint64_t slot = (first + skip) % capacity_;
  rows_->write(rows.data, skip, rows.count, slot);
  if (prioritized_) {
    raise_max_priority(rows.largest);
    const std::size_t count = rows.count - skip, before_end = std::min<std::size_t>(count, capacity_ - slot);
    float* leaf = tree_.leaves();
    if (rows.leaves != nullptr) {
      std::copy_n(rows.leaves + skip, before_end, leaf + slot);
      std::copy_n(rows.leaves + skip + before_end, count - before_end, leaf);
    } else {
      std::fill_n(leaf + slot, before_end, rows.leaf);
      std::fill_n(leaf, count - before_end, rows.leaf);
    }
  }
  if (rows_->has_frames()) rows_->forget_before(tail_ % capacity_, head_ - tail_);
  return first % capacity_;
}

void PrivateStore::fill(const std::vector<std::size_t>& slots, char* const* to, Waiting& waiting) {
  if (to == nullptr) return;
  const std::size_t count = slots.size(), tile = rows_->tile();
  copy(count, waiting, [&] {
    for (std::size_t at = 0; at < count; at += tile) {
      const std::size_t end = std::min(at + tile, count);
      rows_->prefetch(slots.data() + at, end - at);
      rows_->read(slots.data(), at, end, count, to);
    }
  });
}

// Calls use(place in `index`, slot) for each row that is meant. With check_for_update, a row is meant if it was stored
// when its sample was drawn: before the head at that time. If several samples may be meant, the oldest sample's head is
// used, so that rows in which they differ are not updated.
template <class Use>
void PrivateStore::with_meant(const std::int64_t* index, std::size_t count, std::uint64_t sample, Use use) const {
  const auto each = [&](auto is_meant) {
    for (std::size_t i = 0; i < count; ++i)
      if (const auto slot = static_cast<std::size_t>(index[i]); is_meant(i, row_of(slot))) use(i, slot);
  };
  std::uint64_t end = kNoRow;
  const auto is_earlier = [&end](std::uint64_t head) { end = std::min(end, head); };
  if (!check_for_update_) {
    each([](std::size_t, std::uint64_t) { return true; });
  } else if (samples_.each_meant(index, count, sample, is_earlier)) {
    each([end](std::size_t, std::uint64_t row) { return row < end; });
  } else {
    std::vector<std::uint64_t> ends(count, sampled_at);
    samples_.each_that_drew(index, count,
                            [&](std::size_t i, std::uint64_t head, std::size_t) { ends[i] = std::min(ends[i], head); });
    each([&ends](std::size_t i, std::uint64_t row) { return row < ends[i]; });
  }
}

std::size_t PrivateStore::update(const std::int64_t* index, std::size_t count, const float* leaves, double largest,
                                 std::uint64_t sample) {
  for (std::size_t i = 0; i < count; ++i)
    if (!holds(static_cast<std::uint64_t>(index[i]))) return i;
  changed_.clear();
  with_meant(index, count, sample, [&](std::size_t i, std::size_t slot) {
    tree_.leaves()[slot] = leaves[i];
    changed_.push_back(slot);
  });
  if (changed_.empty()) return kAllLate;
  raise_max_priority(largest);
  tree_.refresh_scattered(changed_);
  return kAllGood;
}

std::vector<std::size_t> PrivateStore::meant(const std::int64_t* index, std::size_t count, std::uint64_t sample) const {
  std::vector<std::size_t> places;
  with_meant(index, count, sample, [&](std::size_t i, std::size_t) { places.push_back(i); });
  return places;
}

float PrivateStore::largest_leaf() {
  bring_tree_up_to_date();  // the largest leaf may have been added or removed since the last sample
  return tree_.bounds().largest;
}

std::size_t PrivateStore::read(const std::vector<std::size_t>& slots, char* const* to, Waiting& waiting) {
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (!holds(slots[i])) return i;
  fill(slots, to, waiting);
  return kAllGood;
}

std::vector<std::size_t> PrivateStore::stored_slots() {
  std::vector<std::size_t> slots;
  slots.reserve(stored());
  for (std::uint64_t slot = 0; slot < capacity_; ++slot)
    if (holds(slot)) slots.push_back(slot);
  return slots;
}

std::size_t PrivateStore::read_stored(const std::vector<std::size_t>& slots, char* const* to, Waiting& waiting) {
  fill(slots, to, waiting);
  return slots.size();
}

void PrivateStore::bring_tree_up_to_date() {
  const std::uint64_t known = std::exchange(in_tree_, head_), count = head_ - known;
  if (count >= capacity_) return tree_.rebuild();
  const std::uint64_t from = known % capacity_, before_end = std::min(count, capacity_ - from);
  tree_.refresh(from, before_end);
  tree_.refresh(0, count - before_end);
}

void PrivateStore::set_leaves(std::vector<std::size_t>& slots, const float* leaves) {
  for (std::size_t i = 0; i < slots.size(); ++i) tree_.leaves()[slots[i]] = leaves[i];
  tree_.refresh_scattered(slots);
}

void PrivateStore::hold(std::uint64_t next, std::uint64_t count, float leaf) {
  if (count == 0) return clear_to(next);
  const std::uint64_t written = (next + capacity_ - next_slot()) % capacity_;
  if (std::min(stored() + written, capacity_) == count) {
    for (std::uint64_t row = head_; prioritized_ && row < head_ + written; ++row)
      tree_.leaves()[row % capacity_] = leaf;
    head_ += written;
  } else {
    const auto is_held_then = [&](std::uint64_t slot) { return (next + capacity_ - 1 - slot) % capacity_ < count; };
    for (std::uint64_t slot = 0; prioritized_ && slot < capacity_; ++slot)
      if (holds(slot) != is_held_then(slot)) tree_.leaves()[slot] = is_held_then(slot) ? leaf : 0;
    head_ = (head_ + capacity_ - 1) / capacity_ * capacity_ + next;
    if (head_ < count) head_ += capacity_;
    in_tree_ = head_;
    if (prioritized_) tree_.rebuild();  // every leaf may have changed
  }
  tail_ = head_ - count;
}

void PrivateStore::clear_to(std::uint64_t slot) {
  if (prioritized_) {
    bring_tree_up_to_date();
    tree_.clear();
    max_priority_ = 1.0;
  }
  head_ = tail_ = in_tree_ = (head_ + capacity_ - 1) / capacity_ * capacity_ + slot;
  rows_->clear();
}

}  // namespace rb
