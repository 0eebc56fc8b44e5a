// Batches of sequences and of episodes: sample_sequences() and sample_episodes().
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "ring.hpp"
#include "sequences.hpp"
#include "slowed.hpp"
#include "state.hpp"

namespace rb {
namespace {

Field scalar(const char* name, int type, npy_intp bytes) {
  Field field;
  field.name = Ref(checked(PyUnicode_InternFromString(name)));
  field.dtype = Ref(reinterpret_cast<PyObject*>(PyArray_DescrFromType(type)));
  field.elements = 1;
  field.bytes = bytes;
  return field;
}

// Whether stacks are returned as single frames. Raises TypeError, ValueError.
bool wants_single(PyObject* frames) {
  if (frames == nullptr) return false;
  if (!PyUnicode_Check(frames)) raise(PyExc_TypeError, "frames must be 'stacks' or 'single', got %R", frames);
  if (PyUnicode_CompareWithASCIIString(frames, "single") == 0) return true;
  if (PyUnicode_CompareWithASCIIString(frames, "stacks") == 0) return false;
  raise(PyExc_ValueError, "frames must be 'stacks' or 'single', got %R", frames);
}

// The number of steps to learn from; empty if it is that of the option. Raises TypeError.
std::optional<npy_intp> size_of(PyObject* given) {
  if (given == nullptr || given == Py_None) return std::nullopt;
  if (!PyIndex_Check(given) || PyBool_Check(given))
    raise(PyExc_TypeError, "size must be an int or None, got %R", given);
  const npy_intp size = PyNumber_AsSsize_t(given, nullptr);  // the nearest one that fits
  if (size == -1 && PyErr_Occurred()) throw PythonError();
  return size;
}

// Raises ValueError if there are no sequences of this size.
std::shared_ptr<SequenceSampler> sampler_of_size(Ring& ring, Sequences& sequences, std::optional<npy_intp> size) {
  const SequenceOptions& options = sequences.sampler.options();
  if (!size || *size == static_cast<npy_intp>(options.size)) return {std::shared_ptr<void>(), &sequences.sampler};
  if (sequences.shared)
    raise(PyExc_ValueError, "size must be that of the option `sequences` in a shared buffer, %lu, got %zd",
          static_cast<unsigned long>(options.size), *size);
  const auto most = static_cast<npy_intp>(ring.store->capacity() / ring.environments - options.burn_in);
  if (*size < static_cast<npy_intp>(options.period) || *size > most)
    raise(PyExc_ValueError, "size must be from %lu, the period, to %zd, got %zd",
          static_cast<unsigned long>(options.period), most, *size);
  return sequences.own->of_size(static_cast<std::uint32_t>(*size));
}

// The arrays of one batch of sequences, all of one length.
class SequenceColumns {
 public:
  SequenceColumns(const std::vector<Field>& fields, const std::vector<std::size_t>& states, npy_intp sequences,
                  npy_intp length, bool time_major, bool pads, bool single = false)
      : states_(states), sequences_(sequences), length_(length), time_major_(time_major), pads_(pads) {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      Field step = like(fields[f]);
      const Field& stack = fields[fields[f].next_of == FieldStorage::kNone ? f : fields[f].next_of];
      npy_intp older = 0;
      if (single && stack.stacked && !is_state(f)) {
        const auto axis = step.shape.begin() + static_cast<std::ptrdiff_t>(stack.stack_axis);
        older = *axis - 1;
        step.bytes /= *axis;
        step.shape.erase(axis);
        single_.push_back({f, static_cast<std::size_t>(step.bytes), static_cast<std::size_t>(older), nullptr});
      }
      bytes_.push_back(static_cast<std::size_t>(step.bytes));
      older_.push_back(static_cast<std::size_t>(older));
      add(std::move(step), !is_state(f), older);
    }
    add(scalar("is_first", NPY_BOOL, 1), true);
    if (!pads) return;
    add(scalar("mask", NPY_BOOL, 1), true);
    add(scalar("lengths", NPY_INT64, 8), false);
  }

  const std::vector<Field>& all() const { return columns_; }
  SequencePlaces places_in(Batch& batch) const;
  // Writes which steps are stored and which padded, and zeros in place of padded steps.
  void finish(const DrawnSequences& drawn, char* const* places) const;

