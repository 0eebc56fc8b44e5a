#include <algorithm>

#include "../private/private_view.hpp"
#include "../shared/shared_view.hpp"
#include "../store/sampler.hpp"

namespace rb {
namespace {

template <class View>
class UniformSampler final : public Sampler {
 public:
  explicit UniformSampler(View view) : view_(view) {}

  Found sample(Random& random, Drawn& drawn, char* const* to, Waiting& waiting) override {
    const auto slots = view_.slots();
    if (slots.count == 0) return Found::nothing;
    drawn.leaves.clear();
    for (auto& slot : drawn.slots) slot = slots.nth(random.below(slots.count));
    view_.read(drawn, to, waiting);
    if constexpr (View::kRowsVanish) return redraw_failed(random, drawn, to);
    return Found::rows;
  }

 private:
  // If a ring's explorers died soon after it was created, few slots hold a row. Then only those slots are drawn from.
  Found redraw_failed(Random& random, Drawn& drawn, char* const* to) {
    std::vector<std::size_t> stored;
    const std::size_t many = std::min(View::kTriesAtOnce * drawn.slots.size(), View::kSeldom);
    std::size_t tries = 0;
    const auto draw = [&](std::size_t i) {
      const auto now = view_.slots();  // fewer than before if another process has cleared the buffer
      if (now.count == 0) return false;
      ++tries;
      if (tries % many == 0 || (tries > many && stored.empty())) stored = view_.stored_slots();
      drawn.slots[i] = stored.empty() ? now.nth(random.below(now.count)) : stored[random.below(stored.size())];
      return tries < many || !stored.empty();
    };
    while (!view_.read_failed_again(drawn, to, draw))
      if (view_.none_found() == Found::nothing) return Found::nothing;
    return Found::rows;
  }

  View view_;
};

}  // namespace

template <class Store>
std::unique_ptr<Sampler> make_uniform_sampler(Store& store) {
  using View = typename Store::View;
  return std::make_unique<UniformSampler<View>>(View(store));
}

template std::unique_ptr<Sampler> make_uniform_sampler(PrivateStore&);
template std::unique_ptr<Sampler> make_uniform_sampler(SharedStore&);

}  // namespace rb
