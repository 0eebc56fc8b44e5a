// The random choices of an execution, determined by its seed. choose() of model.hpp is one of them.
#pragma once

#include <cstdint>

namespace weak::model {

// How an execution chooses. Drawn anew for each, so that some switch often and others read old values.
struct Style {
  bool by_priority;     // the running thread is the one of the highest priority, otherwise any
  double switches;      // the probability that another thread runs next, if not by priority
  double old_reads;     // that a load may read other stores than the newest
  double early_stores;  // that a store may come before others in modification order
};

void begin_choices(std::uint64_t seed);
const Style& style();
bool chance(double probability);

}  // namespace weak::model