 private:
  bool is_state(std::size_t f) const { return std::find(states_.begin(), states_.end(), f) != states_.end(); }
  std::size_t place(std::size_t sequence, std::size_t step, std::size_t older = 0) const {
    return time_major_ ? step * static_cast<std::size_t>(sequences_) + sequence
                       : sequence * (static_cast<std::size_t>(length_) + older) + step;
  }
  void add(Field field, bool of_each_step, npy_intp older = 0) {
    field.rows = of_each_step && time_major_ ? length_ + older : sequences_;
    if (of_each_step) {
      const npy_intp second = time_major_ ? sequences_ : length_ + older;
      field.shape.insert(field.shape.begin(), second);
      if (__builtin_mul_overflow(field.bytes, second, &field.bytes))
        field.bytes = NPY_MAX_INTP;  // too large to allocate
    }
    columns_.push_back(std::move(field));
  }

  const std::vector<std::size_t>& states_;
  npy_intp sequences_, length_;
  bool time_major_, pads_;
  std::vector<std::size_t> bytes_, older_;  // by field: of a step or frame; frames before those of the steps
  std::vector<SequencePlaces::Single> single_;
  std::vector<Field> columns_;
};

SequencePlaces SequenceColumns::places_in(Batch& batch) const {
  const std::size_t fields = bytes_.size();
  char* const* const at = batch.places();
  SequencePlaces places{{at, at + fields}, std::vector<char*>(fields), single_, !states_.empty(), at[fields],
                        time_major_};
  for (const std::size_t f : states_) std::swap(places.steps[f], places.first[f]);
  for (auto& each : places.single) each.to = std::exchange(places.steps[each.field], nullptr);
  return places;
}

void SequenceColumns::finish(const DrawnSequences& drawn, char* const* places) const {
  const std::size_t fields = bytes_.size(), length = static_cast<std::size_t>(length_);
  if (!pads_) return;
  char* const mask = places[fields + 1];
  auto* const lengths = reinterpret_cast<npy_int64*>(places[fields + 2]);
  for (std::size_t b = 0; b < drawn.spans.size(); ++b) {
    const Span span = drawn.spans[b];
    lengths[b] = span.rows;
    for (std::size_t t = 0; t < length; ++t) {
      const bool is_stored = t >= span.before && t < span.before + span.rows;
      mask[place(b, t)] = static_cast<char>(is_stored);
      for (std::size_t f = 0; f < fields && !is_stored; ++f) {
        if (is_state(f)) continue;
        const std::size_t frame = t < span.before ? t : t + older_[f];
        std::memset(places[f] + place(b, frame, older_[f]) * bytes_[f], 0, bytes_[f]);
      }
    }
  }
}

// The arrays of a batch of episodes: their steps, one after the other, and where each episode begins.
std::vector<Field> ragged_columns(const Ring& ring, const DrawnSequences& drawn) {
  std::vector<Field> columns;
  for (const Field& field : ring.fields) {
    columns.push_back(like(field));
    columns.back().rows = static_cast<npy_intp>(drawn.steps.slots.size());
  }
  columns.push_back(scalar("offsets", NPY_INT64, 8));
  columns.back().rows = static_cast<npy_intp>(drawn.spans.size()) + 1;
  return columns;
}

// Gives each episode `length` places; a padded step has the slot of another one.
void spread(DrawnSequences& drawn, std::size_t length) {
  const auto each = [&](auto& of_steps) {
    if (of_steps.empty()) return;
    const auto all = std::move(of_steps);
    of_steps.assign(drawn.spans.size() * length, all.front());
    auto from = all.begin();
    for (std::size_t b = 0; b < drawn.spans.size(); ++b) {
      std::copy_n(from, drawn.spans[b].rows, of_steps.begin() + static_cast<std::ptrdiff_t>(b * length));
      from += drawn.spans[b].rows;
    }
  };
  each(drawn.steps.slots);
  each(drawn.steps.rows);
}

[[noreturn]] void raise_none(const SequenceOptions& options, std::uint64_t longest) {
  const std::uint64_t least = options.from_state ? options.length() : options.size;
  if (longest >= least)
    raise(
        PyExc_ValueError,
        "cannot sample a sequence: %llu consecutive steps are stored, but none of the sequences, which begin at every "
        "%lu-th step, is wholly stored",
        static_cast<unsigned long long>(longest), static_cast<unsigned long>(options.period));
  if (options.at_end == AtEnd::pad)
    raise(PyExc_ValueError,
          "cannot sample a sequence: %llu consecutive steps must be stored, or an episode that has ended with at least "
          "%lu, got %llu",
          static_cast<unsigned long long>(least),
          static_cast<unsigned long>(options.from_state ? options.burn_in + 1 : 1),
          static_cast<unsigned long long>(longest));
  raise(PyExc_ValueError,
        "cannot sample a sequence: %s of %llu consecutive steps must be stored, got %llu, so %llu are missing",
        options.at_end == AtEnd::cross ? "a stream" : "an episode", static_cast<unsigned long long>(least),
        static_cast<unsigned long long>(longest), static_cast<unsigned long long>(least - std::min(longest, least)));
}

// What a batch of sequences contains beside their steps: nothing, importance weights and indexes, or leaves and numbers
// of rows.
enum class With { nothing, weights, leaves };

const std::vector<ExtraColumn>& columns_with(With with) {
  static const std::vector<ExtraColumn> nothing,
      weights = {{PyUnicode_InternFromString("weights"), NPY_FLOAT32},
                 {PyUnicode_InternFromString("indexes"), NPY_INT64}},
      leaves = {{PyUnicode_InternFromString("leaves"), NPY_FLOAT32}, {PyUnicode_InternFromString("rows"), NPY_INT64}};
  return with == With::nothing ? nothing : with == With::weights ? weights : leaves;
}

// The arguments of sample_sequences(); null for one that is not given.
struct Wanted {
  PyObject *sequences, *time_major = nullptr, *out = nullptr, *frames = nullptr, *size = nullptr;
};

// Draws by priority unless it is with nothing. Calls give(batch, what was drawn).
template <class Give>
PyObject* sequences_batch(PyObject* self, const Wanted& wanted, With with, Give give) {
  const npy_intp count = batch_size(wanted.sequences);
  const std::optional<npy_intp> size = size_of(wanted.size);
  const int time_major = wanted.time_major == nullptr ? 0 : PyObject_IsTrue(wanted.time_major);
  if (time_major < 0) throw PythonError();
  const bool single = wants_single(wanted.frames);
  CallGuard call(self);
  Ring& ring = call.ring();
  Sequences& sequences = sequences_of(ring, "sample_sequences");
  if (single && ring.is_shared) raise(PyExc_ValueError, "frames must be 'stacks' in a shared buffer, got 'single'");
  const auto sampler = sampler_of_size(ring, sequences, size);  // owned: Python code may ask for other sizes meanwhile
  const SequenceOptions& options = sampler->options();
  const SequenceColumns columns(ring.fields, sequences.states, count, static_cast<npy_intp>(options.length()),
                                time_major != 0, options.pads(), single);
  Batch batch(columns.all(), count, columns_with(with), for_batch(ring, wanted.out), &ring.recent);
  Borrowed<DrawnSequences> drawn(sequences.drawn);
  drawn->ends.slots.resize(static_cast<std::size_t>(count));
  Found found = Found::rows;
  std::uint64_t longest = 0;
  {
    PythonWaiting waiting(call);
    LearnerGuard guard(call.store(), waiting);
    found = sampler->sample(ring.random, *drawn, columns.places_in(batch), waiting);
    if (found == Found::rows) columns.finish(*drawn, batch.places());
    if (found == Found::rows && with != With::nothing && ring.priorities.normalize == Normalize::none)
      drawn->ends.candidates = sampler->count_roughly();
    if (found == Found::nothing) longest = sampler->longest_run();
  }
  if (found == Found::nothing) raise_none(options, longest);
  if (found == Found::no_mass) raise(PyExc_ValueError, "cannot sample: the priority of every sequence is 0");
  if (found == Found::jumps)
    raise(PyExc_ValueError,
          "frames must be 'stacks' for %U: within an episode, a stack is not that of the step before, advanced by one "
          "frame",
          ring.fields[drawn->jumping].name.get());
  return give(call, batch, drawn->ends);
}

// Reads the drawn episodes into a new batch. Returns false, without a batch, if a step was overwritten meanwhile.
bool read_episodes(Ring& ring, DrawnSequences& drawn, npy_intp count, bool padded, std::optional<Batch>& batch,
                   Waiting& waiting) {
  static const std::vector<std::size_t> kNoStates;
  std::optional<SequenceColumns> columns;
  if (padded) {
    std::size_t longest = 0;
    for (const Span span : drawn.spans) longest = std::max<std::size_t>(longest, span.rows);
    spread(drawn, longest);
    columns.emplace(ring.fields, kNoStates, count, static_cast<npy_intp>(longest), false, true);
  }
  const std::vector<Field> ragged = columns ? std::vector<Field>() : ragged_columns(ring, drawn);
  {
    const CollectorOff until_allocated;  // Python code could overwrite the rows that were drawn
    batch.emplace(columns ? columns->all() : ragged, count);
  }
  if (!ring.streams.sequences->episodes.read_steps(drawn, batch->places(), waiting)) {
    batch.reset();
    return false;
  }
  char* const more = batch->places()[ring.fields.size()];
  if (columns) {
    const std::size_t length = drawn.steps.slots.size() / drawn.spans.size();
    std::memset(more, 0, drawn.steps.slots.size());
    for (std::size_t b = 0; b < drawn.spans.size(); ++b) more[b * length] = 1;
    columns->finish(drawn, batch->places());
  } else {
    auto* offset = reinterpret_cast<npy_int64*>(more);
    *offset = 0;
    for (const Span span : drawn.spans) {
      offset[1] = offset[0] + span.rows;
      ++offset;
    }
  }
  return true;
}

PyObject* sample_sequences(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  return guarded<PyObject*>(nullptr, [&] {
    PyObject* given[5];
    sort_arguments("sample_sequences", args, nargs, names, {"batch_size", "time_major", "out", "frames", "size"},
                   given);
    return sequences_batch(self, {given[0], given[1], given[2], given[3], given[4]}, With::nothing,
                           [](CallGuard&, Batch& batch, const Drawn&) { return batch.give(); });
  });
}

PyObject* sample_episodes(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  return guarded<PyObject*>(nullptr, [&] {
    PyObject* given[2];
    sort_arguments("sample_episodes", args, nargs, names, {"batch_size", "padded"}, given);
    const npy_intp count = batch_size(given[0]);
    const int padded = given[1] == nullptr ? 0 : PyObject_IsTrue(given[1]);
    if (padded < 0) throw PythonError();
    CallGuard call(self);
    Ring& ring = call.ring();
    Sequences& sequences = sequences_of(ring, "sample_episodes");
    if (sequences.sampler.options().at_end == AtEnd::cross)
      raise(PyExc_ValueError, "sample_episodes() requires sequences that end with episodes: ends must not be 'cross'");
    Borrowed<DrawnSequences> drawn(sequences.drawn);
    drawn->ends.slots.resize(static_cast<std::size_t>(count));
    std::optional<Batch> batch;
    {
      PythonWaiting waiting(call);
      LearnerGuard guard(call.store(), waiting);
      while (sequences.episodes.draw_episodes(ring.random, *drawn) &&
             !read_episodes(ring, *drawn, count, padded != 0, batch, waiting)) {
      }
    }
    if (!batch) raise(PyExc_ValueError, "cannot sample an episode: none is stored from its first step to its last");
    return batch->give();
  });
}

PyObject* get_valid_sequences(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] {
    CallGuard call(self);
    Sequences& sequences = sequences_of(call.ring(), "get_valid_sequences");
    PythonWaiting waiting(call);
    return PyLong_FromUnsignedLongLong(sequences.sampler.count());
  });
}

