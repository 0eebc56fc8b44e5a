#include "choices.hpp"

#include "../../cpprb_impl/core/base/random.hpp"
#include "model.hpp"

namespace weak {
namespace model {
namespace {

rb::Random random;
Style drawn;

}  // namespace

void begin_choices(std::uint64_t seed) {
  random.reseed(seed);
  drawn.by_priority = chance(0.5);
  drawn.switches = 0.02 + 0.4 * random.uniform();
  drawn.old_reads = chance(0.2) ? 0 : 0.8 * random.uniform();
  drawn.early_stores = chance(0.5) ? 0 : 0.6 * random.uniform();
}

const Style& style() { return drawn; }

bool chance(double probability) { return probability > 0 && random.uniform() < probability; }

}  // namespace model

std::uint64_t choose(std::uint64_t count) { return model::random.below(count); }

}  // namespace weak
