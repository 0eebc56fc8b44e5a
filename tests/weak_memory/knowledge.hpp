// What a thread knows, which determines what it may read, where its stores may go, and what other threads learn.
#pragma once

#include "histories.hpp"
#include "model.hpp"

namespace weak::model {

struct Knowledge {
  View view;                  // what it knows
  View unjoined;              // what relaxed loads found: known after an acquire fence
  View released;              // what it knew at its last release fence
  bool has_released = false;  // whether there was one

  // As a thread begins that is made with this view.
  void begin(const View& with);
};

// The store, by number, that an operation may read; `writes` for a read-modify-write.
std::uint16_t choose_read(Knowledge& mine, std::size_t location, const Order& order, bool writes = false);
// The place in modification order where a store may go.
std::size_t choose_place(Knowledge& mine, std::size_t location, const Order& order);

// What is learnt by reading store `number`.
void read(Knowledge& mine, std::size_t location, std::uint16_t number, const Order& order);
// Stores a value at a place of the modification order.
void write(Knowledge& mine, std::size_t location, std::size_t place, std::uint64_t value, const Order& order);
// Reads store `number`, and stores a value just behind it.
void modify(Knowledge& mine, std::size_t location, std::uint16_t number, std::uint64_t value, const Order& order);
void pass_fence(Knowledge& mine, const Order& order);

void clear_fences();

}  // namespace weak::model
