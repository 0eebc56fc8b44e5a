#include "order_watch.hpp"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "../base/sizes.hpp"

namespace rb {
namespace {

constexpr std::size_t kRows = 10'000;  // per environment, after which mistakes are no longer looked for

std::uint64_t hash_of(const char* value, std::size_t bytes) {
  return std::hash<std::string_view>{}(std::string_view(value, bytes));
}

}  // namespace

OrderWatch::OrderWatch(std::vector<Pair> pairs, std::vector<EpisodeEnd> ends, std::size_t environments, bool order,
                       bool starts)
    : pairs_(std::move(pairs)),
      ends_(std::move(ends)),
      environments_(environments),
      known_{order, starts, times(environments, kRows), 0, 0, 0, false, {}, {}},
      next_(known_) {}

OrderWatch::Finding OrderWatch::look(const char* const* data, std::size_t count,
                                     const std::vector<std::int64_t>* environments) {
  next_ = known_;
  next_.last.resize(environments_);
  next_.following.resize(times(environments_, pairs_.size()));
  for (std::size_t row = 0; row < count && !next_.is_over(); ++row, --next_.left) {
    const std::size_t environment =
        environments == nullptr ? row % environments_ : static_cast<std::size_t>((*environments)[row]);
    const Finding found = look_at(data, row, environment);
    if (found != Finding::nothing) return found;
  }
  return Finding::nothing;
}

OrderWatch::Finding OrderWatch::look_at(const char* const* data, std::size_t row, std::size_t environment) {
  Last& last = next_.last[environment];
  std::uint64_t* following = next_.following.data() + environment * pairs_.size();
  const bool end = ends_episode(ends_, data, row);
  const auto continues = [&](std::size_t p) {
    return hash_of(data[pairs_[p].now] + row * pairs_[p].bytes, pairs_[p].bytes) == following[p];
  };
  Finding found = Finding::nothing;
  if (last == Last::within && next_.order) {
    std::size_t p = 0;
    while (p < pairs_.size() && !continues(p)) ++p;
    next_.order = p == pairs_.size();
    if (next_.order && ++next_.misses == kMisses) found = Finding::no_order;
  } else if (last == Last::end && next_.starts) {
    std::size_t p = 0;
    while (p < pairs_.size() && continues(p)) ++p;
    found = look_at_start(p == pairs_.size(), end, following);
  }
  if (next_.order || (next_.starts && end))
    for (std::size_t p = 0; p < pairs_.size(); ++p)
      following[p] = hash_of(data[pairs_[p].following] + row * pairs_[p].bytes, pairs_[p].bytes);
  last = end ? Last::end : Last::within;
  return found;
}

// The row after the end of an episode. If it also ends an episode, each row may be a separate episode and state.
OrderWatch::Finding OrderWatch::look_at_start(bool continues, bool is_end, const std::uint64_t* following) {
  next_.starts = continues && !is_end;
  if (!next_.starts) return Finding::nothing;
  std::uint64_t there = 0;
  for (std::size_t p = 0; p < pairs_.size(); ++p) there = 31 * there + following[p];
  if (next_.joined++ == 0) next_.first_end = there;
  next_.ends_differ |= there != next_.first_end;
  return next_.joined >= kStarts && next_.ends_differ ? Finding::joined_starts : Finding::nothing;
}

void OrderWatch::stop(Finding found) {
  if (found == Finding::no_order) known_.order = false;
  if (found == Finding::joined_starts) known_.starts = false;
}

void OrderWatch::forget() { std::fill(known_.last.begin(), known_.last.end(), Last::unknown); }

}  // namespace rb
