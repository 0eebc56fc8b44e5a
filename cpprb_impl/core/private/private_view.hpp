// The samplers' view of a single-process store.
#pragma once

#include "../store/sampler.hpp"
#include "private_store.hpp"

namespace rb {

// `kRemembers` is check_for_update, a compile-time constant so that stores without it do not pay for it.
template <bool kRemembers>
class PrivateViewOf {
 public:
  // Whether another process may overwrite a row after it is drawn and before it is read.
  static constexpr bool kRowsVanish = false;

  // The slots that hold a row, in the order of their rows.
  struct Slots {
    std::uint64_t first, count, capacity;
    std::size_t nth(std::uint64_t n) const { return first + n < capacity ? first + n : first + n - capacity; }
  };

  explicit PrivateViewOf(PrivateStore& store) : store_(store) {}

  bool is_empty() const { return store_.stored() == 0; }
  Slots slots() const { return {store_.tail() % store_.capacity(), store_.stored(), store_.capacity()}; }
  void read(Drawn& drawn, char* const* to, Waiting& waiting) { store_.fill(drawn.slots, to, waiting); }

  void catch_up() { store_.bring_tree_up_to_date(); }
  PriorityTree& tree() { return store_.tree_; }
  void draw(Random& random, std::size_t count, std::size_t* slots) { tree().draw(random, count, slots); }
  // Returns the sample's number, or 0 if the slots alone identify the rows for update().
  std::uint64_t remember([[maybe_unused]] const Drawn& drawn) {
    store_.sampled_at = store_.head();
    if constexpr (kRemembers) return store_.samples_.remember(drawn.slots, store_.head());
    return 0;
  }

 private:
  PrivateStore& store_;
};

}  // namespace rb
