#include "priority_tree.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "../base/dispatch.hpp"

namespace rb {
namespace {

constexpr std::size_t kFan = PriorityTree::kFan;

// A group of 16 is four vectors of four, written with vector types because the compiler does not vectorise the loops.
// It translates them to the instructions of each processor.
using Floats = float __attribute__((vector_size(4 * sizeof(float))));
using Doubles = double __attribute__((vector_size(4 * sizeof(double))));

// Loads a vector from any address. Not by memcpy: GCC merges neighbouring calls of it into 16-byte stores to the stack,
// and a load of 32 bytes from there must wait for them (a store-forwarding stall), so draws and updates take twice as
// long with AVX2. Into `to`, since GCC warns of functions that return vectors.
template <class Vector, class Number>
inline void load(const Number* from, Vector& to) {
  using Unaligned __attribute__((aligned(alignof(Number)), may_alias)) = Vector;
  to = *reinterpret_cast<const Unaligned*>(from);
}

inline Floats quarter_of(const float* group, std::size_t k) {
  Floats quarter;
  load(group + 4 * k, quarter);
  return quarter;
}

inline void quarter_of(const float* group, std::size_t k, Doubles& quarter) {
  quarter = __builtin_convertvector(quarter_of(group, k), Doubles);
}

inline void quarter_of(const double* group, std::size_t k, Doubles& quarter) { load(group + 4 * k, quarter); }

// The sums of the children j, j + 4, j + 8 and j + 12, for j from 0 to 3.
template <class Number>
inline void columns_of(const Number* group, Doubles& columns) {
  Doubles rows[4];
  for (std::size_t k = 0; k < 4; ++k) quarter_of(group, k, rows[k]);
  columns = (rows[0] + rows[1]) + (rows[2] + rows[3]);
}

template <class Number>
inline double sum_of(const Number* group) {
  Doubles columns;
  columns_of(group, columns);
  return (columns[0] + columns[1]) + (columns[2] + columns[3]);
}

// The smallest and the largest leaf are found together, as the minima of rare(x) and of -x. Both are negative for a
// leaf x > 0, and 0 for an empty one, so a tree of zeros is empty. rare(x) increases with x: its bits are those of
// -infinity minus those of x, and the bits of positive floats increase with their values.
using TwoFloats = float __attribute__((vector_size(8 * sizeof(float))));
using Integers = std::int32_t __attribute__((vector_size(4 * sizeof(float))));

constexpr std::int32_t kInfinity = 0x7f80'0000, kMinusInfinity = std::bit_cast<std::int32_t>(0xff80'0000);

inline Integers rare(Integers bits) { return kMinusInfinity - bits; }

inline PriorityTree::Lanes lanes_of(const TwoFloats (&rows)[4]) {
  const TwoFloats low = rows[0] < rows[1] ? rows[0] : rows[1], high = rows[2] < rows[3] ? rows[2] : rows[3];
  TwoFloats lanes = low < high ? low : high;
  TwoFloats others = __builtin_shufflevector(lanes, lanes, 2, 3, 0, 1, 6, 7, 4, 5);
  lanes = lanes < others ? lanes : others;
  others = __builtin_shufflevector(lanes, lanes, 1, 0, 3, 2, 5, 4, 7, 6);
  lanes = lanes < others ? lanes : others;
  return {lanes[0], lanes[4]};
}

inline PriorityTree::Lanes lanes_of_leaves(const float* group) {
  TwoFloats rows[4];
  for (std::size_t k = 0; k < 4; ++k) {
    const Floats quarter = quarter_of(group, k);
    const Floats low = std::bit_cast<Floats>((quarter > 0) & rare(std::bit_cast<Integers>(quarter)));
    rows[k] = __builtin_shufflevector(low, -quarter, 0, 1, 2, 3, 4, 5, 6, 7);
  }
  return lanes_of(rows);
}

// Computes the lanes of the parent of 16 nodes, whose own lanes begin at `lanes`.
inline PriorityTree::Lanes lanes_of_nodes(const float* lanes) {
  TwoFloats rows[4];
  for (std::size_t k = 0; k < 4; ++k) load(lanes + 8 * k, rows[k]);
  return lanes_of(rows);
}

inline PriorityTree::Bounds bounds_of(PriorityTree::Lanes lanes) {
  const std::int32_t magnitude = std::bit_cast<std::int32_t>(lanes.smallest) & 0x7fff'ffff;
  return {std::bit_cast<float>(kInfinity - magnitude), 0.0f - lanes.largest};
}

// A group of doubles, or of lanes, occupies two cache lines.
template <class Number>
inline void prefetch_two(const Number* group) {
  __builtin_prefetch(group);
  __builtin_prefetch(reinterpret_cast<const char*>(group) + 64);
}

// Picks one of four by mass, and leaves the remaining mass in `mass`. Uses no branches, since they would be
// unpredictable.
inline std::size_t pick_of_four(double first, double second, double third, double& mass) {
  const double two = first + second, three = two + third;
  const std::size_t nth = std::size_t{mass >= first} + std::size_t{mass >= two} + std::size_t{mass >= three};
  const double before[4] = {0, first, two, three};
  mass -= before[nth];
  return nth;
}

// Returns the child of a group into which `mass` falls, and leaves the remaining mass in `mass`. The children are
// ordered by column: any fixed order works.
template <class Number>
inline std::size_t pick(const Number* group, double& mass) {
  Doubles columns;
  columns_of(group, columns);
  const std::size_t column = pick_of_four(columns[0], columns[1], columns[2], mass);
  const auto at = [=](std::size_t row) { return static_cast<double>(group[4 * row + column]); };
  const std::size_t child = 4 * pick_of_four(at(0), at(1), at(2), mass) + column;
  if (mass < static_cast<double>(group[child])) [[likely]]
    return child;
  // Rounding moved the mass past the end: choose the last child that has any.
  std::size_t last = kFan - 1;
  while (last > 0 && !(group[last] > 0)) --last;
  mass = std::nextafter(static_cast<double>(group[last]), 0.0);
  return last;
}

}  // namespace

