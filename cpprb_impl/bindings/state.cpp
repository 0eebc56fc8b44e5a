// Reads and restores the state of a buffer other than its rows, for copies and for files from which training resumes.
// The callers check that no other process or thread has added rows meanwhile.
#include "state.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "../core/private/private_store.hpp"

namespace rb {
namespace {

// One call's use of a store that no other process can access.
class PrivateCallGuard : public CallGuard {
 public:
  PrivateCallGuard(PyObject* self, const char* method) : CallGuard(self) {
    if (ring().is_shared) raise(PyExc_ValueError, "%s() requires a buffer that is not shared", method);
  }
  PrivateStore& store() { return static_cast<PrivateStore&>(CallGuard::store()); }
};

// One call's use of a store with priorities.
class PrioritizedCallGuard : public CallGuard {
 public:
  PrioritizedCallGuard(PyObject* self, const char* method) : CallGuard(self) {
    if (!store().prioritized()) raise(PyExc_TypeError, "%s() requires a buffer with priorities", method);
  }
};

// The slots that a caller names.
class Slots {
 public:
  explicit Slots(PyObject* indexes) {
    const Ref array = as_indexes(indexes);
    const auto* index = static_cast<const npy_int64*>(PyArray_DATA(array.array()));
    slots_.assign(index, index + PyArray_SIZE(array.array()));
  }
  std::size_t count() const { return slots_.size(); }

  // Calls use(slots) with the store locked for a learner. Raises IndexError, without a call, unless each slot holds a
  // row. `use` must not run Python code, which could call this buffer again.
  template <class Use>
  void with(CallGuard& call, Use use) {
    std::size_t place = 0;
    {
      PythonWaiting waiting(call);
      LearnerGuard guard(call.store(), waiting);
      while (place < slots_.size() && call.store().holds(slots_[place])) ++place;
      if (place == slots_.size()) return use(slots_);
    }
    raise(PyExc_IndexError, "indexes[%zu] is %lld, where no transition is stored", place,
          static_cast<long long>(slots_[place]));
  }

 private:
  std::vector<std::size_t> slots_;
};

PyObject* get_random(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] {
    CallGuard call(self);
    const Random::State& words = call.ring().random.state();
    Ref tuple(checked(PyTuple_New(static_cast<Py_ssize_t>(words.size()))));
    for (std::size_t i = 0; i < words.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), checked(PyLong_FromUnsignedLongLong(words[i])));
    return tuple.give();
  });
}

PyObject* set_random(PyObject* self, PyObject* words) {
  return guarded<PyObject*>(nullptr, [&] {
    Random::State state{};
    const Ref given(checked(PySequence_Tuple(words)));
    if (PyTuple_GET_SIZE(given.get()) != static_cast<Py_ssize_t>(state.size()))
      raise(PyExc_ValueError, "a random state must have %zu numbers, got %zd", state.size(),
            PyTuple_GET_SIZE(given.get()));
    for (std::size_t i = 0; i < state.size(); ++i)
      state[i] = unsigned_number(PyTuple_GET_ITEM(given.get(), static_cast<Py_ssize_t>(i)), "a random state's number");
    // With this state, xoshiro would return zeros forever.
    if (state == Random::State{}) raise(PyExc_ValueError, "a random state must not be all zeros");
    CallGuard(self).ring().random.set_state(state);
    Py_RETURN_NONE;
  });
}

PyObject* reseed(PyObject* self, PyObject* seed) {
  return guarded<PyObject*>(nullptr, [&] {
    const std::uint64_t number = seed == Py_None ? entropy() : unsigned_number(seed, "seed");
    CallGuard(self).ring().random.reseed(number);
    Py_RETURN_NONE;
  });
}

