// How a row says that it is the last of its episode.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace rb {

// A row ends an episode if its value in a column has any bit of `mask` set.
struct EpisodeEnd {
  std::size_t column;
  std::string mask;

  bool is_in(const char* value) const {
    for (std::size_t i = 0; i < mask.size(); ++i)
      if ((value[i] & mask[i]) != 0) return true;
    return false;
  }
};

// data[column] holds the contiguous values of many rows.
inline bool ends_episode(const std::vector<EpisodeEnd>& ends, const char* const* data, std::size_t row) {
  return std::any_of(ends.begin(), ends.end(),
                     [=](const EpisodeEnd& end) { return end.is_in(data[end.column] + row * end.mask.size()); });
}

}  // namespace rb
