#include "priorities.hpp"

#include <algorithm>

#include "../base/powers.hpp"

namespace rb {
namespace {

// The leaf of a row whose weight would be 1.
float unit_leaf(const Drawn& drawn, Normalize normalize, Store& store) {
  const auto rows = [&] { return drawn.candidates != 0 ? drawn.candidates : store.stored(); };
  if (normalize == Normalize::none) return static_cast<float>(drawn.total / static_cast<double>(rows()));
  return drawn.leaves.empty() ? drawn.smallest : *std::ranges::min_element(drawn.leaves);
}

}  // namespace

float PriorityOptions::leaf(double priority) const {
  float leaf;
  shifted_powers(&priority, 1, eps, alpha, &leaf);
  return leaf;
}

void importance_weights(const Drawn& drawn, double beta, const PriorityOptions& options, Store& store, float* weights) {
  // w_i = (N P(i))^-beta / max_j w_j = (p_i / min_j p_j)^-beta: N and the total cancel out.
  float unit = drawn.smallest;
  if (options.normalize != Normalize::buffer) unit = unit_leaf(drawn, options.normalize, store);
  ratio_powers(drawn.leaves.data(), drawn.leaves.size(), unit, -beta, weights);
}

}  // namespace rb