PyObject* begin_at(PyObject* self, PyObject* slot) {
  return guarded<PyObject*>(nullptr, [&] {
    const std::uint64_t first = unsigned_number(slot, "a slot");
    PrivateCallGuard call(self, "_begin_at");
    if (call.store().stored() != 0) raise(PyExc_ValueError, "_begin_at() requires an empty buffer");
    if (first >= call.store().capacity())
      raise(PyExc_IndexError, "slot %llu is beyond the capacity %llu", static_cast<unsigned long long>(first),
            static_cast<unsigned long long>(call.store().capacity()));
    call.store().clear_to(first);
    call.ring().streams.episode_rows = 0;
    call.store().sampled_at = 0;
    Py_RETURN_NONE;
  });
}

PyObject* hold(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  return guarded<PyObject*>(nullptr, [&] {
    if (nargs != 2) raise(PyExc_TypeError, "_hold() takes an index and a number of transitions");
    const std::uint64_t next = unsigned_number(args[0], "an index"),
                        count = unsigned_number(args[1], "a number of rows");
    PrivateCallGuard call(self, "_hold");
    PrivateStore& store = call.store();
    if (store.rows().has_frames()) raise(PyExc_ValueError, "_hold() requires a buffer without shared frames");
    if (next >= store.capacity() || count > store.capacity())
      raise(PyExc_IndexError, "an index and a number of rows must fit the capacity %llu",
            static_cast<unsigned long long>(store.capacity()));
    store.hold(next, count, store.prioritized() ? call.ring().leaf_of_max_priority() : 0);
    store.sampled_at = store.head();
    Py_RETURN_NONE;
  });
}

PyObject* set_episode_len(PyObject* self, PyObject* rows) {
  return guarded<PyObject*>(nullptr, [&] {
    const std::uint64_t length = unsigned_number(rows, "an episode's length");
    CallGuard(self).ring().streams.episode_rows = length;
    Py_RETURN_NONE;
  });
}

PyObject* get_head(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] { return PyLong_FromUnsignedLongLong(CallGuard(self).store().head()); });
}

PyObject* get_stored_slots(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] {
    CallGuard call(self);
    std::vector<std::size_t> slots;
    {
      PythonWaiting waiting(call);
      LearnerGuard guard(call.store(), waiting);
      slots = call.store().stored_slots();
    }
    return int64_array(slots);
  });
}

PyObject* get_leaves(PyObject* self, PyObject* indexes) {
  return guarded<PyObject*>(nullptr, [&] {
    Slots slots(indexes);
    PrioritizedCallGuard call(self, "_get_leaves");
    auto count = static_cast<npy_intp>(slots.count());
    Ref array(checked(PyArray_SimpleNew(1, &count, NPY_FLOAT32)));
    auto* leaf = static_cast<float*>(PyArray_DATA(array.array()));
    slots.with(call, [&](const auto& held) {
      std::transform(held.begin(), held.end(), leaf, [&](std::size_t slot) { return call.store().leaf(slot); });
    });
    return array.give();
  });
}

PyObject* set_leaves(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  return guarded<PyObject*>(nullptr, [&] {
    if (nargs != 2) raise(PyExc_TypeError, "_set_leaves() takes indexes and leaves");
    const Ref array(checked(PyArray_FROMANY(args[1], NPY_FLOAT32, 1, 1, NPY_ARRAY_CARRAY_RO)));
    const auto* first = static_cast<const float*>(PyArray_DATA(array.array()));
    const std::vector<float> leaves(first, first + PyArray_SIZE(array.array()));
    for (std::size_t i = 0; i < leaves.size(); ++i)
      if (!(leaves[i] >= 0) || !std::isfinite(leaves[i]))
        raise(PyExc_ValueError, "leaves[%zu] must be finite and not negative, got %R", i,
              Ref(checked(PyFloat_FromDouble(static_cast<double>(leaves[i])))).get());
    Slots slots(args[0]);
    if (slots.count() != leaves.size())
      raise(PyExc_ValueError, "leaves must have one value per index, got %zu values for %zu indexes", leaves.size(),
            slots.count());
    PrioritizedCallGuard call(self, "_set_leaves");
    slots.with(call, [&](auto& held) { call.store().set_leaves(held, leaves.data()); });
    Py_RETURN_NONE;
  });
}

