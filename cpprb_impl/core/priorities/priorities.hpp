// Converts raw priorities to leaves of a priority tree, and leaves to importance weights (Schaul et al. 2015).
#pragma once

#include "../store/sampler.hpp"
#include "../store/store.hpp"

namespace rb {

// What importance weights are divided by: the largest weight of any stored row, the largest of the batch, or nothing.
enum class Normalize { buffer, batch, none };

struct PriorityOptions {
  double alpha = 0.6, eps = 1e-4;
  Normalize normalize = Normalize::buffer;

  // (priority + eps)^alpha: section 3.3, equation 1.
  float leaf(double priority) const;
};

// The weights of a sample of `store`, one per drawn row: (N P(i))^-beta, normalised as `options` say (section 3.4).
void importance_weights(const Drawn& drawn, double beta, const PriorityOptions& options, Store& store, float* weights);

}  // namespace rb
