// A learner's view of a shared store's priorities: a tree in its own memory, updated with what explorers and other
// learners write. If the priorities are those of sequences, the leaves of rows with which no sequence ends are 0; if
// sequences are drawn uniformly, the other leaves are 1. Implements steps T0 to T5 and U1 to U3 of docs/protocol.md.
// Every memory order stronger than relaxed has a line in tests/weak_memory/orders, which `make orders` checks.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "../base/memory.hpp"
#include "../priorities/priority_tree.hpp"
#include "../priorities/recent_samples.hpp"
#include "../protocol/segment_header.hpp"
#include "../steps/sequence_options.hpp"
#include "../store/sampler.hpp"

namespace rb {

class SharedStore;

class PriorityView {
 public:
  static constexpr std::uint64_t kNotDrawn = ~std::uint64_t{0} - 1;  // in place of a row: no known sample drew the slot
  static constexpr std::uint64_t kMostRows = std::uint64_t{1} << 40;  // an entry has 40 bits for the slot

  // Number of journal entries, a power of two: enough for a learner that samples rarely, and few relative to the rows.
  static std::uint64_t journal_entries(std::uint64_t capacity);
  static std::uint64_t journal_bytes(std::uint64_t capacity) { return journal_entries(capacity) * sizeof(Atomic); }

  // Of `sequences`, if given. Draws are uniform unless `by_priority`.
  PriorityView(SharedStore& store, std::optional<SequenceOptions> sequences, bool by_priority);
  PriorityView(const PriorityView&) = delete;
  ~PriorityView();
  // The child's copy is a separate learner.
  void forked() {
    registration_ = {};
    has_caught_up_ = false;
    yielding_samples_ = 0;
  }

  // Brings the tree up to date with the store, in O(k log n) for k new rows and priorities.
  void catch_up();
  bool has_caught_up() const { return has_caught_up_; }
  // Sets the leaf of the slot to its current priority.
  void refresh_leaf(std::size_t slot);
  PriorityTree& tree() { return tree_; }
  // The number of leaves above 0.
  std::uint64_t possible() const { return possible_; }
  bool by_priority() const { return by_priority_; }
  // The sequence that ends with the row in `slot`, whether or not its steps are still stored.
  Span ending_in(std::uint64_t slot) const;
  std::size_t bytes() const { return memory_.bytes(); }

  // Remembers a sample, so that an update can find its rows again. Returns the sample's number.
  std::uint64_t remember(const Drawn& drawn);
  // Sets the leaves of the rows that were sampled at `index`, if they are still stored. The sample with number `sample`
  // determines which rows these are. If `sample` is 0 or no longer remembered, all remembered samples with the same
  // indexes do; if there are none, all samples that drew the slot. Where these samples differ, no leaf is set. A slot
  // that no remembered sample drew stands for the row that was stored when this process last sampled. Returns whether
  // any leaf was set.
  bool update(const std::int64_t* index, std::size_t count, const float* leaves, std::uint64_t sample);
  // Which rows an update is for: called with a place in its `index` and the row that is now in that slot.
  struct Meant {
    const std::uint64_t* rows;  // valid until the next update or sample
    std::uint64_t sampled_at;

    bool operator()(std::size_t i, std::uint64_t row) const {
      return rows[i] == kNotDrawn ? row < sampled_at : row == rows[i];
    }
  };
  Meant meant(const std::int64_t* index, std::size_t count, std::uint64_t sample);
  // Sets the leaves of the rows with these numbers, if they are still stored. Returns whether any leaf was set.
  bool update_rows(const std::int64_t* rows, std::size_t count, const float* leaves);
  // Sets the leaves of these slots, whichever rows they hold.
  void set(const std::vector<std::size_t>& slots, const float* leaves);
  // Returns the current leaf of the slot, or 0 if the slot has no row.
  float leaf_in(std::uint64_t slot) const;
  // Empties the slot until its row is looked at again: the sequence that ended there is no longer stored.
  void lose(std::size_t slot);