PyObject* set_max_priority(PyObject* self, PyObject* priority) {
  return guarded<PyObject*>(nullptr, [&] {
    const double value = PyFloat_AsDouble(priority);
    if (PyErr_Occurred()) throw PythonError();
    PrioritizedCallGuard call(self, "_set_max_priority");
    if (!(value >= 0) || !std::isfinite(call.ring().priorities.leaf(value)))
      raise(PyExc_ValueError, "a priority must be finite and not negative, got %R", priority);
    PythonWaiting waiting(call);
    LearnerGuard guard(call.store(), waiting);
    call.store().set_max_priority(value);
    Py_RETURN_NONE;
  });
}

// For check_for_update, which skips rows written since the last sample. A shared buffer does not need this number: it
// remembers the rows of each recent sample.
PyObject* get_unseen(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] {
    if (ring_of(self).is_shared) return PyLong_FromLong(0);
    PrivateCallGuard call(self, "_get_unseen");
    return PyLong_FromUnsignedLongLong(call.store().head() - call.store().sampled_at);
  });
}

PyObject* set_unseen(PyObject* self, PyObject* rows) {
  return guarded<PyObject*>(nullptr, [&] {
    const std::uint64_t unseen = unsigned_number(rows, "a number of rows");
    if (ring_of(self).is_shared) Py_RETURN_NONE;
    PrivateCallGuard call(self, "_set_unseen");
    call.store().sampled_at = call.store().head() - std::min(unseen, call.store().head());
    Py_RETURN_NONE;
  });
}

// The outstanding batches of check_for_update. A shared buffer's are known only to one process.
PyObject* get_samples(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] {
    std::vector<npy_int64> numbers;
    if (!ring_of(self).is_shared) {
      PrivateCallGuard call(self, "_get_samples");
      PrivateStore& store = call.store();
      store.samples().each_in_order([&](const std::vector<std::size_t>& slots, std::uint64_t head) {
        numbers.push_back(static_cast<npy_int64>(store.head() - head));
        numbers.push_back(static_cast<npy_int64>(slots.size()));
        numbers.insert(numbers.end(), slots.begin(), slots.end());
      });
    }
    return int64_array(numbers);
  });
}

PyObject* set_samples(PyObject* self, PyObject* numbers) {
  return guarded<PyObject*>(nullptr, [&] {
    const Ref array(checked(PyArray_FROMANY(numbers, NPY_INT64, 1, 1, NPY_ARRAY_CARRAY_RO)));
    if (ring_of(self).is_shared) Py_RETURN_NONE;
    PrivateCallGuard call(self, "_set_samples");
    PrivateStore& store = call.store();
    if (!store.check_for_update()) Py_RETURN_NONE;
    const auto* at = static_cast<const npy_int64*>(PyArray_DATA(array.array()));
    const auto* const end = at + PyArray_SIZE(array.array());
    while (end - at >= 2 && at[1] >= 0 && at[1] <= end - at - 2) {
      const std::uint64_t unseen = std::min(static_cast<std::uint64_t>(at[0]), store.head());
      store.samples().remember({at + 2, at + 2 + at[1]}, store.head() - unseen);
      at += 2 + at[1];
    }
    Py_RETURN_NONE;
  });
}

// The frames of a field's streams are numbered one stream after the other: the number of frames before each stream, and
// the total.
std::vector<std::uint64_t> frame_counts(const std::vector<FrameStream>& streams) {
  std::vector<std::uint64_t> counts{0};
  for (const auto& stream : streams) counts.push_back(counts.back() + stream.end() - stream.first());
  return counts;
}

