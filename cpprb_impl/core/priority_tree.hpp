// Priority tree: proportional sampling over float leaves (Schaul et al. 2015, section 3.3).
//
// 16 children a node: a node's children are one or two cache lines, and 10^6 leaves are five levels.
// Sums are double: float sums are measurably biased from 10^6 leaves on. The smallest leaf, which
// normalises importance weights, is kept beside the sum and found in the same pass.
// A leaf of 0 is an empty slot: never drawn, and no candidate for the minimum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "random.hpp"

namespace rb {

class PriorityTree {
 public:
  static constexpr std::size_t kFan = 16;

  PriorityTree() = default;

  // A view of `memory` (64-byte aligned, `bytes(capacity)` long). New memory must be format()ted.
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
      level.minima = reinterpret_cast<float*>(at);
      at += nodes * sizeof(float);
      levels_.push_back(level);
    }
  }

  static std::size_t bytes(std::size_t capacity) {
    std::size_t nodes = padded(capacity);
    std::size_t total = nodes * sizeof(float);
    while (nodes > kFan) {
      nodes = padded(nodes / kFan);
      total += nodes * (sizeof(double) + sizeof(float));
    }
    return total;
  }

  // Every slot becomes empty.
  void format() {
    std::fill_n(leaves_, leaf_count_, 0.0f);
    for (auto& level : levels_) {
      std::fill_n(level.sums, level.nodes, 0.0);
      std::fill_n(level.minima, level.nodes, kNone);
    }
  }

  // Leaves may be written directly; the nodes above know of it after refresh() or rebuild().
  float* leaves() { return leaves_; }
  const float* leaves() const { return leaves_; }

  // Recompute the nodes above `count` neighbouring leaves from `first`: O(count / 16 + log n).
  void refresh(std::size_t first, std::size_t count) {
    if (count == 0) return;
    std::size_t low = first, high = first + count - 1;
    for (std::size_t k = 0; k < levels_.size(); ++k) {
      low /= kFan;
      high /= kFan;
      for (std::size_t node = low; node <= high; ++node) recompute(k, node);
    }
  }

  // Recompute the nodes above scattered leaves; level by level, so that a shared ancestor of
  // neighbours in `slots` is computed once. Overwrites `slots`.
  void refresh_scattered(std::vector<std::size_t>& slots) {
    for (std::size_t k = 0; k < levels_.size(); ++k) {
      std::size_t kept = 0;
      for (const auto slot : slots) {
        const std::size_t node = slot / kFan;
        if (kept == 0 || slots[kept - 1] != node) slots[kept++] = node;
      }
      slots.resize(kept);
      for (const auto node : slots) recompute(k, node);
    }
  }

  void rebuild() { refresh(0, leaf_count_); }

  double total() const { return levels_.empty() ? sum_of(leaves_) : sum_of(levels_.back().sums, levels_.back().nodes); }

  // The smallest leaf above 0; +infinity when every slot is empty.
  float minimum() const {
    if (levels_.empty()) return minimum_of_leaves(leaves_);
    const auto& top = levels_.back();
    return *std::min_element(top.minima, top.minima + top.nodes);
  }

  // Stratified proportional draw: slots[i] falls into the i-th of `count` equal shares of the total.
  // Level by level for the whole batch, so that the cache misses of different draws overlap.
  // The total must be above 0.
  void draw(Random& random, std::size_t count, std::size_t* slots) {
    masses_.resize(count);
    const double share = total() / static_cast<double>(count);
    for (std::size_t i = 0; i < count; ++i) {
      masses_[i] = (static_cast<double>(i) + random.uniform()) * share;
      slots[i] = 0;
    }
    for (std::size_t k = levels_.size(); k-- > 0;) {
      const Level& level = levels_[k];
      // The top level has at most 16 nodes and no parent: it is one group, like every other.
      for (std::size_t i = 0; i < count; ++i) {
        slots[i] = pick(level.sums + slots[i] * kFan, masses_[i]) + slots[i] * kFan;
        __builtin_prefetch(k == 0 ? static_cast<const void*>(leaves_ + slots[i] * kFan)
                                  : static_cast<const void*>(levels_[k - 1].sums + slots[i] * kFan));
      }
    }
    for (std::size_t i = 0; i < count; ++i) slots[i] = pick(leaves_ + slots[i] * kFan, masses_[i]) + slots[i] * kFan;
  }

 private:
  static constexpr float kNone = std::numeric_limits<float>::infinity();

  struct Level {
    double* sums;
    float* minima;
    std::size_t nodes;
  };

  static std::size_t padded(std::size_t n) { return (n + kFan - 1) / kFan * kFan; }

  template <class Number>
  static double sum_of(const Number* group, std::size_t count = kFan) {
    double partial[4] = {0, 0, 0, 0};  // four chains: additions of one chain wait for each other
    for (std::size_t i = 0; i < count; i += 4)
      for (std::size_t j = 0; j < 4; ++j) partial[j] += static_cast<double>(group[i + j]);
    return (partial[0] + partial[1]) + (partial[2] + partial[3]);
  }

  static float minimum_of_leaves(const float* group) {
    float smallest = kNone;
    for (std::size_t j = 0; j < kFan; ++j) smallest = std::min(smallest, group[j] > 0 ? group[j] : kNone);
    return smallest;
  }

  void recompute(std::size_t k, std::size_t node) {
    if (k == 0) {
      levels_[0].sums[node] = sum_of(leaves_ + node * kFan);
      levels_[0].minima[node] = minimum_of_leaves(leaves_ + node * kFan);
    } else {
      const Level& below = levels_[k - 1];
      levels_[k].sums[node] = sum_of(below.sums + node * kFan);
      levels_[k].minima[node] = *std::min_element(below.minima + node * kFan, below.minima + (node + 1) * kFan);
    }
  }

  // The child of a group into which `mass` falls; leaves in `mass` what is left inside that child.
  // First the quarter, then the child, both without a branch: which one it is can't be predicted.
  template <class Number>
  static std::size_t pick(const Number* group, double& mass) {
    double quarters[4];
    for (std::size_t k = 0; k < 4; ++k)
      quarters[k] = (static_cast<double>(group[4 * k]) + static_cast<double>(group[4 * k + 1])) +
                    (static_cast<double>(group[4 * k + 2]) + static_cast<double>(group[4 * k + 3]));
    const std::size_t quarter = pick_of_four(quarters[0], quarters[1], quarters[2], mass);
    const Number* rest = group + 4 * quarter;
    const std::size_t child = 4 * quarter + pick_of_four(static_cast<double>(rest[0]), static_cast<double>(rest[1]),
                                                         static_cast<double>(rest[2]), mass);
    if (mass < static_cast<double>(group[child])) [[likely]]
      return child;
    // Rounding carried the mass past the end of what is there: it belongs to the last child that has any.
    std::size_t last = kFan - 1;
    while (last > 0 && !(group[last] > 0)) --last;
    mass = std::nextafter(static_cast<double>(group[last]), 0.0);
    return last;
  }

  static std::size_t pick_of_four(double first, double second, double third, double& mass) {
    const double two = first + second, three = two + third;
    const std::size_t nth = std::size_t{mass >= first} + std::size_t{mass >= two} + std::size_t{mass >= three};
    const double before[4] = {0, first, two, three};
    mass -= before[nth];
    return nth;
  }

  float* leaves_ = nullptr;
  std::size_t leaf_count_ = 0;
  std::vector<Level> levels_;  // from the leaves' parents upwards
  std::vector<double> masses_;
};

}  // namespace rb
