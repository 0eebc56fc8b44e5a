// S, the total order of the sequentially consistent operations on words. It is not the order of execution: it is built
// on demand, and no choice is made that would close a cycle.
#pragma once

#include "histories.hpp"

namespace weak::model {

// Where an operation stands in the modification order of its word, in halves: 2 * place for one that reads or wrote the
// store there, 2 * place - 1 for a store that would come just before it.
using HalfPlace = std::size_t;

// Whether S has no cycle if a thread that knows `known` does this next.
bool fits_total_order(const View& known, std::size_t location, HalfPlace half_place, bool writes);
// Adds the operation that has read or written store `number`.
void add_to_total_order(View& known, std::size_t location, std::uint16_t number, bool writes);

void clear_total_order();

}  // namespace weak::model
