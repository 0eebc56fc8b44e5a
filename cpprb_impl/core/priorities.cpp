#include "priorities.hpp"

#include "powers.hpp"

namespace rb {

float PriorityOptions::leaf(double priority) const {
  float leaf;
  shifted_powers(&priority, 1, eps, alpha, &leaf);
  return leaf;
}

void importance_weights(const Drawn& drawn, double beta, const PriorityOptions&, float* weights) {
  // w_i = (N P(i))^-beta / max_j w_j = (p_i / min_j p_j)^-beta: N and the total cancel out.
  ratio_powers(drawn.leaves.data(), drawn.leaves.size(), drawn.smallest, -beta, weights);
}

}  // namespace rb
