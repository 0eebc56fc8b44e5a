// Sequences of consecutive steps: parses the option, links the rows of add(), and returns batches.
#pragma once

#include <memory>
#include <vector>

#include "../core/samplers/sequence_sampler.hpp"
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
};

struct Sequences {
  Sequences(const SequencesOption& option, PrivateStore& store, std::size_t environments);

  const std::vector<EpisodeEnd> ends;
  const std::vector<std::size_t> states;
  const double eta;
  Links links;
  SequenceSampler sampler, episodes;
  DrawnSequences drawn;

  std::size_t bytes() const { return links.bytes() + sampler.bytes() + episodes.bytes(); }
};

// Parses a dict of "size", "burn_in", "period", "ends", "done" and "state". Raises KeyError, TypeError, ValueError.
SequencesOption parse_sequences(PyObject* option, const std::vector<Field>& fields);

// Links the `count` rows that the call of add() in progress has just stored. Rows cycle through all environments,
// unless `environments` has one for each.
void link_rows(Ring& ring, const char* const* data, std::size_t count, const std::vector<npy_int64>* environments);
// For rows that were stored without add(): none continues another.
void leave_unlinked(Ring& ring, std::size_t count);

// Returns one priority per sequence, for the errors (sequences, steps) of those that end at `indexes`: eta * the
// largest magnitude + (1 - eta) * the mean magnitude over the steps to learn from (Kapturowski et al. 2019,
// section 2.3). Other numbers are returned as they are. Raises ValueError.
Numbers sequence_priorities(Ring& ring, const Ref& indexes, Numbers errors);
// sample_sequences() of a prioritized ring.
PyObject* sample_prioritized_sequences(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names);

// Raises a ValueError that names the method if the ring has none.
Sequences& sequences_of(Ring& ring, const char* method);

int add_sequence_methods(PyTypeObject& type);
int add_link_methods(PyTypeObject& type);

}  // namespace rb
