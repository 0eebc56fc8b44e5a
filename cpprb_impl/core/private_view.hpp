// The samplers' view of a single-process store.
#pragma once

#include "private_store.hpp"
#include "sampler.hpp"

namespace rb {

class PrivateView {
 public:
  // Whether another process may overwrite a row after it is drawn and before it is read.
  static constexpr bool kRowsVanish = false;

  // The slots that hold a row, in the order of their rows.
  struct Slots {
    std::uint64_t first, count, capacity;
    std::size_t nth(std::uint64_t n) const { return first + n < capacity ? first + n : first + n - capacity; }
  };

  explicit PrivateView(PrivateStore& store) : store_(store) {}

  bool is_empty() const { return store_.stored() == 0; }
  Slots slots() const { return {store_.tail() % store_.capacity(), store_.stored(), store_.capacity()}; }
  void read(Drawn& drawn, char* const* to, Waiting& waiting) { store_.fill(drawn.slots, to, waiting); }

  void catch_up() { store_.bring_tree_up_to_date(); }
  PriorityTree& tree() { return store_.tree_; }
  // For update(). Returns the sample's number: always 0, because here the slots identify the rows.
  std::uint64_t remember(const Drawn&) {
    store_.sampled_at = store_.head();
    return 0;
  }

 private:
  PrivateStore& store_;
};

}  // namespace rb
