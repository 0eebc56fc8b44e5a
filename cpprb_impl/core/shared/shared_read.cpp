// How learners read rows while explorers write: steps L1 to L4.
// Every memory order stronger than relaxed has a line in tests/weak_memory/orders, which `make orders` checks.
#include <algorithm>
#include <stdexcept>

#include "../base/failpoints.hpp"
#include "priority_view.hpp"
#include "shared_store.hpp"
#include "shared_view.hpp"

namespace rb {
namespace {

constexpr auto acquire = std::memory_order_acquire;

}  // namespace

void SharedView::give_up() {
  throw std::runtime_error(
      "rows were overwritten faster than they could be read: the buffer is too small for its explorers");
}

std::optional<std::uint64_t> SharedStore::committed_in(std::uint64_t slot) const {
  const SlotWord found{word(slot).load(acquire)};
  if (!found.is_written() || found.row() < header_->cleared.load(acquire)) return std::nullopt;
  return found.row();
}

// A committed row's frames may already be gone, since they are reused before the row's slot is.
std::optional<std::uint64_t> SharedStore::row_in(std::uint64_t slot) const {
  const auto row = committed_in(slot);
  if (!row || (framed_ && expiry_.is_expired(*row))) return std::nullopt;
  const std::uint64_t number = *row;  // for a new optional, since GCC copies one in a way that costs a stall
  return number;
}

// Reads the rows in drawn.slots[first] .. [last - 1] into the same places of `to`. Places whose rows could not be read
// are added to drawn.failed.
void SharedStore::read_tile(Drawn& drawn, std::size_t first, std::size_t last, char* const* to) const {
  rows_->prefetch(drawn.slots.data() + first, last - first);
  for (std::size_t i = first; i < last; ++i) {
    RB_FAILPOINT(L1);
    drawn.rows[i] = committed_in(drawn.slots[i]).value_or(kNoRow);
  }
  copy_found(drawn, first, last, to);
  const bool by_priority = !drawn.leaves.empty();
  for (std::size_t i = first; i < last; ++i) {
    const std::uint64_t row = drawn.rows[i];
    bool good = row != kNoRow;
    if (by_priority)  // refresh_leaf() returned 0: the row has lost its mass since it was drawn
      good = good && drawn.leaves[i] > 0 &&
             PriorityWord{priority(drawn.slots[i]).load(acquire)} == PriorityWord::of(row, drawn.leaves[i]);
    if (!good || !is_still(row, drawn.slots[i])) drawn.failed.push_back(i);
  }
}

// L2 and L4, for rows whose numbers are known from L1. A row that has expired meanwhile becomes kNoRow.
void SharedStore::copy_found(Drawn& drawn, std::size_t first, std::size_t last, char* const* to) const {
  RB_FAILPOINT(L2);
  rows_->read(drawn.slots.data(), first, last, drawn.slots.size(), to);
  if (!framed_) return;
  for (std::size_t i = first; i < last; ++i) {
    RB_FAILPOINT(L4);
    if (drawn.rows[i] != kNoRow && expiry_.is_expired(drawn.rows[i])) drawn.rows[i] = kNoRow;
  }
}

void SharedStore::read_drawn(Drawn& drawn, char* const* to, Waiting& waiting) {
  const std::size_t count = drawn.slots.size(), tile = rows_->tile();
  drawn.rows.resize(count);
  drawn.failed.clear();
  copy(count, waiting, [&] {
    for (std::size_t at = 0; at < count; at += tile) read_tile(drawn, at, std::min(at + tile, count), to);
  });
}

Found SharedView::none_found() {
  const std::uint64_t cleared = store_.header_->cleared.load(acquire), possible = store_.rows_possible();
  bool overwritten = false;
  for (std::uint64_t slot = 0; slot < possible; ++slot) {
    const SlotWord found{store_.word(slot).load(acquire)};
    if (store_.row_in(slot)) return Found::no_mass;
    const bool expired = found.is_written() && found.row() >= cleared;  // a later row was claimed for its slot
    overwritten |= expired || (found.is_writing() && found.row() >= cleared + capacity());
  }
  if (overwritten) give_up();
  return Found::nothing;
}

PriorityView& SharedStore::priorities() {
  if (!priorities_) priorities_ = std::make_unique<PriorityView>(*this, sequences_, prioritized());
  return *priorities_;
}

std::size_t SharedStore::update(const std::int64_t* index, std::size_t count, const float* leaves, double largest,
                                std::uint64_t sample) {
  for (std::size_t i = 0; i < count; ++i)
    if (static_cast<std::uint64_t>(index[i]) >= capacity()) return i;
  if (!priorities().update(index, count, leaves, sample)) return kAllLate;
  raise_max_priority(largest);
  return kAllGood;
}

std::vector<std::size_t> SharedStore::late(const std::int64_t* index, std::size_t count, std::uint64_t sample) {
  std::vector<std::size_t> places;
  const auto is_meant = priorities().meant(index, count, sample);
  for (std::size_t i = 0; i < count; ++i) {
    const auto slot = static_cast<std::uint64_t>(index[i]);
    const auto row = slot < capacity() ? row_in(slot) : std::nullopt;
    if (!row || !is_meant(i, *row)) places.push_back(i);
  }
  return places;
}

std::vector<std::size_t> SharedStore::late_rows(const std::int64_t* rows, std::size_t count) const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = static_cast<std::uint64_t>(rows[i]);
    if (row_in(row % capacity()) != row) places.push_back(i);
  }
  return places;
}

