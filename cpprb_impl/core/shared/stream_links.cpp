#include "stream_links.hpp"

#include <algorithm>

namespace rb {

StreamStep* StreamLinks::begin_call(std::size_t rows, StreamsOfRows streams, const char* is_last, const bool* firsts) {
  begins_.resize(streams_.size());
  for (std::size_t i = 0; i < streams_.size(); ++i) begins_[i] = streams_[i].begins;
  steps_.resize(rows);
  StreamStep* const steps = steps_.data();
  char* const begins = begins_.data();
  if (streams.given == nullptr && firsts == nullptr) {  // no row waits for what the one before has written
    const std::size_t count = streams.in_turn;
    for (std::size_t i = 0, stream = 0; i < rows; ++i, stream = stream + 1 == count ? 0 : stream + 1)
      steps[i] = {static_cast<std::uint32_t>(stream), (i < count ? begins[i] : is_last[i - count]) != 0,
                  is_last[i] != 0};
    for (std::size_t i = rows - std::min(rows, count); i < rows; ++i) begins[steps[i].stream] = is_last[i];
    return steps;
  }
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t stream =
        streams.given != nullptr ? static_cast<std::size_t>(streams.given[i]) : i % streams.in_turn;
    steps[i] = {static_cast<std::uint32_t>(stream), firsts != nullptr ? firsts[i] : begins[stream] != 0,
                is_last[i] != 0};
    begins[stream] = is_last[i];
  }
  return steps;
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
