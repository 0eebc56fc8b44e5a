// How learners read rows while explorers write: steps L1 to L4.
#include <sched.h>

#include <algorithm>
#include <stdexcept>

#include "failpoints.hpp"
#include "priority_view.hpp"
#include "shared_store.hpp"

namespace rb {
namespace {

constexpr auto acquire = std::memory_order_acquire;
constexpr std::uint64_t kNoRow = ~std::uint64_t{0};

// Explorers in a ring of very few rows may leave hardly a moment in which a row can be read.
constexpr unsigned kTries = 100'000, kTriesAtOnce = 100, kLooks = 100;
// So seldom is looked at every slot, or at all that changed: but before giving up.
constexpr std::size_t kSeldom = kTries / 2;

[[noreturn]] void give_up() {
  throw std::runtime_error(
      "rows were overwritten faster than they could be read: the buffer is too small for its explorers");
}

}  // namespace

std::optional<std::uint64_t> SharedStore::committed_in(std::uint64_t slot) const {
  const SlotWord found{word(slot).load(acquire)};
  if (!found.is_written() || found.row() < header_->cleared.load(acquire)) return std::nullopt;
  return found.row();
}

// A committed row may be without its frames: they are used again before its slot is.
std::optional<std::uint64_t> SharedStore::row_in(std::uint64_t slot) const {
  const auto row = committed_in(slot);
  return row && framed_ && expiry_.is_expired(*row) ? std::nullopt : row;
}

// The rows of drawn.slots[first] .. [last - 1] to the same places of `to`. What could not be read has failed.
void SharedStore::read_tile(Drawn& drawn, std::size_t first, std::size_t last, char* const* to) const {
  rows_->prefetch(drawn.slots.data() + first, last - first);
  for (std::size_t i = first; i < last; ++i) {
    RB_FAILPOINT(L1);
    drawn.rows[i] = committed_in(drawn.slots[i]).value_or(kNoRow);
  }
  RB_FAILPOINT(L2);
  rows_->read(drawn.slots.data(), first, last, drawn.slots.size(), to);
  if (framed_)
    for (std::size_t i = first; i < last; ++i) {
      RB_FAILPOINT(L4);
      if (drawn.rows[i] != kNoRow && expiry_.is_expired(drawn.rows[i])) drawn.rows[i] = kNoRow;
    }
  const bool by_priority = !drawn.leaves.empty();
  for (std::size_t i = first; i < last; ++i) {
    const std::uint64_t row = drawn.rows[i];
    bool good = row != kNoRow;
    if (by_priority)  // a leaf of 0 comes from refresh_leaf(): the row has lost its mass since it was drawn
      good = good && drawn.leaves[i] > 0 &&
             PriorityWord{priority(drawn.slots[i]).load(acquire)} == PriorityWord::of(row, drawn.leaves[i]);
    RB_FAILPOINT(L3);
    if (!good || SlotWord{word(drawn.slots[i]).load(acquire)} != SlotWord::written(row)) drawn.failed.push_back(i);
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

// `draw(i)` draws place i anew; false if there is nothing to draw from just now. Returns false if that lasts.
template <class Draw>
bool SharedStore::read_failed_again(Drawn& drawn, char* const* to, Draw&& draw) const {
  unsigned failures = 0, nothing = 0;  // one after the other
  while (!drawn.failed.empty()) {
    const std::size_t i = drawn.failed.back();
    if (!draw(i)) {
      if (++nothing == kLooks) return false;
      sched_yield();
      continue;
    }
    drawn.failed.pop_back();
    read_tile(drawn, i, i + 1, to);
    failures = drawn.failed.empty() || drawn.failed.back() != i ? 0 : failures + 1;
    if (failures == kTries) give_up();
    if (failures % kTriesAtOnce == kTriesAtOnce - 1) sched_yield();
  }
  return true;
}

Found SharedStore::sample(Random& random, Drawn& drawn, char* const* to, Waiting& waiting) {
  const std::uint64_t possible = rows_possible();
  if (possible == 0) return Found::nothing;
  drawn.leaves.clear();
  for (auto& slot : drawn.slots) slot = random.below(possible);
  read_drawn(drawn, to, waiting);
  // Of a ring that was hardly begun when its explorers died few slots hold a row: then these are drawn from.
  std::vector<std::size_t> stored;
  const std::size_t many = std::min(kTriesAtOnce * drawn.slots.size(), kSeldom);
  std::size_t tries = 0;
  const auto draw = [&](std::size_t i) {
    const std::uint64_t now = rows_possible();  // fewer than before if another process has cleared the buffer
    if (now == 0) return false;
    if (++tries % many == 0 || (tries > many && stored.empty())) stored = stored_slots();
    drawn.slots[i] = stored.empty() ? random.below(now) : stored[random.below(stored.size())];
    return tries < many || !stored.empty();
  };
  while (!read_failed_again(drawn, to, draw))
    if (none_found() == Found::nothing) return Found::nothing;
  return Found::rows;
}

// Nothing, or rows without mass. A buffer whose every row is just being overwritten is not empty: then it gives up.
Found SharedStore::none_found() {
  const std::uint64_t cleared = header_->cleared.load(acquire), possible = rows_possible();
  bool overwritten = false;
  for (std::uint64_t slot = 0; slot < possible; ++slot) {
    const SlotWord found{word(slot).load(acquire)};
    if (row_in(slot)) return Found::no_mass;
    const bool over = found.is_written() && found.row() >= cleared;  // a later row was claimed for its slot
    overwritten |= over || (found.is_writing() && found.row() >= cleared + capacity());
  }
  if (overwritten) give_up();
  return Found::nothing;
}

PriorityView& SharedStore::view() {
  if (!view_) view_ = std::make_unique<PriorityView>(*this);
  return *view_;
}

Found SharedStore::sample_by_priority(Random& random, Drawn& drawn, char* const* to, Waiting& waiting) {
  if (rows_possible() == 0) return Found::nothing;
  PriorityView& known = view();
  known.catch_up();
  // Rows may be there in a moment.
  for (unsigned tries = 0; !(known.tree().total() > 0); ++tries) {
    const Found found = tries < kTriesAtOnce ? Found::rows : none_found();
    sched_yield();
    known.catch_up();
    if (found != Found::rows && !(known.tree().total() > 0)) return found;
  }
  drawn.leaves.resize(drawn.slots.size());
  known.tree().draw(random, drawn.slots.size(), drawn.slots.data());
  for (std::size_t i = 0; i < drawn.slots.size(); ++i) drawn.leaves[i] = known.tree().leaves()[drawn.slots[i]];
  drawn.smallest = known.tree().bounds().smallest;
  read_drawn(drawn, to, waiting);
  const std::size_t many = std::clamp<std::size_t>(capacity() / 16, kTriesAtOnce, kSeldom);
  std::size_t tries = 1;
  const auto draw = [&](std::size_t i) {
    known.refresh_leaf(drawn.slots[i]);
    if (tries % many == 0) known.catch_up();
    if (!(known.tree().total() > 0)) known.catch_up();
    if (!(known.tree().total() > 0)) return false;
    known.tree().draw(random, 1, &drawn.slots[i]);
    // Explorers that lap the ring faster than a tree can follow: the row that is there now is as good as any.
    if (++tries > drawn.slots.size()) known.refresh_leaf(drawn.slots[i]);
    drawn.leaves[i] = known.tree().leaves()[drawn.slots[i]];
    return true;
  };
  while (!read_failed_again(drawn, to, draw)) {
    const Found found = none_found();
    known.catch_up();
    if (!(known.tree().total() > 0)) return found;
  }
  for (const float leaf : drawn.leaves) drawn.smallest = std::min(drawn.smallest, leaf);
  drawn.sample = known.remember(drawn);
  return Found::rows;
}

std::size_t SharedStore::update(const std::int64_t* index, std::size_t count, const float* leaves, double largest,
                                std::uint64_t sample) {
  for (std::size_t i = 0; i < count; ++i)
    if (static_cast<std::uint64_t>(index[i]) >= capacity()) return i;
  if (!view().update(index, count, leaves, sample)) return kAllLate;
  raise_max_priority(largest);
  return kAllGood;
}

float SharedStore::largest_leaf() {
  view().catch_up();
  return view().tree().bounds().largest;
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
  const bool read = read_failed_again(drawn, to, [&](std::size_t i) {
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
      } else if (count > 1 || (++tries < kTriesAtOnce && row_in(slots[next]))) {
        tile = std::max<std::size_t>(count / 2, 1);
        continue;
      }  // else it is being written: as good as gone
      next += count;
      tries = 0;
      tile = std::min(2 * tile, most);
    }
  });
  return done;
}

}  // namespace rb
