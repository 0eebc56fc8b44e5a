// The errors of the steps of a private store, from which the priorities of all sequences with an updated step follow.
#pragma once

#include <cstdint>
#include <vector>

#include "../base/memory.hpp"
#include "private_sequences.hpp"

namespace rb {

// The priority of a sequence with `count` steps to learn from (Kapturowski et al. 2019, section 2.3), 0 without any.
inline double mixed_priority(double eta, double largest, double sum, std::uint32_t count) {
  return count == 0 ? 0 : eta * largest + (1 - eta) * sum / count;
}

class StepErrors {
 public:
  // Throws std::bad_alloc.
  StepErrors(PrivateStore& store, PrivateSequences& sequences, double eta);

  float error(std::uint64_t slot) const { return errors_[slot]; }
  // Sets the error of the step in `slot`; infinities become the largest float.
  void set(std::uint64_t slot, double error);

  // By sequence: the slot of its last step, and its new priority.
  struct Ends {
    std::vector<std::size_t> slots;
    std::vector<double> priorities;
  };
  // For each of `places`, sets the errors of the steps of the sequence that ends in slot index[place], unless it was
  // overwritten: errors[place * length + t] is that of step t. Padded and burn-in steps have none. Returns all
  // sequences with one of these steps, some repeatedly. Throws std::bad_alloc.
  Ends& update(const std::vector<std::size_t>& places, const std::int64_t* index, const float* errors);

  std::size_t bytes() const { return memory_.bytes(); }

 private:
  void find_overlapping(std::size_t slot);

  PrivateStore& store_;
  PrivateSequences& sequences_;
  const double eta_;
  Memory memory_;
  float* errors_;  // by slot
  // Kept between calls to reuse their memory.
  struct Step {
    std::size_t slot;
    float error;
  };
  std::vector<Step> run_;             // consecutive steps of one run
  std::vector<double> sums_;          // sums_[i]: of the errors of the first i rows of the run
  std::vector<std::size_t> largest_;  // places in the run with decreasing errors: the first is that of the largest
  Ends ends_;
};

}  // namespace rb
