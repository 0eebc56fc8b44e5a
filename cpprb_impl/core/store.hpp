// The store: a ring of rows and its priorities, in one piece of memory, used through turns.
//
// Writing goes through an ExplorerTurn, everything else that touches rows through a LearnerTurn.
// What a turn locks depends on the discipline; the code around it does not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memory.hpp"
#include "priority_tree.hpp"
#include "random.hpp"
#include "segment_header.hpp"

namespace rb {

class Store {
 public:
  struct Shape {
    std::uint64_t capacity;  // rows, at least 1
    std::uint64_t stride;    // bytes a row
    bool prioritized;
    Discipline discipline;
    bool prefault = false;
    std::string description{};  // told to whoever attaches by name (description.hpp)
  };

  // A new, empty store. Throws std::bad_alloc, std::system_error, std::length_error.
  explicit Store(const Shape& shape);
  // The store in the segment `name`. Throws std::system_error when it is gone, std::runtime_error
  // when it is laid out otherwise than `shape`.
  Store(const std::string& name, const Shape& shape);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  std::uint64_t capacity() const { return header_->capacity; }
  std::uint64_t head() const { return header_->head.load(std::memory_order_acquire); }
  std::uint64_t tail() const { return header_->tail.load(std::memory_order_acquire); }
  std::uint64_t next_slot() const { return head() % capacity(); }
  const std::string& name() const { return memory_.name(); }
  std::size_t bytes() const { return memory_.bytes(); }

  // Rows that can be sampled. While others write it is a moment's view.
  std::uint64_t stored() const {
    std::uint64_t first, last;
    // Both move while others write: two looks at the tail that agree were at the same moment as the head.
    int looks = 0;
    do {
      first = tail();
      last = head();
    } while (first != tail() && ++looks < 100);
    if (last <= first) return 0;
    const std::uint64_t rows = std::min(last - first, capacity());
    return rows - std::min(rows, header_->holes.used ? header_->holes.rows(first) : 0);
  }

  double max_priority() const { return header_->max_priority.load(std::memory_order_relaxed); }
  void raise_max_priority(double priority);
  void set_max_priority(double priority) { header_->max_priority.store(priority, std::memory_order_relaxed); }
  bool prioritized() const { return header_->prioritized != 0; }

  // This process was forked from the one that used the store.
  void forked() { memory_.forked(); }
  // Every process that writes takes a seat of its own once, as far as there are seats.
  std::size_t take_new_seat() { return header_->seats_taken.fetch_add(1) % kSeats; }

  char* row_in_slot(std::uint64_t slot) { return rows_ + slot * header_->stride; }
  // The newest row that was written to `slot`; only meaningful once the slot was ever written.
  std::uint64_t row_of(std::uint64_t slot) const {
    const std::uint64_t last = head() - 1;
    return last - (last % capacity() + capacity() - slot) % capacity();
  }
  bool holds(std::uint64_t slot) const {
    const std::uint64_t last = head(), first = tail();
    if (last <= first) return false;
    const std::uint64_t back = ((last - 1) % capacity() + capacity() - slot) % capacity();
    return back < last - first && !(header_->holes.used && header_->holes.contain(last - 1 - back));
  }
  PriorityTree& tree() { return tree_; }

  // The following need a LearnerTurn.

  // Slots drawn uniformly with replacement; the store must not be empty.
  void draw_uniform(Random& random, std::size_t count, std::size_t* slots) const;
  // All stored slots, in slot order.
  std::vector<std::size_t> stored_slots() const;
  // Brings the leaves written since the last call into the tree: O(k log n) for k new rows.
  void bring_tree_up_to_date();
  // Leaf values for rows in `slots`, at once visible to draws. Overwrites `slots`.
  void set_leaves(std::vector<std::size_t>& slots, const float* leaves);
  // Forgets every row; row numbers go on, so that late updates for forgotten rows stay recognisable.
  // The next row goes to `slot`.
  void clear(std::uint64_t slot = 0);

 private:
  friend class ExplorerTurn;
  friend class LearnerTurn;

  void view_memory();
  void claim(std::size_t seat, std::uint64_t count);
  bool would_lap_a_writer(std::uint64_t count) const;
  std::uint64_t next_row() const { return std::max(head(), tail()); }  // the tail is ahead if clear() died half-way
  void lock_index(Waiting& waiting);
  void distrust_tree();
  void bury_behind_index(std::size_t seat, Waiting& waiting);
  void bury_open_claim(std::size_t seat);

  Memory memory_;
  SegmentHeader* header_ = nullptr;
  char* rows_ = nullptr;
  PriorityTree tree_;
};

// While it lives, the caller may write rows [first(), first() + count) and their leaves.
class ExplorerTurn {
 public:
  ExplorerTurn(Store& store, std::size_t seat, std::uint64_t count, Waiting& waiting);
  ~ExplorerTurn();
  ExplorerTurn(const ExplorerTurn&) = delete;
  ExplorerTurn& operator=(const ExplorerTurn&) = delete;

  std::uint64_t first() const { return first_; }

 private:
  void take_seat(Waiting& waiting);
  void claim_beside_others(std::uint64_t count, Waiting& waiting);
  void let_writers_finish(Waiting& waiting, unsigned round);

  Store& store_;
  SegmentHeader& header_;
  std::size_t seat_;
  std::uint64_t first_;
};

// While it lives, nobody writes a row, and no row is half-written.
class LearnerTurn {
 public:
  LearnerTurn(Store& store, Waiting& waiting);
  ~LearnerTurn();
  LearnerTurn(const LearnerTurn&) = delete;
  LearnerTurn& operator=(const LearnerTurn&) = delete;

 private:
  void take_every_seat(Waiting& waiting);
  void leave();

  Store& store_;
  SegmentHeader& header_;
  std::size_t seats_held_ = 0;
};

}  // namespace rb
