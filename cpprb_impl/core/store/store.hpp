// A store: rows in a ring, and their priorities. `PrivateStore` belongs to one process, `SharedStore` to many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../base/waiting.hpp"
#include "../rows/rows.hpp"

namespace rb {

struct LinkWord;
class StreamLinks;
struct StreamStep;

// The arguments of one call of add().
struct NewRows {
  const char* const* data;  // by field: the contiguous values of `count` rows
  std::size_t count;
  const float* leaves;  // one per row; null: all have `leaf`
  float leaf;
  double largest;  // largest raw priority; 0 if the rows were added without priorities
  // In a shared store of sequences: the process's streams, and one step per row.
  StreamLinks* links = nullptr;
  StreamStep* steps = nullptr;
  // Or one link per row, for rows with the numbers `linked_from`, `linked_from` + 1, ...; a row that gets another
  // number is a run of its own.
  const LinkWord* linked = nullptr;
  std::uint64_t linked_from = 0;
};

inline constexpr std::size_t kAllGood = ~std::size_t{0}, kAllLate = kAllGood - 1;

class Store {
 public:
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  virtual std::uint64_t capacity() const = 0;
  virtual std::uint64_t next_slot() const = 0;
  virtual std::uint64_t stored() = 0;  // number of rows that can be sampled; may change while others write
  virtual bool prioritized() const = 0;
  virtual std::size_t bytes() const = 0;
  virtual std::string name() const { return {}; }  // of the shared segment

  // Stores the rows, or only the last ones if there are more than the ring holds. Returns the slot of the first stored
  // row. Throws std::bad_alloc (nothing has changed then), Interrupted.
  virtual std::uint64_t add(const NewRows& rows, Waiting& waiting) = 0;

  // The largest raw priority given to any row.
  virtual double max_priority() const = 0;
  virtual void raise_max_priority(double priority) = 0;
  // Lowers the largest priority, unless it has been raised since it was `known`.
  virtual void lower_max_priority(double known, double priority) = 0;

  // Called in a process that was forked from the one using the store.
  virtual void forked() {}

  // The following need a LearnerGuard. `to` holds the destination of each field's values.

  // Sets the leaves of the rows at `index`; `largest` is the largest raw priority. `sample` is the number of the sample
  // that `index` came from, 0 if unknown. Returns the position of the first invalid index (nothing has changed then),
  // kAllLate if no row was left to update, otherwise kAllGood.
  virtual std::size_t update(const std::int64_t* index, std::size_t count, const float* leaves, double largest,
                             std::uint64_t sample) = 0;
  virtual float largest_leaf() = 0;
  // Reads the rows in `slots`. Returns the position of the first slot without a row, or kAllGood if there is none.
  virtual std::size_t read(const std::vector<std::size_t>& slots, char* const* to, Waiting& waiting) = 0;
  // Returns all slots that hold a row, in order.
  virtual std::vector<std::size_t> stored_slots() = 0;
  // Reads the rows in `slots`, as returned by stored_slots(), except those removed since. Returns how many were read.
  virtual std::size_t read_stored(const std::vector<std::size_t>& slots, char* const* to, Waiting& waiting) = 0;
  virtual void clear() = 0;

  // The following read and restore the state, and need a LearnerGuard as well.

  virtual std::uint64_t head() const = 0;  // the number of the next row; never decreases
  virtual bool holds(std::uint64_t slot) const = 0;
  virtual float leaf(std::uint64_t slot) = 0;  // of a slot that holds a row
  // Sets the leaves of slots that hold rows; takes effect with the next draw. Overwrites `slots`.
  virtual void set_leaves(std::vector<std::size_t>& slots, const float* leaves) = 0;
  virtual void set_max_priority(double priority) = 0;

  Rows& rows() { return *rows_; }

 protected:
  explicit Store(std::unique_ptr<Rows> rows) : rows_(std::move(rows)) {}

  // Calls read(), which copies `count` rows; other threads may run meanwhile if the copy is long.
  template <class Read>
  void copy(std::size_t count, Waiting& waiting, Read&& read) {
    if (count * rows_->bytes() < waiting.long_copy)
      read();
    else
      waiting.copy(std::function<void()>(std::ref(read)));
  }

  std::unique_ptr<Rows> rows_;

 private:
  friend class LearnerGuard;
  virtual void lock_for_learner(Waiting&) {}
  virtual void unlock_for_learner() {}
};

// While the guard exists, its holder may read and change the rows. What other processes may do meanwhile depends on the
// store.
class LearnerGuard {
 public:
  LearnerGuard(Store& store, Waiting& waiting) : store_(store) { store.lock_for_learner(waiting); }
  ~LearnerGuard() { store_.unlock_for_learner(); }
  LearnerGuard(const LearnerGuard&) = delete;

 private:
  Store& store_;
};

}  // namespace rb
