// A learner's view of a shared store's priorities: a tree in its own memory, kept up with what explorers and other
// learners write. Steps T1 to T5, U1 and U2 of docs/protocol.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory.hpp"
#include "priority_tree.hpp"
#include "segment_header.hpp"
#include "store.hpp"

namespace rb {

class SharedStore;

class PriorityView {
 public:
  // Entries of the journal, a power of two: enough for whoever samples now and then, and little beside the rows.
  static std::uint64_t journal_entries(std::uint64_t capacity);
  static std::uint64_t journal_bytes(std::uint64_t capacity) { return journal_entries(capacity) * sizeof(Atomic); }

  explicit PriorityView(SharedStore& store);
  PriorityView(const PriorityView&) = delete;
  ~PriorityView();
  void forked() { counted_ = false; }  // the parent's view was copied, and is one more

  // O(k log n) for k rows and priorities that are new.
  void catch_up();
  // Its leaf as it is now.
  void mend(std::size_t slot);
  PriorityTree& tree() { return tree_; }

  // What was sampled, so that an update finds the rows again that it is for.
  void remember(const Drawn& drawn);
  // Gives leaves to the rows that were sampled at `index`, if they are still there. Of indexes that are not as one
  // sample gave them, to the rows that were there when last sampled. Returns whether there was any.
  bool update(const std::int64_t* index, std::size_t count, const float* leaves);

 private:
  struct Open {
    std::size_t seat;
    ClaimWord claim;
    std::uint64_t times = 1;  // that it was found open
    bool is(std::size_t other_seat, ClaimWord other) const { return seat == other_seat && claim == other; }
  };
  struct Sample {
    std::vector<std::size_t> slots;
    std::vector<std::uint64_t> rows;
  };
  static constexpr std::size_t kRemembered = 16;

  float leaf_in(std::uint64_t slot) const;
  void look_at(std::uint64_t first, std::uint64_t count);
  void look_at_all();
  void read_journal();
  void write_journal();
  const Sample* sample_of(const std::int64_t* index, std::size_t count) const;
  Atomic& entry(std::uint64_t number) const { return journal_[number & (entries_ - 1)]; }

  SharedStore& store_;
  SegmentHeader& header_;
  Atomic* journal_;
  std::uint64_t entries_;
  Memory memory_;
  PriorityTree tree_;
  bool counted_ = false;
  std::uint64_t cleared_ = 0;
  std::uint64_t seen_ = 0;  // rows before it were looked at, but for those of `open_`
  std::vector<Open> open_;  // claims whose rows were not all committed
  std::uint64_t journal_seen_ = 0;
  std::vector<std::uint64_t> late_;  // entries that were claimed, and not yet written
  std::vector<std::size_t> changed_, scratch_;
  std::array<Sample, kRemembered> samples_;
  std::size_t next_sample_ = 0;
  std::uint64_t sampled_at_ = 0;  // the head then
};

}  // namespace rb
