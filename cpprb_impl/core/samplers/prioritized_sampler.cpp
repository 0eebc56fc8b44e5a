#include <algorithm>

#include "../private/private_view.hpp"
#include "../shared/shared_sequences.hpp"
#include "../shared/shared_view.hpp"
#include "../store/sampler.hpp"

namespace rb {
namespace {

template <class View>
class PrioritizedSampler final : public Sampler {
 public:
  explicit PrioritizedSampler(View view) : view_(view) {}

  Found sample(Random& random, Drawn& drawn, char* const* to, Waiting& waiting) override {
    if (view_.is_empty()) return Found::nothing;
    view_.catch_up();
    if (!has_mass())
      if (const Found found = wait_for_mass(); found != Found::rows) return found;
    PriorityTree& tree = view_.tree();
    drawn.leaves.resize(drawn.slots.size());
    view_.draw(random, drawn.slots.size(), drawn.slots.data());
    for (std::size_t i = 0; i < drawn.slots.size(); ++i) drawn.leaves[i] = tree.leaves()[drawn.slots[i]];
    drawn.total = tree.total();
    drawn.smallest = tree.bounds().smallest;
    view_.read(drawn, to, waiting);
    if constexpr (View::kRowsVanish) {
      if (const Found found = redraw_failed(random, drawn, to); found != Found::rows) return found;
      for (const float leaf : drawn.leaves) drawn.smallest = std::min(drawn.smallest, leaf);
    }
    drawn.sample = view_.remember(drawn);
    return Found::rows;
  }

 private:
  bool has_mass() { return view_.tree().total() > 0; }

  // If explorers are writing, rows may become available in a moment.
  Found wait_for_mass() {
    if constexpr (View::kRowsVanish) {
      for (unsigned tries = 0;; ++tries) {
        const Found found = tries < View::kTriesAtOnce ? Found::rows : view_.none_found();
        sched_yield();
        view_.catch_up();
        if (has_mass()) return Found::rows;
        if (found != Found::rows) return found;
      }
    }
    return Found::no_mass;
  }

  Found redraw_failed(Random& random, Drawn& drawn, char* const* to) {
    PriorityTree& tree = view_.tree();
    const std::size_t many = std::clamp<std::size_t>(view_.capacity() / 16, View::kTriesAtOnce, View::kSeldom);
    std::size_t tries = 1;
    const auto draw = [&](std::size_t i) {
      view_.refresh_leaf(drawn.slots[i]);
      if (tries % many == 0) view_.catch_up();
      if (!has_mass()) view_.catch_up();
      if (!has_mass()) return false;
      tree.draw(random, 1, &drawn.slots[i]);
      // Explorers overwrite the ring faster than a tree can follow: accept the row that is in the slot now.
      if (++tries > drawn.slots.size()) view_.refresh_leaf(drawn.slots[i]);
      drawn.leaves[i] = tree.leaves()[drawn.slots[i]];
      return true;
    };
    while (!view_.read_failed_again(drawn, to, draw)) {
      const Found found = view_.none_found();
      view_.catch_up();
      if (!has_mass()) return found;
    }
    return Found::rows;
  }

  View view_;
};

std::unique_ptr<Sampler> sampler_of(PrivateStore& store) {
  if (store.check_for_update())
    return std::make_unique<PrioritizedSampler<PrivateViewOf<true>>>(PrivateViewOf<true>(store));
  return std::make_unique<PrioritizedSampler<PrivateViewOf<false>>>(PrivateViewOf<false>(store));
}

std::unique_ptr<Sampler> sampler_of(SharedStore& store) {
  return std::make_unique<PrioritizedSampler<SharedView>>(SharedView(store));
}

}  // namespace

std::unique_ptr<Sampler> make_sequence_draws(const SharedSequenceView& view) {
  return std::make_unique<PrioritizedSampler<SharedSequenceView>>(view);
}

template <class Store>
std::unique_ptr<Sampler> make_prioritized_sampler(Store& store) {
  return sampler_of(store);
}

template std::unique_ptr<Sampler> make_prioritized_sampler(PrivateStore&);
template std::unique_ptr<Sampler> make_prioritized_sampler(SharedStore&);

}  // namespace rb
