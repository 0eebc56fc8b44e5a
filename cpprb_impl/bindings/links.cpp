// Reads and restores the links between the rows of a buffer with sequences, for copies and files; links rows that the
// explorers of other hosts have added.
#include <algorithm>

#include "one_call.hpp"
#include "ring.hpp"
#include "state.hpp"

namespace rb {
namespace {

// Null if the ring has no sequences; raises ValueError if it is shared: a row must not change once it is committed.
PrivateSequences* private_sequences(Ring& ring) {
  if (!ring.streams.sequences) return nullptr;
  if (ring.is_shared) raise(PyExc_ValueError, "a shared buffer with sequences can be neither saved nor loaded");
  return ring.streams.sequences->own.get();
}

void check_rows(CallGuard& call, Py_ssize_t begin, Py_ssize_t end) {
  const auto stored = static_cast<Py_ssize_t>(call.store().stored());
  if (begin < 0 || begin > end || end > stored)
    raise(PyExc_IndexError, "rows must be from 0 to %zd, got %zd to %zd", stored, begin, end);
}

// The slot of a row, counted from the oldest.
std::uint64_t slot_of(CallGuard& call, Py_ssize_t row) {
  const std::uint64_t oldest = call.store().head() - call.store().stored();
  return (oldest + static_cast<std::uint64_t>(row)) % call.store().capacity();
}

PyObject* get_links(PyObject* self, PyObject* args) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    Py_ssize_t begin, end;
    if (!PyArg_ParseTuple(args, "nn", &begin, &end)) throw PythonError();
    CallGuard call(self);
    const PrivateSequences* sequences = private_sequences(call.ring());
    if (sequences == nullptr) Py_RETURN_NONE;
    check_rows(call, begin, end);
    const Links& links = sequences->links;
    npy_intp dims[] = {end - begin, 2};
    Ref array(checked(PyArray_SimpleNew(2, dims, NPY_UINT32)));
    auto* to = static_cast<npy_uint32*>(PyArray_DATA(array.array()));
    for (Py_ssize_t i = begin; i < end; ++i) {
      const std::uint64_t slot = slot_of(call, i);
      *to++ = links.link(slot);
      *to++ = links.number(slot);
    }
    return array.give();
  });
}

PyObject* set_links(PyObject* self, PyObject* args) {
  return guarded<PyObject*>(nullptr, [&] {
    Py_ssize_t begin;
    PyObject* given;
    if (!PyArg_ParseTuple(args, "nO", &begin, &given)) throw PythonError();
    const Ref array(checked(PyArray_FROMANY(given, NPY_UINT32, 2, 2, NPY_ARRAY_CARRAY_RO)));
    const auto* links = static_cast<const npy_uint32*>(PyArray_DATA(array.array()));
    const npy_intp count = PyArray_SIZE(array.array()) / 2;
    CallGuard call(self);
    sequences_of(call.ring(), "_set_links");
    PrivateSequences& sequences = *private_sequences(call.ring());
    check_rows(call, begin, begin + count);
    const std::uint64_t tail = call.store().head() - call.store().stored();
    const std::uint64_t first = tail + static_cast<std::uint64_t>(begin);
    for (npy_intp i = 0; i < count; ++i)
      sequences.links.put(first + static_cast<std::uint64_t>(i), tail, links[2 * i], links[2 * i + 1]);
    sequences.changed_from(first);
    Py_RETURN_NONE;
  });
}

PyObject* get_errors(PyObject* self, PyObject* args) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    Py_ssize_t begin, end;
    if (!PyArg_ParseTuple(args, "nn", &begin, &end)) throw PythonError();
    CallGuard call(self);
    const Sequences* sequences = call.ring().streams.sequences.get();
    if (sequences == nullptr || !sequences->errors) Py_RETURN_NONE;
    check_rows(call, begin, end);
    npy_intp count = end - begin;
    Ref array(checked(PyArray_SimpleNew(1, &count, NPY_FLOAT32)));
    auto* to = static_cast<npy_float32*>(PyArray_DATA(array.array()));
    for (Py_ssize_t i = begin; i < end; ++i) *to++ = sequences->errors->error(slot_of(call, i));
    return array.give();
  });
}

