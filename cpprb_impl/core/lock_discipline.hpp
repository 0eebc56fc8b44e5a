// Which processes wait for which under each lock discipline; with "none", none do. What is done inside a turn is the
// same.
#pragma once

#include <cstddef>

#include "shared_store.hpp"

namespace rb {

// While it lives, its holder may add rows from a seat that is its own.
class ExplorerTurn {
 public:
  ExplorerTurn(SharedStore& store, Waiting& waiting);
  ~ExplorerTurn();
  ExplorerTurn(const ExplorerTurn&) = delete;

  std::size_t seat() const { return seat_; }

 private:
  void take_seat_before_the_gate(Waiting& waiting);

  SharedStore& store_;
  std::size_t seat_;
};

}  // namespace rb