 private:
  struct Open {
    std::size_t registration;
    ClaimWord claim;
    std::uint64_t committed = 0;  // how many of the claim's first rows are known to be committed
    std::uint64_t times = 1;      // how often the claim was found open
    bool is(std::size_t other_registration, ClaimWord other) const {
      return registration == other_registration && claim == other;
    }
  };
  struct Change {
    std::size_t slot;
    std::uint64_t row;
    float leaf;
    std::uint64_t number = 0;  // number of its journal entry
    bool made = false;
    bool marked = false;
  };
  static constexpr std::uint64_t kFarBehind = 1 << 14;  // new rows; processing them takes longer than several samples
  static constexpr std::uint64_t kRowsPerSample = 256;  // new rows; processing them takes about half a sample's time

  template <class Index, class IsMeant>
  bool set_those(const Index* index, std::size_t count, const float* leaves, IsMeant is_meant);
  void refresh_rows(std::uint64_t first, std::uint64_t count);
  void refresh_all();
  void refresh_open_claim(Open& open);
  void request_yielding(std::uint64_t head, std::uint64_t new_rows);
  void give_way_until(std::uint64_t head);
  void end_yielding();
  void read_journal();
  bool is_registered() const {
    return registration_.ticket() != 0 && header_.learners[place_].load() == registration_.bits;
  }
  void join();
  void publish_progress();
  void evict_lagging_learners(std::uint64_t end);
  std::size_t learners_used() const { return std::min<std::size_t>(header_.learners_used.load(), kLearners); }
  bool has_others() const;
  std::uint64_t take_numbers(std::uint64_t count);
  bool write_entry(std::uint64_t number, std::size_t slot, bool done);
  std::uint64_t write_journal(std::size_t slot, bool done);
  bool mark_done(std::uint64_t number, std::size_t slot);
  void change_with_journal(std::size_t first, std::size_t last);
  bool change(std::size_t slot, std::uint64_t row, float leaf);
  std::uint64_t round(std::uint64_t number) const { return number / entries_ + 1; }
  // Whether the entry is so old that it may be overwritten.
  bool is_old(std::uint64_t number, std::uint64_t end) const { return end > number + entries_ / 2; }
  const std::uint64_t* rows_meant(const std::int64_t* index, std::size_t count, std::uint64_t sample);
  Atomic& entry(std::uint64_t number) const { return journal_[number & (entries_ - 1)]; }

  // The tree must then be refreshed.
  void set_leaf(std::uint64_t slot, float leaf) {
    float& found = tree_.leaves()[slot];
    possible_ += std::uint64_t{leaf > 0} - std::uint64_t{found > 0};
    found = leaf;
  }
  bool is_end(std::uint64_t slot) const { return !sequences_ || ending_in(slot).rows != 0; }

  SharedStore& store_;
  SegmentHeader& header_;
  const std::optional<SequenceOptions> sequences_;
  const bool by_priority_;
  Atomic* journal_;
  std::uint64_t entries_;
  Memory memory_;
  PriorityTree tree_;
  std::uint64_t possible_ = 0;
  bool has_caught_up_ = false;
  LearnerWord registration_;  // the word in our place
  std::size_t place_ = 0;
  pid_t process_ = 0;  // the process that owns the place
  std::uint64_t cleared_ = 0;
  std::uint64_t yielding_samples_ = 0;  // until explorers no longer need to give way
  std::uint64_t seen_ = 0;              // rows before this one were examined, except those of `open_`
  std::vector<Open> open_;              // claims whose rows were not all committed
  std::uint64_t journal_seen_ = 0;
  std::vector<std::uint64_t> late_;  // entries that were not done
  std::vector<std::size_t> changed_;
  std::vector<Change> changes_;
  RecentSamples<std::vector<std::uint64_t>> samples_;
  std::vector<std::size_t> slots_;     // of update_rows()
  std::vector<std::uint64_t> agreed_;  // rows of the samples that may be meant
  std::uint64_t sampled_at_ = 0;       // the head when this process last sampled
};

}  // namespace rb
