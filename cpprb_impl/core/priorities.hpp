// Converts raw priorities to leaves of a priority tree, and leaves to importance weights (Schaul et al. 2015).
#pragma once

#include "sampler.hpp"

namespace rb {

struct PriorityOptions {
  double alpha = 0.6, eps = 1e-4;

  // (priority + eps)^alpha: section 3.3, equation 1.
  float leaf(double priority) const;
};

// The weights of a sample, one per drawn row: (N P(i))^-beta, divided by the largest weight of any stored row
// (section 3.4). An option for another normalisation belongs in PriorityOptions; bindings/options.cpp parses it.
void importance_weights(const Drawn& drawn, double beta, const PriorityOptions& options, float* weights);

}  // namespace rb