// The position of each transition's first frame in `streams`, for the transitions begin, begin + 1, ..., end - 1 from
// the oldest.
PyObject* first_frames(PrivateStore& store, std::size_t field, const std::vector<FrameStream>& streams,
                       std::uint64_t begin, std::uint64_t end) {
  const std::vector<std::uint64_t> before = frame_counts(streams);
  auto rows = static_cast<npy_intp>(end - begin);
  Ref array(checked(PyArray_SimpleNew(1, &rows, NPY_INT64)));
  auto* first = static_cast<npy_int64*>(PyArray_DATA(array.array()));
  for (std::uint64_t row = store.tail() + begin; row < store.tail() + end; ++row) {
    const std::uint64_t slot = row % store.capacity(), newest = store.rows().number_at(field, slot);
    const std::size_t nth = slot % streams.size();
    const FrameStream& stream = streams[nth];
    *first++ = static_cast<npy_int64>(before[nth] + newest + 1 - stream.shape().frames - stream.first());
  }
  return array.give();
}

// Returns the number of fields if there is no such field.
std::size_t field_named(const Ring& ring, PyObject* name) {
  std::size_t f = 0;
  while (f < ring.fields.size() && PyObject_RichCompareBool(ring.fields[f].name.get(), name, Py_EQ) != 1) ++f;
  if (PyErr_Occurred()) throw PythonError();
  return f;
}

// The memory stays valid only until the buffer is closed.
PyObject* view(PyObject* self, PyObject* name) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    if (ring_of(self).is_shared) Py_RETURN_NONE;
    PrivateCallGuard call(self, "_view");
    const Ring& ring = call.ring();
    const std::size_t f = field_named(ring, name);
    if (f == ring.fields.size() || call.store().rows().is_framed(f)) Py_RETURN_NONE;
    const Field& field = ring.fields[f];
    const Column& column = call.store().rows().column(f);
    const int dimensions = static_cast<int>(field.shape.size()) + 1;
    npy_intp dims[33] = {static_cast<npy_intp>(call.store().capacity())};
    npy_intp strides[33] = {static_cast<npy_intp>(column.stride)};
    std::copy(field.shape.begin(), field.shape.end(), dims + 1);
    npy_intp bytes = field.bytes;
    for (int d = 1; d < dimensions; ++d) strides[d] = bytes /= dims[d];
    Py_INCREF(field.dtype.get());  // PyArray_NewFromDescr steals a reference
    Ref array(checked(PyArray_NewFromDescr(&PyArray_Type, field.descr(), dimensions, dims, strides, column.base,
                                           NPY_ARRAY_WRITEABLE, nullptr)));
    if (PyArray_SetBaseObject(array.array(), Py_NewRef(self)) < 0) throw PythonError();
    return array.give();
  });
}

// A field whose frames are stored once.
struct Framed {
  std::size_t field, next;  // next is the number of fields if next_* is not stored with its frames
  const std::vector<FrameStream>& streams;
};

std::optional<Framed> framed_named(PrivateCallGuard& call, PyObject* name) {
  const Ring& ring = call.ring();
  std::size_t next = 0;
  const std::size_t f = field_named(ring, name);
  if (f == ring.fields.size() || call.store().rows().streams_of(f).empty()) return std::nullopt;
  while (next < ring.fields.size() && ring.fields[next].next_of != f) ++next;
  return Framed{f, next, call.store().rows().streams_of(f)};
}

Framed framed_field(PrivateCallGuard& call, PyObject* name) {
  const std::optional<Framed> framed = framed_named(call, name);
  if (!framed) raise(PyExc_KeyError, "%R is not a field whose frames are stored once", name);
  return *framed;
}

// A new array of `count` frames of a field.
PyObject* frames_array(const Field& field, std::uint64_t count) {
  std::vector<npy_intp> dims = field.shape;
  if (field.stacked) dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(field.stack_axis));
  dims.insert(dims.begin(), static_cast<npy_intp>(count));
  Py_INCREF(field.dtype.get());  // PyArray_NewFromDescr steals a reference
  return checked(PyArray_NewFromDescr(&PyArray_Type, field.descr(), static_cast<int>(dims.size()), dims.data(), nullptr,
                                      nullptr, 0, nullptr));
}

