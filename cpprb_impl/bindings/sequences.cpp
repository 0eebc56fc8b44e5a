#include "sequences.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "../core/base/powers.hpp"
#include "ring.hpp"
#include "state.hpp"

namespace rb {
namespace {

constexpr std::size_t kMostDimensions = 30;  // of a field: an array has at most 32

AtEnd at_end_named(std::string_view name) {
  if (name == "stop") return AtEnd::stop;
  if (name == "pad") return AtEnd::pad;
  if (name == "cross") return AtEnd::cross;
  raise(PyExc_ValueError, "sequences: ends must be 'stop', 'pad' or 'cross', got '%.*s'", static_cast<int>(name.size()),
        name.data());
}

}  // namespace

Sequences& sequences_of(Ring& ring, const char* method) {
  if (!ring.streams.sequences)
    raise(PyExc_ValueError, "%s() requires a buffer that was created with the option `sequences`", method);
  return *ring.streams.sequences;
}

Sequences::Sequences(const SequencesOption& option, PrivateStore& store, std::size_t environments)
    : ends(option.ends),
      states(option.states),
      eta(option.eta),
      own(std::make_unique<PrivateSequences>(option.core, store, environments)),
      errors(option.updates_overlapping ? std::make_unique<StepErrors>(store, *own, eta) : nullptr),
      sampler(own->sampler),
      episodes(own->episodes) {}

Sequences::Sequences(const SequencesOption& option, SharedStore& store, std::size_t environments)
    : ends(option.ends),
      states(option.states),
      eta(option.eta),
      shared(std::make_unique<SharedSequences>(option.core, store, environments)),
      sampler(shared->sampler),
      episodes(shared->episodes) {}

SequencesOption parse_sequences(PyObject* option, const std::vector<Field>& fields) {
  static const char* names[] = {"size", "burn_in", "period", "ends", "done", "state", "eta", "overlap", nullptr};
  unsigned size, burn_in, period;
  const char *ends, *overlap = "own";
  PyObject *done, *state;
  double eta = 0;
  if (!PyDict_Check(option)) raise(PyExc_TypeError, "sequences must be a dict, got %R", option);
  const Ref none(checked(PyTuple_New(0)));
  if (!PyArg_ParseTupleAndKeywords(none.get(), option, "IIIsOO|ds", const_cast<char**>(names), &size, &burn_in, &period,
                                   &ends, &done, &state, &eta, &overlap))
    throw PythonError();
  if (size < 1 || period < 1) raise(PyExc_ValueError, "sequences: size and period must be at least 1");
  for (const Field& field : fields)
    if (field.shape.size() > kMostDimensions)
      raise(PyExc_ValueError, "sequences: %U must have at most %zu dimensions, got %zu", field.name.get(),
            kMostDimensions, field.shape.size());
  SequencesOption parsed;
  parsed.states = find_fields(fields, state, "sequences: state");
  parsed.core = {size, burn_in, period, at_end_named(ends), !parsed.states.empty()};
  parsed.eta = eta;
  parsed.updates_overlapping = std::string_view(overlap) == "all";
  parsed.ends = episode_ends(fields, done, "sequences: done");
  return parsed;
}

namespace {

StreamsOfRows streams_of(const Ring& ring, const std::vector<npy_int64>* environments) {
  return {environments != nullptr ? environments->data() : nullptr, ring.environments};
}

std::uint64_t add_to_shared(Ring& ring, NewRows rows, const std::vector<npy_int64>* environments, bool are_steps,
                            Waiting& waiting, const bool* firsts) {
  Sequences& sequences = *ring.streams.sequences;
  StreamLinks& links = sequences.shared->links;
  const OneCall one(links.taken, waiting);
  rows.links = &links;
  if (!are_steps) {
    rows.steps = links.set_all_apart(rows.count);
    return ring.store->add(rows, waiting);
  }
  find_episode_ends(sequences.ends, rows.data, rows.count, sequences.is_last);
  rows.steps = links.begin_call(rows.count, streams_of(ring, environments), sequences.is_last.data(), firsts);
  try {
    const std::uint64_t slot = ring.store->add(rows, waiting);
    links.end_call();
    return slot;
  } catch (...) {
    links.cut();
    throw;
  }
}

// The error of a step is its priority until it is updated.
void set_errors(Ring& ring, std::uint64_t first, std::size_t count, const Numbers* priorities) {
  StepErrors& errors = *ring.streams.sequences->errors;
  const std::uint64_t capacity = ring.store->capacity();
  const double usual = ring.store->max_priority();
  if (priorities == nullptr)
    for (std::size_t i = 0; i < count; ++i) errors.set((first + i) % capacity, usual);
  else
    priorities->read([&](const auto* priority) {
      for (std::size_t i = 0; i < count; ++i) errors.set((first + i) % capacity, static_cast<double>(priority[i]));
    });
}

}  // namespace

std::uint64_t add_linked(Ring& ring, const NewRows& rows, const Numbers* priorities,
                         const std::vector<npy_int64>* environments, bool are_steps, Waiting& waiting,
                         const bool* firsts) {
  Sequences& sequences = *ring.streams.sequences;
  if (sequences.shared) return add_to_shared(ring, rows, environments, are_steps, waiting, firsts);
  if (are_steps) find_episode_ends(sequences.ends, rows.data, rows.count, sequences.is_last);
  const std::uint64_t slot = ring.store->add(rows, waiting), first = ring.store->head() - rows.count;
  Links& links = sequences.own->links;
  if (are_steps)
    links.add(first, rows.count, streams_of(ring, environments), sequences.is_last.data());
  else
    for (std::size_t i = 0; i < rows.count; ++i) links.put(first + i, 0, 0);
  if (sequences.errors) set_errors(ring, first, rows.count, priorities);
  return slot;
}

void end_sequences(Ring& ring) {
  const Sequences& sequences = *ring.streams.sequences;
  if (sequences.shared) {
    if (sequences.shared->links.is_in_episode())
      raise(PyExc_ValueError,
            "on_episode_end() cannot end the episode of a stored step in a shared buffer with sequences: a field that "
            "`sequences` names as done must have ended it when the step was added");
    return;
  }
  const float leaf = ring.prioritized ? ring.leaf_of_max_priority() : 0;
  sequences.own->links.end_episodes(ring.store->head() - ring.store->stored(),
                                    [&](std::uint64_t row) { sequences.own->ended(row, leaf); });
}

void restart_sequences(Ring& ring, Waiting& waiting) {
  const Sequences& sequences = *ring.streams.sequences;
  if (sequences.own) return sequences.own->links.restart();
  const OneCall one(sequences.shared->links.taken, waiting);
  sequences.shared->links.begin_episodes();
}

namespace {

// late() returns the places of the sequences that were overwritten.
template <class SlotOf, class Late>
Numbers combined_errors(Ring& ring, const Ref& indexes, Numbers errors, std::vector<float>& magnitudes, SlotOf slot_of,
                        Late late) {
  const Sequences& sequences = *ring.streams.sequences;
  const SequenceOptions& options = sequences.sampler.options();
  const npy_intp count = PyArray_SIZE(indexes.array()), length = static_cast<npy_intp>(options.length());
  if (!errors.array || PyArray_NDIM(errors.array.array()) < 2) {
    if (!sequences.errors) return errors;
    raise(PyExc_ValueError,
          "priorities must be errors of shape (%zd, %zd), because the option `sequences` has overlap='all', got one "
          "number per sequence",
          count, length);
  }
  const npy_intp* dims = PyArray_DIMS(errors.array.array());
  if (PyArray_NDIM(errors.array.array()) != 2 || dims[0] != count || dims[1] != length)
    raise(PyExc_ValueError, "priorities must be of shape (%zd,), or errors of shape (%zd, %zd), got %R", count, count,
          length, Ref(checked(PyObject_GetAttrString(errors.array.get(), "shape"))).get());
  npy_intp dim = count;
  Ref combined(checked(PyArray_SimpleNew(1, &dim, NPY_DOUBLE)));
  auto* priority = static_cast<double*>(PyArray_DATA(combined.array()));
  const auto* index = static_cast<const npy_int64*>(PyArray_DATA(indexes.array()));
  if (sequences.errors) magnitudes.resize(static_cast<std::size_t>(count * length));
  errors.read([&](const auto* error) {
    for (npy_intp i = 0; i < count; ++i, error += length) {
      const std::uint64_t slot = slot_of(index[i]);
      const Span span = slot < ring.store->capacity() ? sequences.sampler.ending_in(slot) : Span{};
      double largest = 0, sum = 0;
      const std::uint32_t learned = options.learned(span), end = span.before + span.rows;
      for (std::uint32_t t = end - learned; t < end; ++t) {
        const double size = std::abs(static_cast<double>(error[t]));
        largest = std::max(largest, size);
        sum += size;  // NaN, too
        if (sequences.errors) magnitudes[static_cast<std::size_t>(i * length + t)] = static_cast<float>(size);
      }
      priority[i] = mixed_priority(sequences.eta, largest, sum, learned);
    }
  });
  // The slot of a sequence that was overwritten has a later row, with a different span: its errors were not looked at
  // where they should have been, and do not count.
  for (const std::size_t i : late(index, static_cast<std::size_t>(count))) priority[i] = 0;
  return Numbers(combined.get(), "priorities");
}

}  // namespace

Numbers sequence_priorities(Ring& ring, const Ref& indexes, Numbers errors, std::uint64_t sample,
                            std::vector<float>& magnitudes) {
  return combined_errors(
      ring, indexes, std::move(errors), magnitudes, [](npy_int64 index) { return static_cast<std::uint64_t>(index); },
      [&](const npy_int64* index, std::size_t count) -> std::vector<std::size_t> {
        if (!ring.streams.sequences->shared) return {};
        return static_cast<SharedStore&>(*ring.store).late(index, count, sample);
      });
}

Numbers priorities_of_rows(Ring& ring, const Ref& rows, Numbers errors) {
  const auto& store = static_cast<const SharedStore&>(*ring.store);
  std::vector<float> unused;  // sequences of a shared ring do not update others
  return combined_errors(
      ring, rows, std::move(errors), unused,
      [&](npy_int64 row) { return static_cast<std::uint64_t>(row) % store.capacity(); },
      [&](const npy_int64* row, std::size_t count) { return store.late_rows(row, count); });
}

void update_overlapping(Ring& ring, const npy_int64* index, const std::vector<float>& magnitudes,
                        std::uint64_t sample) {
  const Sequences& sequences = *ring.streams.sequences;
  auto& store = static_cast<PrivateStore&>(*ring.store);
  const std::size_t count = magnitudes.size() / sequences.sampler.options().length();
  auto& [slots, priorities] = sequences.errors->update(store.meant(index, count, sample), index, magnitudes.data());
  if (slots.empty()) return;
  std::vector<float> leaves(slots.size());
  shifted_powers(priorities.data(), slots.size(), ring.priorities.eps, ring.priorities.alpha, leaves.data());
  for (float& leaf : leaves) leaf = std::min(leaf, std::numeric_limits<float>::max());
  store.set_leaves(slots, leaves.data());
  store.raise_max_priority(*std::ranges::max_element(priorities));
}

}  // namespace rb
