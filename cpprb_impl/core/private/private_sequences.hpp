// Sequences in a private store. Rows become the end of a sequence in the order in which they are added, and the
// sequences lose their first row in almost the same order. A queue thus holds the ends that can be drawn, and a draw is
// one access to it, however short the episodes are. If sequences are drawn by priority, their priorities are the leaves
// of their last rows, and the leaves of all other rows are 0.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "../store/sequence_sampler.hpp"
#include "links.hpp"
#include "private_store.hpp"
#include "private_view.hpp"

namespace rb {

class SequenceQueue final : public SequenceSampler {
 public:
  SequenceQueue(const SequenceOptions& options, PrivateStore& store, const Links& links, bool draws_by_priority)
      : SequenceSampler(options),
        store_(store),
        links_(links),
        by_priority_(draws_by_priority ? make_prioritized_sampler(store) : nullptr) {}

  std::uint64_t count() override;  // all rows with which no sequence ends then have the leaf 0
  std::uint64_t longest_run() override;
  Span ending_in(std::uint64_t slot) const override;
  Found sample(Random& random, DrawnSequences& drawn, const SequencePlaces& to, Waiting& waiting) override;
  bool draw_episodes(Random& random, DrawnSequences& drawn) override;
  bool read_steps(DrawnSequences& drawn, char* const* to, Waiting& waiting) override {
    PrivateStore::View(store_).read(drawn.steps, to, waiting);
    return true;
  }
  std::size_t bytes() const override { return queue_.size() * sizeof queue_[0]; }

  // Whether a sequence that can be drawn ends with the row in `slot`, which holds one.
  bool is_end(std::uint64_t slot) const { return is_stored(store_.row_of(slot)); }
  // Called when a row that was stored earlier has become the last of its episode. `leaf` is for a sequence that ends
  // there and did not before.
  void ended(std::uint64_t row, float leaf);
  // Called when the links of the rows from `row` on have changed.
  void changed_from(std::uint64_t row);

 private:
  Span ending_at(std::uint64_t row) const { return ending_in(row % store_.capacity()); }
  // The first row of a sequence; Links::kNone if it is not stored.
  std::uint64_t first_of(std::uint64_t row, Span span) const;
  bool is_stored(std::uint64_t row) const { return first_of(row, ending_at(row)) != Links::kNone; }
  void catch_up();
  bool draw(Random& random, DrawnSequences& drawn);  // returns whether there are any sequences
  void find_steps(DrawnSequences& drawn, const SequencePlaces& to) const;
  bool read_single(DrawnSequences& drawn, const SequencePlaces& to) const;  // returns whether no stack jumps
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

  PrivateStore& store_;
  const Links& links_;
  const std::unique_ptr<Sampler> by_priority_;  // null if draws are uniform
  std::vector<std::size_t> lost_;               // slots whose leaves must become 0
  std::uint64_t seen_ = 0;                      // rows before this one are in the queue, if a sequence ends there
  // Ends of sequences in the order of their rows: the low half of each row's number. Unless is_exact(), some may have
  // lost their first row; a draw skips them, and count() removes them.
  std::vector<std::uint32_t> queue_;  // its length is a power of 2
  std::uint64_t front_ = 0, queued_ = 0;
  // The largest distance from the first row of a sequence to its last: of those that end before the row era_, and of
  // the others. An era ends when no row that was stored at its beginning is stored any more.
  std::uint64_t longest_before_ = 0, longest_since_ = 0, era_ = 0;
};

struct PrivateSequences {
  PrivateSequences(const SequenceOptions& options, PrivateStore& store, std::size_t streams)
      : links(store.capacity(), streams, options.at_end == AtEnd::cross),
        sampler(options, store, links, store.prioritized()),
        episodes({.at_end = AtEnd::whole}, store, links, false),
        store_(store) {}

  Links links;
  SequenceQueue sampler, episodes;

  // Sequences of another size, drawn uniformly. The queues of a few sizes are kept; that of any other size is built
  // from all rows. Throws std::bad_alloc.
  std::shared_ptr<SequenceQueue> of_size(std::uint32_t size);
  void forget_other_sizes() { others_.clear(); }
  // As of SequenceQueue.
  void ended(std::uint64_t row, float leaf);
  void changed_from(std::uint64_t row);
  std::size_t bytes() const;

 private:
  PrivateStore& store_;
  std::vector<std::shared_ptr<SequenceQueue>> others_;  // the one used last is the last one
};

}  // namespace rb