PyObject* get_frames(PyObject* self, PyObject* name) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    if (ring_of(self).is_shared) Py_RETURN_NONE;  // its frames are in chunks that processes reuse
    PrivateCallGuard call(self, "_get_frames");
    const std::optional<Framed> framed = framed_named(call, name);
    if (!framed) Py_RETURN_NONE;
    const Field& field = call.ring().fields[framed->field];
    Ref none(frames_array(field, 0));
    const std::uint64_t count = frame_counts(framed->streams).back();
    return Py_BuildValue("(OKNi)", none.get(), static_cast<unsigned long long>(count),
                         PyBool_FromLong(framed->next < call.ring().fields.size()),
                         field.stacked ? static_cast<int>(field.stack_axis) : -1);
  });
}

PyObject* get_frame_numbers(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    if (nargs != 3) raise(PyExc_TypeError, "_get_frame_numbers() takes a field, begin and end");
    const std::uint64_t begin = unsigned_number(args[1], "begin"), end = unsigned_number(args[2], "end");
    PrivateCallGuard call(self, "_get_frame_numbers");
    const Framed framed = framed_field(call, args[0]);
    PrivateStore& store = call.store();
    if (begin > end || end > store.stored())
      raise(PyExc_IndexError, "transitions must be from 0 to %llu", static_cast<unsigned long long>(store.stored()));
    Ref first(first_frames(store, framed.field, framed.streams, begin, end));
    const bool has_next = framed.next < call.ring().fields.size();
    Ref next_first(has_next ? first_frames(store, framed.next, framed.streams, begin, end) : Py_NewRef(Py_None));
    return Py_BuildValue("(OO)", first.get(), next_first.get());
  });
}

PyObject* read_frames(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    if (nargs != 2) raise(PyExc_TypeError, "_read_frames() takes a field and numbers");
    const Ref numbers(checked(PyArray_FROMANY(args[1], NPY_INT64, 1, 1, NPY_ARRAY_CARRAY_RO)));
    const auto* number = static_cast<const npy_int64*>(PyArray_DATA(numbers.array()));
    const auto count = static_cast<std::uint64_t>(PyArray_SIZE(numbers.array()));
    PrivateCallGuard call(self, "_read_frames");
    const Framed framed = framed_field(call, args[0]);
    const std::vector<std::uint64_t> before = frame_counts(framed.streams);
    Ref frames(frames_array(call.ring().fields[framed.field], count));
    char* to = PyArray_BYTES(frames.array());
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto wanted = static_cast<std::uint64_t>(number[i]);
      if (wanted >= before.back())
        raise(PyExc_IndexError, "frame numbers must be from 0 to %llu",
              static_cast<unsigned long long>(before.back()) - 1);
      const auto nth = static_cast<std::size_t>(std::ranges::upper_bound(before, wanted) - before.begin()) - 1;
      const FrameStream& stream = framed.streams[nth];
      stream.read_frame(stream.first() + wanted - before[nth], to);
      to += stream.shape().frame_bytes();
    }
    return frames.give();
  });
}

PyObject* warn_no_more_than(PyObject* self, PyObject* other) {
  return guarded<PyObject*>(nullptr, [&] {
    if (!PyObject_TypeCheck(other, &RingType)) raise(PyExc_TypeError, "other must be a Ring, got %R", other);
    ring_of(self).change_warnings.follow(ring_of(other).change_warnings);
    Py_RETURN_NONE;
  });
}

