// Finds the sequences of consecutive steps in a private store, and draws from them, uniformly with replacement. Only
// those that are wholly stored can be drawn.
//
// A sequence is named by its last row. Rows become the end of a sequence in the order in which they are added, and the
// sequences lose their first row in almost the same order. A queue thus holds the ends that can be drawn, and a draw is
// one access to it, however short the episodes are. If sequences are drawn by priority, their priorities are the leaves
// of their last rows, and the leaves of all other rows are 0.
#pragma once

#include <cstdint>
#include <vector>

#include "../private/links.hpp"
#include "../private/private_store.hpp"
#include "../private/private_view.hpp"
#include "../steps/sequence_options.hpp"
#include "../store/sampler.hpp"

namespace rb {

// The drawn sequences; kept between calls to reuse its memory.
struct DrawnSequences {
  Drawn ends;   // the slot of each sequence's last step
  Drawn steps;  // the slot of each step of each sequence; a padded step has the slot of another one
  Drawn first;  // the slot of each sequence's first step
  std::vector<Span> spans;
};

class SequenceSampler {
 public:
  SequenceSampler(const SequenceOptions& options, PrivateStore& store, const Links& links, bool draws_by_priority)
      : options_(options), store_(store), links_(links), draws_by_priority_(draws_by_priority) {}

  const SequenceOptions& options() const { return options_; }
  // The number of sequences that can be drawn. All other rows then have the leaf 0. Throws std::bad_alloc.
  std::uint64_t count();
  // The largest number of consecutive steps that are stored of an episode, or of a stream if sequences may cross ends.
  std::uint64_t longest_run() const;
  // Draws drawn.ends.slots.size() sequences. Returns whether there are any. Throws std::bad_alloc.
  bool draw(Random& random, DrawnSequences& drawn);
  // Finds all steps of the sequences that end at drawn.ends. The step t of sequence b is in place b * length + t or, if
  // `time_major`, t * sequences + b.
  void find_steps(DrawnSequences& drawn, bool time_major) const;
  // The same for whole episodes, whose steps follow each other.
  void find_episodes(DrawnSequences& drawn) const;
  // The sequence that ends with the row in `slot`.
  Span ending_in(std::uint64_t slot) const;
  // Whether a sequence that can be drawn ends with the row in `slot`, which holds one.
  bool is_end(std::uint64_t slot) const { return is_stored(store_.row_of(slot)); }
  // Copies the values of the steps in `steps` to `to`, by field; null for a field that is not wanted.
  void read(Drawn& steps, char* const* to, Waiting& waiting) { PrivateStore::View(store_).read(steps, to, waiting); }
  // Called when a row that was stored earlier has become the last of its episode. `leaf` is for a sequence that ends
  // there and did not before.
  void ended(std::uint64_t row, float leaf);
  // Called when the links of the rows from `row` on have changed.
  void changed_from(std::uint64_t row);
  std::size_t bytes() const { return queue_.size() * sizeof queue_[0]; }

 private:
  Span ending_at(std::uint64_t row) const { return ending_in(row % store_.capacity()); }
  // The first row of a sequence; Links::kNone if it is not stored.
  std::uint64_t first_of(std::uint64_t row, Span span) const;
  bool is_stored(std::uint64_t row) const { return first_of(row, ending_at(row)) != Links::kNone; }
  void catch_up();
  // Draws the last row of a sequence; Links::kNone if there is none.
  std::uint64_t draw_end(Random& random);
  // Writes the slots of `rows` steps, of which the last is in slot `last`, to to[0], to[step], ...; returns the first.
  std::size_t write_slots(std::size_t last, std::size_t rows, std::size_t step, std::size_t* to) const;
  // Whether sequences lose their first row exactly in order: all have equally many rows, and streams step in turn.
  bool is_exact() const { return links_.stride() != 0 && options_.is_fixed(); }
  const std::uint32_t& entry(std::uint64_t n) const { return queue_[(front_ + n) & (queue_.size() - 1)]; }
  std::uint32_t& entry(std::uint64_t n) { return queue_[(front_ + n) & (queue_.size() - 1)]; }
  std::uint64_t nth(std::uint64_t n) const;  // the row of the queue's n-th entry
  bool insert(std::uint64_t row);            // returns whether a sequence that can be drawn ends there
  void lose(std::uint64_t row);              // no sequence ends there, or none any more
  void clear_lost_leaves();
  void begin_era();

  SequenceOptions options_;
  PrivateStore& store_;
  const Links& links_;
  bool draws_by_priority_;
  std::vector<std::size_t> lost_;  // slots whose leaves must become 0
  std::uint64_t seen_ = 0;         // rows before this one are in the queue, if a sequence ends there
  // Ends of sequences in the order of their rows: the low half of each row's number. Unless is_exact(), some may have
  // lost their first row; a draw skips them, and count() removes them.
  std::vector<std::uint32_t> queue_;  // its length is a power of 2
  std::uint64_t front_ = 0, queued_ = 0;
  // The largest distance from the first row of a sequence to its last: of those that end before the row era_, and of
  // the others. An era ends when no row that was stored at its beginning is stored any more.
  std::uint64_t longest_before_ = 0, longest_since_ = 0, era_ = 0;
};

}  // namespace rb
