#include "stream_links.hpp"

#include <algorithm>

namespace rb {

LinkWord StreamLinks::link(std::uint64_t row, const StreamStep& step, std::uint64_t cleared) {
  if (step.alone) return LinkWord::of(0, 1, step.is_first, step.is_last);
  Of& its = streams_[step.stream];
  const bool is_stored = its.last != kNone && its.last >= cleared && row - its.last < capacity_;
  const bool continues = is_stored && (across_ || !step.is_first) && its.number < LinkWord::kMost;
  const std::uint64_t back = continues ? row - its.last : 0;
  its.number = continues ? its.number + 1 : 1;
  its.last = row;
  return LinkWord::of(back, its.number, step.is_first, step.is_last);
}

void StreamLinks::begin_runs(std::size_t first, const bool* begin_episodes, std::size_t count) {
  if (streams_.size() < first + count) streams_.resize(first + count);
  for (std::size_t i = 0; i < count; ++i) {
    streams_[first + i] = {};
    streams_[first + i].begins = begin_episodes[i];
  }
}

bool StreamLinks::is_in_episode() const {
  return std::any_of(streams_.begin(), streams_.end(), [](const Of& each) { return !each.begins; });
}

}  // namespace rb
