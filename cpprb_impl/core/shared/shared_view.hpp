// The samplers' view of a store shared by processes, to which explorers write at the same time: see shared_read.cpp.
#pragma once

#include <sched.h>

#include "../store/sampler.hpp"
#include "priority_view.hpp"
#include "shared_store.hpp"

namespace rb {

class SharedView {
 public:
  // Whether another process may overwrite a row after it is drawn and before it is read.
  static constexpr bool kRowsVanish = true;

  // In a ring of very few rows, explorers may leave hardly any time in which a row can be read.
  static constexpr unsigned kTries = 100'000, kTriesAtOnce = 100, kLooks = 100;
  // The largest number of tries between two scans of all slots, or of all changes: there is at least one scan before
  // giving up.
  static constexpr std::size_t kSeldom = kTries / 2;

  // Slots that may hold a row.
  struct Slots {
    std::uint64_t count;
    std::size_t nth(std::uint64_t n) const { return n; }
  };

  explicit SharedView(SharedStore& store) : store_(store) {}

  std::uint64_t capacity() const { return store_.capacity(); }
  bool is_empty() const { return store_.rows_possible() == 0; }
  Slots slots() const { return {store_.rows_possible()}; }
  std::vector<std::size_t> stored_slots() const { return store_.stored_slots(); }

  // Reads the rows of drawn.slots; those overwritten meanwhile are listed in drawn.failed.
  void read(Drawn& drawn, char* const* to, Waiting& waiting) { store_.read_drawn(drawn, to, waiting); }
  // Reads different rows in place of those in drawn.failed. `draw(i)` redraws place i, and returns false if there is
  // currently nothing to draw from. Returns false if this persists. Throws std::runtime_error if rows are overwritten
  // too fast.
  template <class Draw>
  bool read_failed_again(Drawn& drawn, char* const* to, Draw&& draw);
  // Returns why nothing could be drawn: no rows, or rows without mass. Throws std::runtime_error if every row is being
  // overwritten at this moment, since such a buffer is not empty.
  Found none_found();

  void catch_up() { priorities().catch_up(); }
  PriorityTree& tree() { return priorities().tree(); }
  void draw(Random& random, std::size_t count, std::size_t* slots) { tree().draw(random, count, slots); }
  void refresh_leaf(std::size_t slot) { priorities().refresh_leaf(slot); }
  std::uint64_t remember(const Drawn& drawn) { return priorities().remember(drawn); }

  // As read_failed_again(); read(i) reads the row drawn for place i.
  template <class Draw, class Read>
  static bool draw_failed_again(Drawn& drawn, Draw&& draw, Read&& read);
  [[noreturn]] static void give_up();

 private:
  PriorityView& priorities() { return store_.priorities(); }

  SharedStore& store_;
};

template <class Draw>
bool SharedView::read_failed_again(Drawn& drawn, char* const* to, Draw&& draw) {
  return draw_failed_again(drawn, draw, [&](std::size_t i) { store_.read_tile(drawn, i, i + 1, to); });
}

template <class Draw, class Read>
bool SharedView::draw_failed_again(Drawn& drawn, Draw&& draw, Read&& read) {
  unsigned failures = 0, nothing = 0;  // consecutive failures and empty draws
  while (!drawn.failed.empty()) {
    const std::size_t i = drawn.failed.back();
    if (!draw(i)) {
      if (++nothing == kLooks) return false;
      sched_yield();
      continue;
    }
    drawn.failed.pop_back();
    read(i);
    failures = drawn.failed.empty() || drawn.failed.back() != i ? 0 : failures + 1;
    if (failures == kTries) give_up();
    if (failures % kTriesAtOnce == kTriesAtOnce - 1) sched_yield();
  }
  return true;
}

}  // namespace rb
