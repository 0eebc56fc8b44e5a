// Checks the first rows that a process adds for two mistakes: rows of several environments added as if they came from
// one, and rows that lead from the end of an episode to the beginning of the next.
//
// Values are compared by hash, so that none has to be kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "episode_end.hpp"

namespace rb {

class OrderWatch {
 public:
  static constexpr std::size_t kMisses = 32;  // so many rows in the wrong order are no coincidence
  static constexpr std::size_t kStarts = 4;   // nor are so many episodes that begin where the previous one ended

  // The columns of x and next_x, and the size of their values in bytes.
  struct Pair {
    std::size_t now, following, bytes;
  };
  enum class Finding {
    nothing,
    no_order,      // kMisses rows follow a row that ends no episode, and none begins where that row ended
    joined_starts  // each of kStarts or more rows after the end of an episode begins there; these ends differ
  };

  // Rows cycle through E environments. `order` and `starts` say which of the two mistakes to look for.
  OrderWatch(std::vector<Pair> pairs, std::vector<EpisodeEnd> ends, std::size_t environments, bool order, bool starts);

  // Checks rows that will be stored: data[column] has the contiguous values of `count` rows. If `environments` is not
  // null, it names each row's environment. The rows are forgotten unless keep() is called.
  Finding look(const char* const* data, std::size_t count, const std::vector<std::int64_t>* environments);
  void keep() { std::swap(known_, next_); }
  // Stops looking for the mistake that was found.
  void stop(Finding found);
  bool is_over() const { return known_.is_over(); }
  // The next row of each environment does not continue any other.
  void forget();

 private:
  enum class Last : unsigned char { unknown, within, end };  // of an episode
  struct State {
    bool order, starts;
    std::size_t left;  // rows still to be checked
    std::size_t misses = 0, joined = 0;
    std::uint64_t first_end = 0;  // hash of the state in which the first episode ended
    bool ends_differ = false;
    std::vector<Last> last;                // by environment: its last row
    std::vector<std::uint64_t> following;  // by environment and pair: the hash of the last row's next_x

    bool is_over() const { return left == 0 || !(order || starts); }
  };

  Finding look_at(const char* const* data, std::size_t row, std::size_t environment);
  Finding look_at_start(bool continues, bool is_end, const std::uint64_t* following);

  std::vector<Pair> pairs_;
  std::vector<EpisodeEnd> ends_;
  std::size_t environments_;
  State known_, next_;
};

}  // namespace rb
