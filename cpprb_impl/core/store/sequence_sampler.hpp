// Finds the sequences of consecutive steps in a store, and draws from them, with replacement. Only those that are
// wholly stored can be drawn. A sequence is named by its last row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../steps/sequence_options.hpp"
#include "sampler.hpp"

namespace rb {

// The drawn sequences; kept between calls to reuse its memory.
struct DrawnSequences {
  Drawn ends;   // each sequence's last step
  Drawn first;  // each sequence's first step
  Drawn steps;  // each step of each sequence; a padded step has the slot of another one
  std::vector<Span> spans;
  std::size_t jumping = 0;  // if Found::jumps: the field with that stack
};

// Where the values of a batch of sequences go. The step t of sequence b is in place b * length + t or, if `time_major`,
// t * sequences + b.
struct SequencePlaces {
  std::vector<char*> steps;  // by field: the values of every step; null for a field that is not wanted
  std::vector<char*> first;  // by field: the values of each sequence's first step; null, too
  // For a field whose stacks are read as single frames, with `older` frames per stack beside the newest: the frames of
  // the first step's stack, then the newest frame of each other step, as if they were length + older steps. Only in a
  // private store.
  struct Single {
    std::size_t field, frame_bytes, older;
    char* to;
  };
  std::vector<Single> single;
  bool wants_first = false;  // whether any of `first` is not null
  char* is_first = nullptr;  // by step: whether it is the first of its episode
  bool time_major = false;

  std::size_t step(std::size_t sequences) const { return time_major ? sequences : 1; }
  std::size_t sequence(std::size_t length) const { return time_major ? 1 : length; }
};

class SequenceSampler {
 public:
  explicit SequenceSampler(const SequenceOptions& options) : options_(options) {}
  virtual ~SequenceSampler() = default;
  SequenceSampler(const SequenceSampler&) = delete;

  const SequenceOptions& options() const { return options_; }
  // The sequence that ends with the row in `slot`; none if its `rows` are 0.
  virtual Span ending_in(std::uint64_t slot) const = 0;
  virtual std::size_t bytes() const = 0;

  // The following need a LearnerGuard.

  // The number of sequences that can be drawn. Throws std::bad_alloc.
  virtual std::uint64_t count() = 0;
  // The same, but may include sequences that have lost their first steps, fewer of a stream than a sequence has steps.
  // Takes constant time in a shared store.
  virtual std::uint64_t count_roughly() { return count(); }
  // The largest number of consecutive steps that are stored of an episode, or of a stream if sequences may cross ends.
  virtual std::uint64_t longest_run() = 0;
  // Draws drawn.ends.slots.size() sequences, and copies their values. Throws std::bad_alloc, std::runtime_error.
  virtual Found sample(Random& random, DrawnSequences& drawn, const SequencePlaces& to, Waiting& waiting) = 0;

  // If sequences are whole episodes: draws as many, and finds their steps, which then follow each other in
  // `drawn.steps`. Returns false if there are none.
  virtual bool draw_episodes(Random& random, DrawnSequences& drawn) = 0;
  // Copies the values of drawn.steps, by field. Returns false if a step was overwritten meanwhile.
  virtual bool read_steps(DrawnSequences& drawn, char* const* to, Waiting& waiting) = 0;

 protected:
  const SequenceOptions options_;
};

}  // namespace rb
