// How a row says that it is the last of its episode.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

  // Sets is_last[i] if the i-th of `rows` values has such a bit.
  void mark(const char* values, std::size_t rows, char* is_last) const {
    if (mask.size() == 1) return mark_as<std::uint8_t>(values, rows, is_last);
    if (mask.size() == 4) return mark_as<std::uint32_t>(values, rows, is_last);
    if (mask.size() == 8) return mark_as<std::uint64_t>(values, rows, is_last);
    for (std::size_t i = 0; i < rows; ++i)
      if (is_in(values + i * mask.size())) is_last[i] = 1;
  }

 private:
  template <class Word>
  void mark_as(const char* values, std::size_t rows, char* is_last) const {
    Word bits, value;
    std::memcpy(&bits, mask.data(), sizeof bits);
    for (std::size_t i = 0; i < rows; ++i) {
      std::memcpy(&value, values + i * sizeof value, sizeof value);
      is_last[i] = static_cast<char>(is_last[i] | ((value & bits) != 0 ? 1 : 0));
    }
  }
};

// data[column] holds the contiguous values of many rows.
inline bool ends_episode(const std::vector<EpisodeEnd>& ends, const char* const* data, std::size_t row) {
  return std::any_of(ends.begin(), ends.end(),
                     [=](const EpisodeEnd& end) { return end.is_in(data[end.column] + row * end.mask.size()); });
}

// For each row, whether it ends an episode. A call of add() looks at all its rows in one pass over each column, since a
// look at one row takes as long as storing it.
inline void find_episode_ends(const std::vector<EpisodeEnd>& ends, const char* const* data, std::size_t rows,
                              std::vector<char>& is_last) {
  is_last.assign(rows, 0);
  for (const EpisodeEnd& end : ends) end.mark(data[end.column], rows, is_last.data());
}

// The stream of each row of a call: given[i], or if that is null, `in_turn` streams in turn.
struct StreamsOfRows {
  const std::int64_t* given;
  std::size_t in_turn;
};

}  // namespace rb