PyMethodDef methods[] = {
    {"_get_frames", get_frames, METH_O,
     "_get_frames(field) -> (an empty array (0, *frame_shape), number of frames, whether next_* shares them, axis)"
     "\n\n"
     "For a field whose frames are stored once; None for any other field, and for shared buffers. A value consists of\n"
     "consecutive frames along the axis for fields of stack_compress, otherwise of one frame. Frames are numbered one\n"
     "environment after the other."},
    {"_get_frame_numbers", method(get_frame_numbers), METH_FASTCALL,
     "_get_frame_numbers(field, begin, end) -> (first, next_first): int64 (end - begin,), or None\n\n"
     "The first frame of each value of the transitions begin, begin + 1, ..., end - 1, counted from the oldest, and\n"
     "of each value of the field's next_*."},
    {"_read_frames", method(read_frames), METH_FASTCALL,
     "_read_frames(field, numbers) -> array (len(numbers), *frame_shape)"},
    {"_view", view, METH_O,
     "_view(field) -> array (capacity, *shape) that views the ring's memory, or None\n\n"
     "Valid until the buffer is closed. Returns None for a field whose frames are stored once, and for shared "
     "buffers."},
    {"_get_random", get_random, METH_NOARGS, "_get_random() -> tuple of int\n\nReturn the random generator's state."},
    {"_set_random", set_random, METH_O, "_set_random(state)\n\nSet the random generator's state."},
    {"_reseed", reseed, METH_O,
     "_reseed(seed)\n\n"
     "Restart the random generator as in a constructor with this seed, or if it is None, with one from the system."},
    {"_begin_at", begin_at, METH_O, "_begin_at(slot)\n\nStore an empty buffer's next transition in `slot`."},
    {"_hold", method(hold), METH_FASTCALL,
     "_hold(next_index, stored)\n\n"
     "Make the `stored` slots before `next_index` the ones that hold transitions, with the data already in them.\n"
     "Slots that held none get the largest priority, and any priority can be updated immediately."},
    {"_set_episode_len", set_episode_len, METH_O, "_set_episode_len(rows)"},
    {"_get_head", get_head, METH_NOARGS,
     "_get_head() -> int\n\nReturn the number of the next transition, which never decreases."},
    {"_get_stored_slots", get_stored_slots, METH_NOARGS,
     "_get_stored_slots() -> int64 (n,)\n\nReturn the slots that hold a transition, in ascending order."},
    {"_get_leaves", get_leaves, METH_O, "_get_leaves(indexes) -> float32 (n,), (priority + eps)^alpha"},
    {"_set_leaves", method(set_leaves), METH_FASTCALL, "_set_leaves(indexes, leaves)"},
    {"_set_max_priority", set_max_priority, METH_O, "_set_max_priority(priority)"},
    {"_get_unseen", get_unseen, METH_NOARGS,
     "_get_unseen() -> int\n\nReturn how many transitions were written since the last sample; 0 for shared buffers."},
    {"_set_unseen", set_unseen, METH_O, "_set_unseen(rows)"},
    {"_get_samples", get_samples, METH_NOARGS,
     "_get_samples() -> int64 (n,)\n\n"
     "Return the remembered samples, oldest first: how many transitions were written since each, its number of\n"
     "indexes, and the indexes. There are none without check_for_update, or for shared buffers."},
    {"_set_samples", set_samples, METH_O, "_set_samples(samples)\n\nRemember what `_get_samples` returned."},
    {"_warn_no_more_than", warn_no_more_than, METH_O,
     "_warn_no_more_than(other)\n\nDo not warn of changed values in a field about which `other` has warned."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

std::uint64_t unsigned_number(PyObject* value, const char* what) {
  const Ref index(checked(PyNumber_Index(value)));
  const std::uint64_t number = PyLong_AsUnsignedLongLong(index.get());
  if (!PyErr_Occurred()) return number;
  PyErr_Clear();
  raise(PyExc_ValueError, "%s must be from 0 to 2^64 - 1, got %R", what, index.get());
}

int add_methods(PyTypeObject& type, PyMethodDef* of_part) {
  for (PyMethodDef* each = of_part; each->ml_name != nullptr; ++each) {
    const Ref descriptor(PyDescr_NewMethod(&type, each));
    if (!descriptor || PyDict_SetItemString(type.tp_dict, each->ml_name, descriptor.get()) < 0) return -1;
  }
  PyType_Modified(&type);
  return 0;
}

int add_state_methods(PyTypeObject& type) { return add_methods(type, methods); }

}  // namespace rb
