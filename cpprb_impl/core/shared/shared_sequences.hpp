// Sequences in a shared store, found and read while explorers write: docs/protocol.md, "Sequences".
// Every memory order stronger than relaxed has a line in tests/weak_memory/orders, which `make orders` checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "../store/sequence_sampler.hpp"
#include "shared_view.hpp"
#include "stream_links.hpp"

namespace rb {

// The samplers' view of the sequences: a row stands for the sequence that ends with it.
class SharedSequenceView {
 public:
  static constexpr bool kRowsVanish = SharedView::kRowsVanish;
  static constexpr unsigned kTriesAtOnce = SharedView::kTriesAtOnce;
  static constexpr std::size_t kSeldom = SharedView::kSeldom;

  // What one call of sample() reads. Calls of other threads have their own, since they may run while rows are copied.
  struct Target {
    DrawnSequences* drawn;
    const SequencePlaces* to;
  };

  SharedSequenceView(SharedStore& store, const SequenceOptions& options, PriorityView& priorities, Target target = {})
      : store_(store), rows_(store), options_(options), priorities_(priorities), target_(target) {}

  std::uint64_t capacity() const { return rows_.capacity(); }
  bool is_empty() const { return rows_.is_empty(); }
  SharedView::Slots slots() const { return rows_.slots(); }

  void read(Drawn& ends, char* const*, Waiting& waiting);
  template <class Draw>
  bool read_failed_again(Drawn& ends, char* const*, Draw&& draw) {
    return SharedView::draw_failed_again(ends, draw, [&](std::size_t b) { read_tile(ends, b, b + 1); });
  }
  Found none_found();

  void catch_up() { priorities_.catch_up(); }
  PriorityTree& tree() { return priorities_.tree(); }
  std::uint64_t possible() const { return priorities_.possible(); }
  void draw(Random& random, std::size_t count, std::size_t* slots);
  void refresh_leaf(std::size_t slot);
  std::uint64_t remember(const Drawn& ends) { return priorities_.by_priority() ? priorities_.remember(ends) : 0; }

  // Copies the steps of drawn.steps. Returns false if one was overwritten meanwhile.
  bool read_steps(DrawnSequences& drawn, char* const* to, Waiting& waiting);

  // Calls step(slot, row, link) for each step of the sequence that ends with the row in `slot`, the last step first.
  // Returns the sequence; none if it is not stored any more.
  template <class Step>
  Span follow(std::size_t slot, Step step) const;

 private:
  static constexpr std::size_t kAtOnce = 16;  // sequences whose links are followed together

  struct Notes;
  // A sequence of which the steps from `place` on are found.
  struct Walk {
    std::uint64_t row;
    std::size_t slot, place;
    std::uint64_t back;
    std::uint32_t left;  // steps before the last one
  };

  void read_tile(Drawn& ends, std::size_t first, std::size_t last);
  void find_tile(Drawn& ends, std::size_t first, std::size_t last);

  SharedStore& store_;
  SharedView rows_;
  SequenceOptions options_;
  PriorityView& priorities_;
  Target target_;
};

// A link may be that of a later row, until L3 has found the row unchanged, so that nothing may rely on it.
template <class Step>
Span SharedSequenceView::follow(std::size_t slot, Step step) const {
  const auto row_in_slot = store_.row_in(slot);
  if (!row_in_slot) return {};
  std::uint64_t row = *row_in_slot;
  LinkWord link = store_.link_in(slot);
  const Span span = options_.ending_at(link.number(), link.is_last());
  if (span.rows > capacity()) return {};
  for (std::uint32_t left = span.rows; left > 0; --left) {
    step(slot, row, link);
    if (left == 1) break;
    const std::uint64_t back = link.back();
    if (back == 0 || back > row || back >= capacity()) return {};
    row -= back;
    slot = slot >= back ? slot - back : slot + capacity() - back;
    if (!store_.has_row(row, slot)) return {};
    link = store_.link_in(slot);
  }
  return options_.at_end == AtEnd::whole && span.rows > 0 && !link.is_first() ? Span{} : span;
}

class SharedSequenceSampler final : public SequenceSampler {
 public:
  SharedSequenceSampler(const SequenceOptions& options, SharedStore& store) : SequenceSampler(options), store_(store) {}

  Span ending_in(std::uint64_t slot) const override;
  std::size_t bytes() const override { return own_ ? own_->bytes() : 0; }
  std::uint64_t count() override;
  std::uint64_t count_roughly() override;
  std::uint64_t longest_run() override;
  Found sample(Random& random, DrawnSequences& drawn, const SequencePlaces& to, Waiting& waiting) override;
  bool draw_episodes(Random& random, DrawnSequences& drawn) override;
  bool read_steps(DrawnSequences& drawn, char* const* to, Waiting& waiting) override;
  // Whether this process has looked for sequences, in order to draw or count them.
  bool has_found_any() const { return store_.priorities().has_caught_up(); }

 private:
  SharedSequenceView view(SharedSequenceView::Target target = {});
  template <class See>
  void for_each_row(See see) const;

  SharedStore& store_;
  std::unique_ptr<PriorityView> own_;  // of whole episodes
  unsigned overwritten_ = 0;           // consecutive samples of episodes that were overwritten while they were read
};

struct SharedSequences {
  SharedSequences(const SequenceOptions& options, SharedStore& store, std::size_t streams)
      : links(store.capacity(), streams, options.at_end == AtEnd::cross),
        sampler(options, store),
        episodes({.at_end = AtEnd::whole}, store) {}

  StreamLinks links;
  SharedSequenceSampler sampler, episodes;
};

// Draws the rows with which sequences end, and reads these sequences (prioritized_sampler.cpp).
std::unique_ptr<Sampler> make_sequence_draws(const SharedSequenceView& view);

}  // namespace rb