PyObject* set_errors(PyObject* self, PyObject* args) {
  return guarded<PyObject*>(nullptr, [&] {
    Py_ssize_t begin;
    PyObject* given;
    if (!PyArg_ParseTuple(args, "nO", &begin, &given)) throw PythonError();
    const Ref array(checked(PyArray_FROMANY(given, NPY_FLOAT32, 1, 1, NPY_ARRAY_CARRAY_RO)));
    const auto* error = static_cast<const npy_float32*>(PyArray_DATA(array.array()));
    const npy_intp count = PyArray_SIZE(array.array());
    CallGuard call(self);
    const Sequences& sequences = sequences_of(call.ring(), "_set_errors");
    if (!sequences.errors) raise(PyExc_ValueError, "_set_errors() requires sequences with overlap='all'");
    check_rows(call, begin, begin + count);
    for (npy_intp i = 0; i < count; ++i) sequences.errors->set(slot_of(call, begin + i), static_cast<double>(error[i]));
    Py_RETURN_NONE;
  });
}

PyObject* get_streams(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    CallGuard call(self);
    PrivateSequences* sequences = private_sequences(call.ring());
    if (sequences == nullptr) Py_RETURN_NONE;
    sequences->sampler.count();  // without sequences that are no longer stored, as in a copy: both draw the same
    sequences->episodes.count();
    sequences->forget_other_sizes();
    return int64_array(sequences->links.streams(call.store().head()));
  });
}

PyObject* set_streams(PyObject* self, PyObject* given) {
  return guarded<PyObject*>(nullptr, [&] {
    const Ref array = as_indexes(given);
    const auto* from = static_cast<const npy_int64*>(PyArray_DATA(array.array()));
    const std::vector<std::int64_t> streams(from, from + PyArray_SIZE(array.array()));
    CallGuard call(self);
    Ring& ring = call.ring();
    sequences_of(ring, "_set_streams");
    PrivateSequences& sequences = *private_sequences(ring);
    if (streams.size() != ring.environments || std::ranges::any_of(streams, [](std::int64_t each) { return each < 0; }))
      raise(PyExc_ValueError, "streams must be %zu numbers from 0 on", ring.environments);
    sequences.links.set_streams(streams, call.store().head());
    Py_RETURN_NONE;
  });
}

// The links of rows that this process adds to a shared ring.
StreamLinks& shared_links(Ring& ring, const char* method) {
  Sequences& sequences = sequences_of(ring, method);
  if (!sequences.shared) raise(PyExc_TypeError, "%s() requires a shared buffer", method);
  return sequences.shared->links;
}

std::vector<char> flags_of(PyObject* given) {
  const Ref array(checked(PyArray_FROMANY(given, NPY_BOOL, 1, 1, NPY_ARRAY_CARRAY_RO)));
  const char* const from = PyArray_BYTES(array.array());
  return {from, from + PyArray_SIZE(array.array())};
}

PyObject* begin_runs(PyObject* self, PyObject* args) {
  return guarded<PyObject*>(nullptr, [&] {
    Py_ssize_t first;
    PyObject* given;
    if (!PyArg_ParseTuple(args, "nO", &first, &given)) throw PythonError();
    const std::vector<char> begins = flags_of(given);
    CallGuard call(self);
    StreamLinks& links = shared_links(call.ring(), "_begin_runs");
    if (first < 0) raise(PyExc_IndexError, "first must not be negative, got %zd", first);
    PythonWaiting waiting(call);
    const OneCall one(links.taken, waiting);
    links.begin_runs(static_cast<std::size_t>(first), reinterpret_cast<const bool*>(begins.data()), begins.size());
    Py_RETURN_NONE;
  });
}