std::size_t SharedStore::update_rows(const std::int64_t* rows, std::size_t count, const float* leaves, double largest) {
  if (!priorities().update_rows(rows, count, leaves)) return kAllLate;
  raise_max_priority(largest);
  return kAllGood;
}

float SharedStore::leaf(std::uint64_t slot) { return priorities().leaf_in(slot); }

void SharedStore::set_leaves(std::vector<std::size_t>& slots, const float* leaves) {
  priorities().catch_up();
  priorities().set(slots, leaves);
}

float SharedStore::largest_leaf() {
  priorities().catch_up();
  return priorities().tree().bounds().largest;
}

std::size_t SharedStore::read(const std::vector<std::size_t>& slots, char* const* to, Waiting& waiting) {
  Drawn drawn;
  drawn.slots = slots;
  const auto may_be_there = [&](std::uint64_t slot) {
    return committed_in(slot) || SlotWord{word(slot).load(acquire)}.is_writing();
  };
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (slots[i] >= capacity() || !may_be_there(slots[i])) return i;
  read_drawn(drawn, to, waiting);
  std::size_t missing = kAllGood;
  const bool read = SharedView(*this).read_failed_again(drawn, to, [&](std::size_t i) {
    missing = i;
    return row_in(slots[i]).has_value();
  });
  return read ? kAllGood : missing;
}

std::size_t SharedStore::read_stored(const std::vector<std::size_t>& slots, char* const* to, Waiting& waiting) {
  Drawn drawn;
  drawn.slots.resize(slots.size());
  drawn.rows.resize(slots.size());
  std::size_t done = 0;
  copy(slots.size(), waiting, [&] {
    const std::size_t most = rows_->tile();
    std::size_t tile = most;
    unsigned tries = 0;
    for (std::size_t next = 0; next < slots.size();) {
      const std::size_t count = std::min(tile, slots.size() - next);
      std::copy_n(slots.begin() + static_cast<std::ptrdiff_t>(next), count,
                  drawn.slots.begin() + static_cast<std::ptrdiff_t>(done));
      drawn.failed.clear();
      read_tile(drawn, done, done + count, to);
      if (drawn.failed.empty()) {
        done += count;
      } else if (count > 1 || (++tries < SharedView::kTriesAtOnce && row_in(slots[next]))) {
        tile = std::max<std::size_t>(count / 2, 1);
        continue;
      }  // otherwise the row is being written, so it counts as removed
      next += count;
      tries = 0;
      tile = std::min(2 * tile, most);
    }
  });
  return done;
}

}  // namespace rb
