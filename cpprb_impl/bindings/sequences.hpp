// Sequences of consecutive steps: parses the option, links the rows of add(), returns batches, and updates priorities.
#pragma once

#include <memory>
#include <vector>

#include "../core/private/private_sequences.hpp"
#include "../core/private/step_errors.hpp"
#include "../core/shared/shared_sequences.hpp"
#include "fields.hpp"
#include "python.hpp"

namespace rb {

struct Ring;

// The option, parsed.
struct SequencesOption {
  SequenceOptions core;
  std::vector<EpisodeEnd> ends;
  std::vector<std::size_t> states;  // fields of which a sequence has only its first step's value
  double eta = 0;  // of a sequence's errors, how much of its priority is the largest; the rest is the mean
  bool updates_overlapping = false;  // whether the errors of steps change all sequences that contain these
};

struct Sequences {
  Sequences(const SequencesOption& option, PrivateStore& store, std::size_t environments);
  Sequences(const SequencesOption& option, SharedStore& store, std::size_t environments);

  const std::vector<EpisodeEnd> ends;
  const std::vector<std::size_t> states;
  const double eta;
  const std::unique_ptr<PrivateSequences> own;
  const std::unique_ptr<SharedSequences> shared;  // one of the two is null
  const std::unique_ptr<StepErrors> errors;       // null unless errors change all sequences that contain their steps
  SequenceSampler &sampler, &episodes;
  DrawnSequences drawn;
  std::vector<char> is_last;  // of its episode, for each row of a call of add()

  std::size_t bytes() const {
    return (own ? own->bytes() : sampler.bytes() + episodes.bytes()) + (errors ? errors->bytes() : 0);
  }
};

// Parses a dict of "size", "burn_in", "period", "ends", "done", "state", "eta" and "overlap". Raises KeyError,
// TypeError, ValueError.
SequencesOption parse_sequences(PyObject* option, const std::vector<Field>& fields);

// Stores rows, and links them. `priorities` has one for each row, or is null if none were given. Rows cycle through all
// environments, unless `environments` has one for each. If they are not steps, none continues another. `firsts`, if
// given, says which rows of a shared ring are the first of their episodes. Returns what Store::add() returns.
std::uint64_t add_linked(Ring& ring, const NewRows& rows, const Numbers* priorities,
                         const std::vector<npy_int64>* environments, bool are_steps, Waiting& waiting,
                         const bool* firsts = nullptr);
// Ends the episode of every environment. Raises ValueError if this cannot be recorded.
void end_sequences(Ring& ring);
// Begins every stream anew, after the buffer was cleared.
void restart_sequences(Ring& ring, Waiting& waiting);

// Returns one priority per sequence, for the errors (sequences, steps) of those that end at `indexes`: eta * the
// largest magnitude + (1 - eta) * the mean magnitude over the steps to learn from (Kapturowski et al. 2019,
// section 2.3). Other numbers are returned as they are. `sample` is as in Store::update(). If other sequences with
// these steps are to be updated, too, `magnitudes` becomes those of the errors. Raises ValueError.
Numbers sequence_priorities(Ring& ring, const Ref& indexes, Numbers errors, std::uint64_t sample,
                            std::vector<float>& magnitudes);
// The same for the sequences of a shared ring that end with the rows with these numbers.
Numbers priorities_of_rows(Ring& ring, const Ref& rows, Numbers errors);
// Updates all sequences that contain a step of those at `index`. The same steps were updated for these themselves.
void update_overlapping(Ring& ring, const npy_int64* index, const std::vector<float>& magnitudes, std::uint64_t sample);
// sample_sequences() of a prioritized ring.
PyObject* sample_prioritized_sequences(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names);
// _draw_sequences() of a prioritized ring that is shared.
PyObject* draw_sequences(PyObject* self, PyObject* size);

// Raises a ValueError that names the method if the ring has none.
Sequences& sequences_of(Ring& ring, const char* method);

int add_sequence_methods(PyTypeObject& type);
int add_link_methods(PyTypeObject& type);

}  // namespace rb
