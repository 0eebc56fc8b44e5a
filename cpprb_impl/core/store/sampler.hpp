// Samplers choose which of the stored transitions make up a batch.
//
// A sampler reads a store through a view, which cannot change what is stored: `Store::View`. It is a class template
// over the view, so that drawing and reading a batch costs one virtual call. A new sampler needs a file like
// uniform_sampler.cpp, a line here, and a method in bindings/ that calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "../base/random.hpp"
#include "../base/waiting.hpp"

namespace rb {

// The drawn rows; kept between calls to reuse its memory.
struct Drawn {
  std::vector<std::size_t> slots;
  std::vector<std::uint64_t> rows;  // their numbers, if the store is shared
  std::vector<float> leaves;        // leaves used for drawing; empty for a uniform draw
  std::vector<std::size_t> failed;  // places whose rows were overwritten while being read
  std::uint64_t candidates = 0;     // how many rows could be drawn; 0: all stored ones
  double total = 0;                 // sum of the leaves of all stored rows
  float smallest = 0;               // smallest leaf of any stored row
  std::uint64_t sample = 0;         // number of the sample, from 1 on; 0 if updates do not need it
};

// no_mass: there are rows, but every priority is 0; jumps: a stack does not continue the one of the step before it by
// one frame, so that a sequence cannot be read as single frames.
enum class Found { rows, nothing, no_mass, jumps };

class Sampler {
 public:
  virtual ~Sampler() = default;

  // Draws drawn.slots.size() rows and copies their values to `to`, by field. Needs a LearnerGuard. In a private store,
  // `to` may be null: then nothing is copied.
  virtual Found sample(Random& random, Drawn& drawn, char* const* to, Waiting& waiting) = 0;
};

// Draws uniformly with replacement.
template <class Store>
std::unique_ptr<Sampler> make_uniform_sampler(Store& store);

// Draws in proportion to the leaves, stratified (Schaul et al. 2015, appendix B.2.1).
template <class Store>
std::unique_ptr<Sampler> make_prioritized_sampler(Store& store);

}  // namespace rb
