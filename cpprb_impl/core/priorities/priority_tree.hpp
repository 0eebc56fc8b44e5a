// Priority tree: proportional sampling over float leaves (Schaul et al. 2015, section 3.3).
//
// Each node has 16 children: they fill one or two cache lines, and 10^6 leaves need five levels. Sums are doubles,
// because float sums are measurably biased for 10^6 leaves or more. The smallest leaf, which normalises importance
// weights, and the largest are stored beside the sum and computed in the same pass. A leaf of 0 is an empty slot: it is
// never drawn, and is ignored when the minimum is computed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../base/random.hpp"
#include "../base/sizes.hpp"

namespace rb {

class PriorityTree {
 public:
  static constexpr std::size_t kFan = 16;

  PriorityTree() = default;

  // Creates a tree with empty slots in `memory`, which must be 64-byte aligned, `bytes(capacity)` long and all zeros.
  PriorityTree(void* memory, std::size_t capacity) {
    char* at = static_cast<char*>(memory);
    std::size_t nodes = padded(capacity);
    leaves_ = reinterpret_cast<float*>(at);
    leaf_count_ = nodes;
    at += nodes * sizeof(float);
    while (nodes > kFan) {
      nodes = padded(nodes / kFan);
      Level level{reinterpret_cast<double*>(at), nullptr, nodes};
      at += nodes * sizeof(double);
      level.lanes = reinterpret_cast<float*>(at);
      at += 2 * nodes * sizeof(float);
      levels_.push_back(level);
    }
  }

  static std::size_t bytes(std::size_t capacity) {  // throws TooLarge
    std::size_t nodes = padded(capacity);
    std::uint64_t total = times(nodes, sizeof(float));
    while (nodes > kFan) {
      nodes = padded(nodes / kFan);
      total = plus(total, times(nodes, sizeof(double) + 2 * sizeof(float)));
    }
    return total;
  }

  // Makes every slot empty, in time proportional to the highest slot refreshed since the last clear(). All leaves that
  // were written must have been refreshed.
  void clear();

  // Leaves may be written directly; call refresh() or rebuild() to update the nodes above them.
  float* leaves() { return leaves_; }
  const float* leaves() const { return leaves_; }

  // Recomputes the nodes above `count` consecutive leaves from `first` on: O(count / 16 + log n).
  void refresh(std::size_t first, std::size_t count);

  // Recomputes the nodes above scattered leaves, level by level, so that a common ancestor of neighbours in `slots` is
  // computed once. Overwrites `slots`.
  void refresh_scattered(std::vector<std::size_t>& slots);

  void rebuild() { refresh(0, leaf_count_); }

  double total() const;

  // The smallest leaf above 0, and the largest; +infinity and 0 when every slot is empty.
  struct Bounds {
    float smallest, largest;
  };
  Bounds bounds() const;
  // The bounds as stored in a node: two numbers, which are smaller the more extreme their leaves are, and 0 if there is
  // no leaf.
  struct Lanes {
    float smallest, largest;
  };

  enum class Draws {
    stratified,  // slots[i] falls into the i-th of `count` equal shares of the total
    independent
  };
  // Proportional draw. The whole batch descends level by level, so that the cache misses of different draws overlap.
  // The total must be above 0.
  void draw(Random& random, std::size_t count, std::size_t* slots, Draws draws = Draws::stratified);

 private:
  struct Level {
    double* sums;
    float* lanes;  // stored for four nodes at a time
    std::size_t nodes;

    void set_lanes(std::size_t node, Lanes of) {
      float* at = lanes + node / 4 * 8 + node % 4;
      at[0] = of.smallest;
      at[4] = of.largest;
    }
  };

  void recompute(std::size_t k, std::size_t node);
  static std::size_t padded(std::size_t n) { return round_up(n, kFan); }

  float* leaves_ = nullptr;
  std::size_t leaf_count_ = 0;
  std::size_t touched_ = 0;    // number of leaf parents that may not be empty; all later parents are empty
  std::vector<Level> levels_;  // from the leaves' parents upwards
  std::vector<double> masses_;
};

}  // namespace rb