// Also after close(), since the process may continue its streams in a different buffer.
PyObject* get_begins(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] {
    Ring& ring = ring_of(self);
    const StreamLinks& links = ring.streams.closed ? *ring.streams.closed : shared_links(ring, "_get_begins");
    auto count = static_cast<npy_intp>(links.streams());
    Ref array(checked(PyArray_SimpleNew(1, &count, NPY_BOOL)));
    for (npy_intp i = 0; i < count; ++i)
      PyArray_BYTES(array.array())[i] = static_cast<char>(links.begins_episode(static_cast<std::size_t>(i)));
    return array.give();
  });
}

PyObject* add_steps_of_streams(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  return guarded<PyObject*>(nullptr, [&] {
    if (nargs != 2)
      raise(PyExc_TypeError, "_add_steps() takes streams, firsts, and the fields of a transition as keywords");
    const Ref given = as_indexes(args[0]);
    const auto* from = static_cast<const npy_int64*>(PyArray_DATA(given.array()));
    const std::vector<npy_int64> streams(from, from + PyArray_SIZE(given.array()));
    const std::vector<char> firsts = flags_of(args[1]);
    const auto known = static_cast<npy_int64>(shared_links(ring_of(self), "_add_steps").streams());
    if (std::ranges::any_of(streams, [=](npy_int64 each) { return each < 0 || each >= known; }))
      raise(PyExc_IndexError, "streams must be from 0 to %lld", static_cast<long long>(known) - 1);
    return add_stream_rows(self, streams, firsts, args + 2, names);
  });
}

PyMethodDef methods[] = {
    {"_get_links", get_links, METH_VARARGS,
     "_get_links(begin, end) -> uint32 (end - begin, 2), or None without sequences\n\n"
     "For each of the transitions begin, begin + 1, ..., end - 1, counted from the oldest: how many rows before it "
     "the\n"
     "previous one of its stream is (0: there is none), plus 2^31 for the first and 2^30 for the last step of an\n"
     "episode; and its step in its episode, or in its stream if sequences may cross ends, from 1 on."},
    {"_set_links", set_links, METH_VARARGS,
     "_set_links(begin, links)\n\nSet the links of the transitions begin, begin + 1, ..., counted from the oldest."},
    {"_get_errors", get_errors, METH_VARARGS,
     "_get_errors(begin, end) -> float32 (end - begin,), or None unless errors change overlapping sequences\n\n"
     "The magnitudes of the errors of the transitions begin, begin + 1, ..., end - 1, counted from the oldest."},
    {"_set_errors", set_errors, METH_VARARGS,
     "_set_errors(begin, errors)\n\n"
     "Set the magnitudes of the errors of the transitions begin, begin + 1, ..., counted from the oldest. The "
     "priorities\n"
     "of sequences do not change."},
    {"_get_streams", get_streams, METH_NOARGS,
     "_get_streams() -> int64 (n_envs,), or None without sequences\n\n"
     "How many rows ago each stream got its newest transition (0: none), times 2, plus 1 if its next one begins an\n"
     "episode."},
    {"_set_streams", set_streams, METH_O, "_set_streams(streams)\n\nContinue from what `_get_streams` returned."},
    {"_begin_runs", begin_runs, METH_VARARGS,
     "_begin_runs(first, begins)\n\n"
     "The next transitions that this process adds of the streams first, first + 1, ... continue none, and begin an\n"
     "episode where `begins` is true. There may then be more streams than environments. Only for shared buffers."},
    {"_get_begins", get_begins, METH_NOARGS,
     "_get_begins() -> bool (streams,)\n\n"
     "Whether the next transition of each stream of this process begins an episode. Only for shared buffers."},
    {"_add_steps", method(add_steps_of_streams), METH_FASTCALL | METH_KEYWORDS,
     "_add_steps(streams, firsts, /, **rows)\n\n"
     "Store transitions as they are, each as the next one of its stream; `firsts` says whether it begins an episode.\n"
     "Only for shared buffers."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_link_methods(PyTypeObject& type) { return add_methods(type, methods); }

}  // namespace rb
