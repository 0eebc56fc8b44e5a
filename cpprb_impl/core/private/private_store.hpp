// The store of a single process, guarded by the interpreter lock.
//
// Rows are numbered from 0, and no number is reused; row `s` is in slot `s % capacity`. The rows [tail, head) are
// stored.
#pragma once

#include <algorithm>
#include <memory>

#include "../base/memory.hpp"
#include "../priorities/priority_tree.hpp"
#include "../priorities/recent_samples.hpp"
#include "../store/store.hpp"

namespace rb {

template <bool kRemembers>
class PrivateViewOf;

class PrivateStore final : public Store {
 public:
  using View = PrivateViewOf<false>;

  // Creates an empty store, with the files and streams of `rows`. Throws TooLarge, std::bad_alloc, std::system_error.
  PrivateStore(std::unique_ptr<Rows> rows, std::uint64_t capacity, bool prioritized, bool check_for_update);

  using Store::copy;

  std::uint64_t capacity() const override { return capacity_; }
  std::uint64_t next_slot() const override { return head_ % capacity_; }
  std::uint64_t stored() override { return head_ - tail_; }
  bool prioritized() const override { return prioritized_; }
  bool check_for_update() const { return check_for_update_; }
  std::size_t bytes() const override { return memory_.bytes() + rows_->frame_bytes_in_use(); }

  std::uint64_t add(const NewRows& rows, Waiting& waiting) override;

  double max_priority() const override { return max_priority_; }
  void raise_max_priority(double priority) override { max_priority_ = std::max(max_priority_, priority); }
  void lower_max_priority(double, double priority) override { max_priority_ = priority; }

  std::size_t update(const std::int64_t* index, std::size_t count, const float* leaves, double largest,
                     std::uint64_t sample) override;
  // The places in `index` whose rows update() changes.
  std::vector<std::size_t> meant(const std::int64_t* index, std::size_t count, std::uint64_t sample) const;
  float largest_leaf() override;
  std::size_t read(const std::vector<std::size_t>& slots, char* const* to, Waiting& waiting) override;
  std::vector<std::size_t> stored_slots() override;
  std::size_t read_stored(const std::vector<std::size_t>& slots, char* const* to, Waiting& waiting) override;
  // Row numbers continue, so that rows sampled earlier are not confused with later ones.
  void clear() override { clear_to(0); }

  std::uint64_t head() const override { return head_; }
  std::uint64_t tail() const { return tail_; }
  bool holds(std::uint64_t slot) const override { return slot < capacity_ && head_ - row_of(slot) <= head_ - tail_; }
  float leaf(std::uint64_t slot) override { return tree_.leaves()[slot]; }
  void set_leaves(std::vector<std::size_t>& slots, const float* leaves) override;
  void set_max_priority(double priority) override { max_priority_ = priority; }
  // Removes every row; the next one goes to `slot`.
  void clear_to(std::uint64_t slot);
  // Makes the `count` slots before slot `next` the ones that hold rows, with the data already in them. A slot that held
  // none gets `leaf`; so do all from next_slot() to `next` if the others are unchanged, as if those rows had been
  // added. Not for rows with frames.
  void hold(std::uint64_t next, std::uint64_t count, float leaf);

  // The number of the newest row written to `slot`. If there is none yet, the slot's first row number minus the
  // capacity (modulo 2^64).
  std::uint64_t row_of(std::uint64_t slot) const {
    const std::uint64_t last = head_ - 1;
    return last - (last % capacity_ + capacity_ - slot) % capacity_;
  }

  std::uint64_t sampled_at = 0;  // the head at the last sample, for indexes that no remembered sample drew
  RecentSamples<std::uint64_t>& samples() { return samples_; }

 private:
  template <bool kRemembers>
  friend class PrivateViewOf;

  template <class Use>
  void with_meant(const std::int64_t* index, std::size_t count, std::uint64_t sample, Use use) const;
  void bring_tree_up_to_date();
  void fill(const std::vector<std::size_t>& slots, char* const* to, Waiting& waiting);

  std::uint64_t capacity_;
  bool prioritized_, check_for_update_;
  Memory memory_;
  PriorityTree tree_;
  std::vector<std::size_t> changed_;
  RecentSamples<std::uint64_t> samples_;  // with the head at each sample, for check_for_update
  std::uint64_t head_ = 0, tail_ = 0;
  std::uint64_t in_tree_ = 0;  // the tree's nodes are up to date for the rows before this one
  double max_priority_ = 1.0;
};

}  // namespace rb
