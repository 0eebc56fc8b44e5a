// Determines which processes wait for each other under each lock discipline. With "none", no process waits. The work
// done inside the guards is the same under all three.
#pragma once

#include <cstddef>

#include "shared_store.hpp"

namespace rb {

// While the guard exists, its call may add rows, using a registration that no other call holds.
class ExplorerGuard {
 public:
  ExplorerGuard(SharedStore& store, Waiting& waiting);
  ~ExplorerGuard();
  ExplorerGuard(const ExplorerGuard&) = delete;

  std::size_t registration() const { return registration_; }

 private:
  void register_before_the_gate(Waiting& waiting);

  SharedStore& store_;
  std::size_t registration_;
};

}  // namespace rb