PyMethodDef methods[] = {
    {"sample_sequences", RB_SLOWED(sample, sample_sequences), METH_FASTCALL | METH_KEYWORDS,
     "sample_sequences($self, /, batch_size, time_major=False, out=None, frames='stacks', size=None)\n--\n\n"
     "Return sequences of consecutive steps, drawn uniformly, with replacement, from all that are wholly stored: a\n"
     "dict of arrays (batch_size, T, *shape), or (T, batch_size, *shape) if `time_major`. T is the burn-in plus the\n"
     "size of the option `sequences`, or plus `size` if it is given; the first call with a size takes time in\n"
     "proportion to the stored steps, and so may later ones if more than four other sizes are in use.\n"
     "\"is_first\", bool, is true at the first step of an episode. If steps can be padded, \"mask\", bool, is false at "
     "a\n"
     "padded step, where all fields are 0, and \"lengths\", int64 (batch_size,), counts the other steps. Fields of\n"
     "stored state are (batch_size, *shape), of the first step. The arrays are new, unless `out` is given: a dict\n"
     "with an array for each of these, which is filled and returned.\n"
     "With frames=\"single\", a field of k stacked frames (`stack_compress`) has T + k - 1 frames, without the axis "
     "of\n"
     "the stack: all of the first step's, then the newest of each other step, so that the frames of step t are those\n"
     "from t to t + k - 1. Places that only padded steps use are 0. If a sequence crosses the end of an episode, the\n"
     "frames before the first one of the next episode are those of the previous episode.\n"
     "Raises ValueError if no sequence is stored, and says how many steps are missing; if the buffer has no\n"
     "`sequences`; if `size` is below the period or too large; for other frames or sizes than the default in a shared\n"
     "buffer; and, with frames=\"single\", if a stack is not that of the episode's step before, advanced by one "
     "frame."},
    {"sample_episodes", method(sample_episodes), METH_FASTCALL | METH_KEYWORDS,
     "sample_episodes($self, /, batch_size, padded=False)\n--\n\n"
     "Return episodes, drawn uniformly, with replacement, from those of which every step is stored, from the first to\n"
     "the last: a dict of new arrays (steps, *shape) with the steps of all drawn episodes, one episode after the "
     "other,\n"
     "and \"offsets\", int64 (batch_size + 1,): episode i has the steps offsets[i] to offsets[i + 1] - 1. If "
     "`padded`,\n"
     "arrays (batch_size, T, *shape) for the T steps of the longest one, with \"is_first\", \"mask\" and \"lengths\" "
     "as\n"
     "in `sample_sequences`. Raises ValueError if there is no such episode, or if the buffer has no `sequences`, or\n"
     "ones that cross the ends of episodes."},
    {"get_valid_sequences", get_valid_sequences, METH_NOARGS,
     "get_valid_sequences($self, /)\n--\n\n"
     "Return the number of different sequences that `sample_sequences` can draw now."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* sample_prioritized_sequences(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  return guarded<PyObject*>(nullptr, [&] {
    PyObject* given[5];
    sort_arguments("sample_sequences", args, nargs, names, {"batch_size", "beta", "time_major", "out", "frames"},
                   given);
    const double beta = beta_of(given[1]);
    return sequences_batch(self, {given[0], given[2], given[3], given[4]}, With::weights,
                           [beta](CallGuard& call, Batch& batch, const Drawn& ends) {
                             Ring& ring = call.ring();
                             std::copy(ends.slots.begin(), ends.slots.end(), static_cast<npy_int64*>(batch.extra(1)));
                             importance_weights(ends, beta, ring.priorities, call.store(),
                                                static_cast<float*>(batch.extra(0)));
                             if (ends.sample != 0) batch.is_sample(ends.sample, 1, ring.recent);
                             return batch.give();
                           });
  });
}

PyObject* draw_sequences(PyObject* self, PyObject* size) {
  return guarded<PyObject*>(nullptr, [&] {
    if (!ring_of(self).is_shared) raise(PyExc_TypeError, "_draw_sequences() requires a shared buffer");
    return sequences_batch(self, {size}, With::leaves, [](CallGuard& call, Batch& batch, const Drawn& ends) {
      std::copy(ends.leaves.begin(), ends.leaves.end(), static_cast<float*>(batch.extra(0)));
      std::copy(ends.rows.begin(), ends.rows.end(), static_cast<npy_int64*>(batch.extra(1)));
      const bool counted = call.ring().priorities.normalize == Normalize::none;
      const auto candidates = counted ? static_cast<long long>(ends.candidates) : -1LL;
      return checked(Py_BuildValue("(NddL)", batch.give(), ends.total, static_cast<double>(ends.smallest), candidates));
    });
  });
}

int add_sequence_methods(PyTypeObject& type) { return add_methods(type, methods); }

}  // namespace rb