__attribute__((always_inline)) inline void PriorityTree::recompute(std::size_t k, std::size_t node) {
  if (k == 0) {
    levels_[0].sums[node] = sum_of(leaves_ + node * kFan);
    levels_[0].set_lanes(node, lanes_of_leaves(leaves_ + node * kFan));
  } else {
    const Level& below = levels_[k - 1];
    levels_[k].sums[node] = sum_of(below.sums + node * kFan);
    levels_[k].set_lanes(node, lanes_of_nodes(below.lanes + 2 * node * kFan));
  }
}

void PriorityTree::clear() {
  std::size_t nodes = levels_.empty() ? leaf_count_ / kFan : std::exchange(touched_, 0);
  std::fill_n(leaves_, nodes * kFan, 0.0f);
  for (auto& level : levels_) {
    std::fill_n(level.sums, nodes, 0.0);
    nodes = (nodes + kFan - 1) / kFan;
    std::fill_n(level.lanes, 2 * nodes * kFan, 0.0f);  // the lanes of four nodes are adjacent
  }
}

RB_FOR_EACH_CPU void PriorityTree::refresh(std::size_t first, std::size_t count) {
  if (count == 0) return;
  std::size_t low = first, high = first + count - 1;
  touched_ = std::max(touched_, high / kFan + 1);
  for (std::size_t k = 0; k < levels_.size(); ++k) {
    low /= kFan;
    high /= kFan;
    for (std::size_t node = low; node <= high; ++node) recompute(k, node);
  }
}

RB_FOR_EACH_CPU void PriorityTree::refresh_scattered(std::vector<std::size_t>& slots) {
  // The sums were read when these slots were drawn, but the bounds were not. A small tree's bounds are cached anyway.
  for (std::size_t k = 0; k < 2 && levels_.size() > 3; ++k)
    for (const auto slot : slots) prefetch_two(levels_[k].lanes + (slot >> (4 * (k + 2))) * 2 * kFan);
  for (std::size_t k = 0; k < levels_.size(); ++k) {
    std::size_t kept = 0;
    for (const auto slot : slots) {
      const std::size_t node = slot / kFan;
      if (kept == 0 || slots[kept - 1] != node) slots[kept++] = node;
    }
    slots.resize(kept);
    for (const auto node : slots) recompute(k, node);
    if (k == 0)
      for (const auto node : slots) touched_ = std::max(touched_, node + 1);
  }
}

double PriorityTree::total() const { return levels_.empty() ? sum_of(leaves_) : sum_of(levels_.back().sums); }

PriorityTree::Bounds PriorityTree::bounds() const {
  return bounds_of(levels_.empty() ? lanes_of_leaves(leaves_) : lanes_of_nodes(levels_.back().lanes));
}

RB_FOR_EACH_CPU void PriorityTree::draw(Random& random, std::size_t count, std::size_t* slots, Draws draws) {
  masses_.resize(count);
  const bool stratified = draws == Draws::stratified;
  const double share = total() / (stratified ? static_cast<double>(count) : 1.0);
  for (std::size_t i = 0; i < count; ++i) {
    masses_[i] = ((stratified ? static_cast<double>(i) : 0.0) + random.uniform()) * share;
    slots[i] = 0;
  }
  for (std::size_t k = levels_.size(); k-- > 0;) {
    const Level& level = levels_[k];
    // The top level has at most 16 nodes and no parent: it is a single group.
    for (std::size_t i = 0; i < count; ++i) {
      slots[i] = pick(level.sums + slots[i] * kFan, masses_[i]) + slots[i] * kFan;
      if (k == 0) {
        __builtin_prefetch(leaves_ + slots[i] * kFan);
      } else {
        prefetch_two(levels_[k - 1].sums + slots[i] * kFan);
      }
    }
  }
  for (std::size_t i = 0; i < count; ++i) slots[i] = pick(leaves_ + slots[i] * kFan, masses_[i]) + slots[i] * kFan;
}

}  // namespace rb
