// Every memory order stronger than relaxed has a line in tests/weak_memory/orders, which `make orders` checks.
#include "shared_sequences.hpp"

#include <algorithm>
#include <array>

#include "../base/failpoints.hpp"

namespace rb {
namespace {

constexpr auto acquire = std::memory_order_acquire;
constexpr std::uint64_t kNoRow = ~std::uint64_t{0};

// Slots in place of steps that were not found; what is read there is not used.
constexpr std::size_t kAnySlot = 0;

// How often the episodes of a sample may be overwritten while they are read.
constexpr unsigned kTries = 100;

}  // namespace

// Where the steps of a tile are noted. A copy of these pointers, since a write to `is_first` could change any other.
struct SharedSequenceView::Notes {
  std::size_t* slots;
  std::uint64_t* rows;
  char* is_first;

  void note(std::size_t place, std::size_t slot, std::uint64_t row, bool first) const {
    slots[place] = slot;
    rows[place] = row;
    is_first[place] = static_cast<char>(first);
  }
};

// Finds the steps of these sequences, all at the same time, so that their cache misses overlap. A sequence that is not
// stored has the last row kNoRow.
void SharedSequenceView::find_tile(Drawn& ends, std::size_t first, std::size_t last) {
  DrawnSequences& drawn = *target_.drawn;
  const std::size_t sequences = ends.slots.size(), length = options_.length(), ring = capacity();
  const std::size_t step = target_.to->step(sequences), sequence = target_.to->sequence(length);
  const Notes notes{drawn.steps.slots.data(), drawn.steps.rows.data(), target_.to->is_first};
  std::array<Walk, kAtOnce> walks;
  std::uint32_t longest = 0;
  for (std::size_t b = first; b < last; ++b) __builtin_prefetch(&store_.word(ends.slots[b]));
  for (std::size_t b = first; b < last; ++b) {
    const std::size_t slot = ends.slots[b];
    RB_FAILPOINT(L1);
    ends.rows[b] = store_.row_in(slot).value_or(kNoRow);
    const LinkWord link = store_.link_in(slot);
    Span span = options_.ending_at(link.number(), link.is_last());
    if (ends.rows[b] == kNoRow || span.rows == 0) {
      ends.rows[b] = kNoRow;
      span = {0, 1};
    }
    drawn.spans[b] = span;
    const std::size_t begin = b * sequence, newest = begin + (span.before + span.rows - 1) * step;
    for (std::size_t t = span.before + span.rows; t < length; ++t) notes.note(begin + t * step, slot, kNoRow, false);
    notes.note(newest, slot, ends.rows[b], link.is_first());
    walks[b - first] = {ends.rows[b], slot, newest, link.back(), span.rows - 1};
    longest = std::max(longest, span.rows - 1);
  }
  for (std::uint32_t gone = 0; gone < longest; ++gone) {
    for (std::size_t nth = 0; nth < last - first; ++nth) {
      Walk& walk = walks[nth];
      if (gone >= walk.left) continue;
      walk.place -= step;
      const std::uint64_t back = walk.back;
      if (back != 0 && back <= walk.row && back < ring) {
        const std::uint64_t row = walk.row - back;
        const std::size_t slot = walk.slot - back + (walk.slot >= back ? 0 : ring);
        if (store_.has_row(row, slot)) {
          const LinkWord link = store_.link_in(slot);
          notes.note(walk.place, slot, row, link.is_first());
          walk.row = row;
          walk.slot = slot;
          walk.back = link.back();
          if (walk.back < ring) __builtin_prefetch(&store_.word(slot - walk.back + (slot >= walk.back ? 0 : ring)));
          continue;
        }
      }
      walk.back = 0;
      ends.rows[first + nth] = kNoRow;
      notes.note(walk.place, kAnySlot, kNoRow, false);
    }
  }
  for (std::size_t b = first; b < last; ++b) {
    const Walk& walk = walks[b - first];
    drawn.first.slots[b] = walk.slot;
    drawn.first.rows[b] = walk.row;
    for (std::size_t t = 0; t < drawn.spans[b].before; ++t)
      notes.note(b * sequence + t * step, walk.slot, kNoRow, false);
  }
}

void SharedSequenceView::read_tile(Drawn& ends, std::size_t first, std::size_t last) {
  DrawnSequences& drawn = *target_.drawn;
  const SequencePlaces& to = *target_.to;
  const std::size_t sequences = ends.slots.size(), length = options_.length();
  const std::size_t step = to.step(sequences), sequence = to.sequence(length);
  find_tile(ends, first, last);
  if (!to.time_major)
    store_.copy_found(drawn.steps, first * length, last * length, to.steps.data());
  else
    for (std::size_t t = 0; t < length; ++t)
      store_.copy_found(drawn.steps, t * step + first, t * step + last, to.steps.data());
  if (to.wants_first) store_.copy_found(drawn.first, first, last, to.first.data());
  for (std::size_t b = first; b < last; ++b) {
    bool good = ends.rows[b] != kNoRow && (!to.wants_first || drawn.first.rows[b] != kNoRow);
    if (priorities_.by_priority())
      good =
          good && ends.leaves[b] > 0 &&
          PriorityWord{store_.priority(ends.slots[b]).load(acquire)} == PriorityWord::of(ends.rows[b], ends.leaves[b]);
    const Span span = drawn.spans[b];
    for (std::size_t t = span.before; good && t < span.before + span.rows; ++t) {
      const std::size_t place = b * sequence + t * step;
      const std::uint64_t row = drawn.steps.rows[place];
      good = row != kNoRow && store_.is_still(row, drawn.steps.slots[place]);
    }
    if (!good) ends.failed.push_back(b);
  }
}

void SharedSequenceView::read(Drawn& ends, char* const*, Waiting& waiting) {
  DrawnSequences& drawn = *target_.drawn;
  const std::size_t sequences = ends.slots.size(), rows = sequences * options_.length();
  ends.rows.resize(sequences);
  ends.failed.clear();
  drawn.spans.resize(sequences);
  drawn.first.slots.resize(sequences);
  drawn.first.rows.resize(sequences);
  drawn.steps.slots.resize(rows);
  drawn.steps.rows.resize(rows);
  const std::size_t tile = store_.rows_->tile() == 1 ? 1 : kAtOnce;
  store_.copy(rows, waiting, [&] {
    for (std::size_t b = 0; b < sequences; b += tile) read_tile(ends, b, std::min(b + tile, sequences));
  });
}

bool SharedSequenceView::read_steps(DrawnSequences& drawn, char* const* to, Waiting& waiting) {
  const Drawn& steps = drawn.steps;
  const std::size_t rows = steps.slots.size();
  store_.copy(rows, waiting, [&] { store_.copy_found(drawn.steps, 0, rows, to); });
  for (std::size_t i = 0; i < rows; ++i)
    if (steps.rows[i] == kNoRow || !store_.is_still(steps.rows[i], steps.slots[i])) return false;
  return true;
}

void SharedSequenceView::draw(Random& random, std::size_t count, std::size_t* slots) {
  using Draws = PriorityTree::Draws;
  tree().draw(random, count, slots, priorities_.by_priority() ? Draws::stratified : Draws::independent);
}

void SharedSequenceView::refresh_leaf(std::size_t slot) {
  priorities_.refresh_leaf(slot);
  if (tree().leaves()[slot] > 0 && follow(slot, [](auto...) {}).rows == 0) priorities_.lose(slot);
}

Found SharedSequenceView::none_found() {
  if (rows_.none_found() == Found::nothing) return Found::nothing;
  const std::uint64_t possible = slots().count;
  for (std::uint64_t slot = 0; slot < possible; ++slot)
    if (follow(slot, [](auto...) {}).rows != 0) return Found::no_mass;
  return Found::nothing;
}

SharedSequenceView SharedSequenceSampler::view(SharedSequenceView::Target target) {
  const bool whole = options_.at_end == AtEnd::whole;
  if (whole && !own_) own_ = std::make_unique<PriorityView>(store_, options_, false);
  return {store_, options_, whole ? *own_ : store_.priorities(), target};
}

Span SharedSequenceSampler::ending_in(std::uint64_t slot) const {
  const LinkWord link = store_.link_in(slot);
  return options_.ending_at(link.number(), link.is_last());
}

// Calls see(slot, steps) for each stored row, the oldest first: `steps` of its run are stored, up to this one. One pass
// over the rows costs far less than following the links of each sequence. 0 steps if the slot has another row: an older
// one stays where the row that was to overwrite it was stored elsewhere (E4).
template <class See>
void SharedSequenceSampler::for_each_row(See see) const {
  const std::uint64_t head = store_.head(), cleared = store_.header_->cleared.load(acquire);
  const std::uint64_t tail = std::max(cleared, head - std::min(head, store_.capacity()));
  std::vector<std::uint32_t> steps(head - tail);  // by row; 0 if it is not stored
  for (std::uint64_t row = tail; row < head; ++row) {
    const std::uint64_t slot = row % store_.capacity();
    if (store_.row_in(slot) != row) {
      see(slot, 0);
      continue;
    }
    const std::uint64_t back = store_.link_in(slot).back(), nth = row - tail;
    steps[nth] = back == 0 || back > nth || steps[nth - back] == 0 ? 1 : steps[nth - back] + 1;
    see(slot, steps[nth]);
  }
}

std::uint64_t SharedSequenceSampler::count() {
  SharedSequenceView view = this->view();
  view.catch_up();
  const float* const leaves = view.tree().leaves();
  std::uint64_t found = 0;
  for_each_row([&](std::uint64_t slot, std::uint32_t steps) {
    if (leaves[slot] > 0 && ending_in(slot).rows > steps) view.refresh_leaf(slot);
    if (leaves[slot] > 0) ++found;
  });
  return found;
}

std::uint64_t SharedSequenceSampler::count_roughly() { return view().possible(); }

std::uint64_t SharedSequenceSampler::longest_run() {
  std::uint32_t longest = 0;
  for_each_row([&](std::uint64_t, std::uint32_t steps) { longest = std::max(longest, steps); });
  return longest;
}

Found SharedSequenceSampler::sample(Random& random, DrawnSequences& drawn, const SequencePlaces& to, Waiting& waiting) {
  return make_sequence_draws(view({&drawn, &to}))->sample(random, drawn.ends, nullptr, waiting);
}

bool SharedSequenceSampler::draw_episodes(Random& random, DrawnSequences& drawn) {
  SharedSequenceView view = this->view();
  view.catch_up();
  drawn.spans.clear();
  drawn.steps.slots.clear();
  drawn.steps.rows.clear();
  for (std::size_t& end : drawn.ends.slots) {
    const auto begin = static_cast<std::ptrdiff_t>(drawn.steps.slots.size());
    Span span;
    while (span.rows == 0) {
      if (!(view.tree().total() > 0)) view.catch_up();
      if (!(view.tree().total() > 0)) return false;
      view.draw(random, 1, &end);
      drawn.steps.slots.resize(static_cast<std::size_t>(begin));
      drawn.steps.rows.resize(static_cast<std::size_t>(begin));
      span = view.follow(end, [&](std::size_t slot, std::uint64_t row, LinkWord) {
        drawn.steps.slots.push_back(slot);
        drawn.steps.rows.push_back(row);
      });
      if (span.rows == 0) view.refresh_leaf(end);
    }
    std::reverse(drawn.steps.slots.begin() + begin, drawn.steps.slots.end());
    std::reverse(drawn.steps.rows.begin() + begin, drawn.steps.rows.end());
    drawn.spans.push_back(span);
  }
  return true;
}

bool SharedSequenceSampler::read_steps(DrawnSequences& drawn, char* const* to, Waiting& waiting) {
  if (view().read_steps(drawn, to, waiting)) {
    overwritten_ = 0;
    return true;
  }
  if (++overwritten_ == kTries) {
    overwritten_ = 0;
    SharedView::give_up();
  }
  return false;
}

}  // namespace rb
