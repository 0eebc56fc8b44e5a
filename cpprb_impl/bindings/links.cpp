// Reads and restores the links between the rows of a buffer with sequences, for copies and files; links rows that the
// explorers of other hosts have added.
#include <algorithm>

#include "one_call.hpp"
#include "ring.hpp"
#include "state.hpp"

namespace rb {
namespace {

// Raises TypeError if the ring is shared: a row must not change once it is committed.
PrivateSequences& private_sequences(Ring& ring, const char* method) {
  const Sequences& sequences = sequences_of(ring, method);
  if (!sequences.own) raise(PyExc_TypeError, "%s() requires a buffer that is not shared", method);
  return *sequences.own;
}

SharedSequences& shared_sequences(Ring& ring, const char* method) {
  const Sequences& sequences = sequences_of(ring, method);
  if (!sequences.shared) raise(PyExc_TypeError, "%s() requires a shared buffer", method);
  return *sequences.shared;
}

SharedStore& shared_store(CallGuard& call, const char* method) {
  shared_sequences(call.ring(), method);
  return static_cast<SharedStore&>(call.store());
}

std::uint64_t slot_in(const Store& store, npy_int64 slot) {
  if (slot < 0 || static_cast<std::uint64_t>(slot) >= store.capacity())
    raise(PyExc_IndexError, "slots must be from 0 to %llu, got %lld",
          static_cast<unsigned long long>(store.capacity()) - 1, static_cast<long long>(slot));
  return static_cast<std::uint64_t>(slot);
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
  return guarded<PyObject*>(nullptr, [&] {
    Py_ssize_t begin, end;
    if (!PyArg_ParseTuple(args, "nn", &begin, &end)) throw PythonError();
    CallGuard call(self);
    const Links& links = private_sequences(call.ring(), "_get_links").links;
    check_rows(call, begin, end);
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
    PrivateSequences& sequences = private_sequences(call.ring(), "_set_links");
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

// Without sequences that are no longer stored, as in a copy: both then draw the same.
std::vector<std::int64_t> streams_of(PrivateSequences& sequences, std::uint64_t head) {
  sequences.sampler.count();
  sequences.episodes.count();
  sequences.forget_other_sizes();
  return sequences.links.streams(head);
}

// The same for the streams of this process.
std::vector<std::int64_t> streams_of(SharedSequences& sequences, CallGuard& call) {
  PythonWaiting waiting(call);
  LearnerGuard guard(call.store(), waiting);
  if (sequences.sampler.has_found_any()) sequences.sampler.count();
  const std::uint64_t head = call.store().head();
  std::vector<std::int64_t> streams;
  for (std::size_t i = 0; i < call.ring().environments; ++i) {
    const std::uint64_t back = head - sequences.links.newest(i).value_or(head);
    streams.push_back(static_cast<std::int64_t>(2 * back + (sequences.links.begins_episode(i) ? 1 : 0)));
  }
  return streams;
}

void set_shared_streams(CallGuard& call, const std::vector<std::int64_t>& streams) {
  const SharedStore& store = shared_store(call, "_set_streams");
  SharedSequences& sequences = *call.ring().streams.sequences->shared;
  PythonWaiting waiting(call);
  LearnerGuard guard(call.store(), waiting);
  sequences.sampler.count();
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const bool begins = streams[i] % 2 != 0;
    const std::uint64_t row = store.head() - static_cast<std::uint64_t>(streams[i]) / 2, slot = row % store.capacity();
    if (streams[i] > 1 && store.row_at(slot) == row)
      sequences.links.continue_run(i, row, store.link_at(slot).number(), begins);
    else
      sequences.links.begin_runs(i, &begins, 1);
  }
}

PyObject* get_streams(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    CallGuard call(self);
    const Sequences* sequences = call.ring().streams.sequences.get();
    if (sequences == nullptr) Py_RETURN_NONE;
    return int64_array(sequences->own ? streams_of(*sequences->own, call.store().head())
                                      : streams_of(*sequences->shared, call));
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
    if (streams.size() != ring.environments || std::ranges::any_of(streams, [](std::int64_t each) { return each < 0; }))
      raise(PyExc_ValueError, "streams must be %zu numbers from 0 on", ring.environments);
    if (ring.is_shared)
      set_shared_streams(call, streams);
    else
      ring.streams.sequences->own->links.set_streams(streams, call.store().head());
    Py_RETURN_NONE;
  });
}

// The links of rows that this process adds to a shared ring.
StreamLinks& shared_links(Ring& ring, const char* method) { return shared_sequences(ring, method).links; }

PyObject* get_rows_in(PyObject* self, PyObject* given) {
  return guarded<PyObject*>(nullptr, [&] {
    const Ref slots = as_indexes(given);
    CallGuard call(self);
    if (!call.ring().is_shared) raise(PyExc_TypeError, "_get_rows_in() requires a shared buffer");
    const auto& store = static_cast<const SharedStore&>(call.store());
    npy_intp count = PyArray_SIZE(slots.array());
    const auto* slot = static_cast<const npy_int64*>(PyArray_DATA(slots.array()));
    Ref array(checked(PyArray_SimpleNew(1, &count, NPY_INT64)));
    auto* to = static_cast<npy_int64*>(PyArray_DATA(array.array()));
    for (npy_intp i = 0; i < count; ++i) {
      const auto row = store.row_at(slot_in(store, slot[i]));
      to[i] = row ? static_cast<npy_int64>(*row) : -1;
    }
    return array.give();
  });
}

PyObject* get_links_in(PyObject* self, PyObject* given) {
  return guarded<PyObject*>(nullptr, [&] {
    const Ref slots = as_indexes(given);
    CallGuard call(self);
    const SharedStore& store = shared_store(call, "_get_links_in");
    const npy_intp count = PyArray_SIZE(slots.array());
    const auto* slot = static_cast<const npy_int64*>(PyArray_DATA(slots.array()));
    npy_intp dims[] = {count, 2};
    Ref array(checked(PyArray_SimpleNew(2, dims, NPY_UINT32)));
    auto* to = static_cast<npy_uint32*>(PyArray_DATA(array.array()));
    for (npy_intp i = 0; i < count; ++i) {
      const LinkWord link = store.link_at(slot_in(store, slot[i]));
      *to++ = (static_cast<npy_uint32>(link.back()) & Links::kBack) | (link.is_first() ? Links::kFirst : 0) |
              (link.is_last() ? Links::kLast : 0);
      *to++ = static_cast<npy_uint32>(link.number());
    }
    return array.give();
  });
}

PyObject* add_linked_rows(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  return guarded<PyObject*>(nullptr, [&] {
    if (nargs != 2)
      raise(PyExc_TypeError, "_add_linked() takes a number, links, and the fields of a transition as keywords");
    const std::uint64_t first = unsigned_number(args[0], "first");
    const Ref given(checked(PyArray_FROMANY(args[1], NPY_UINT32, 2, 2, NPY_ARRAY_CARRAY_RO)));
    const auto* from = static_cast<const npy_uint32*>(PyArray_DATA(given.array()));
    shared_sequences(ring_of(self), "_add_linked");
    std::vector<LinkWord> links;
    for (npy_intp i = 0; i < PyArray_DIMS(given.array())[0]; ++i, from += 2)
      links.push_back(LinkWord::of(from[0] & Links::kBack, from[1] & LinkWord::kMost, (from[0] & Links::kFirst) != 0,
                                   (from[0] & Links::kLast) != 0));
    return add_linked_rows(self, first, links, args + 2, names);
  });
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
     "_get_links(begin, end) -> uint32 (end - begin, 2)\n\n"
     "For each of the transitions begin, begin + 1, ..., end - 1, counted from the oldest: how many rows before it "
     "the\n"
     "previous one of its stream is (0: there is none), plus 2^31 for the first and 2^30 for the last step of an\n"
     "episode; and its step in its episode, or in its stream if sequences may cross ends, from 1 on. Not for shared\n"
     "buffers."},
    {"_set_links", set_links, METH_VARARGS,
     "_set_links(begin, links)\n\nSet the links of the transitions begin, begin + 1, ..., counted from the oldest."},
    {"_get_rows_in", get_rows_in, METH_O,
     "_get_rows_in(slots) -> int64 (n,)\n\n"
     "Return the numbers of the transitions in these slots of a shared buffer; -1 where there is none."},
    {"_get_links_in", get_links_in, METH_O,
     "_get_links_in(slots) -> uint32 (n, 2)\n\n"
     "Like `_get_links`, for a shared buffer. Distances are between the numbers that `_get_rows_in` returns."},
    {"_add_linked", method(add_linked_rows), METH_FASTCALL | METH_KEYWORDS,
     "_add_linked(first, links, /, **rows)\n\n"
     "Store transitions of a shared buffer with these links, as returned by `_get_links_in`, with the numbers first,\n"
     "first + 1, .... One that gets another number is linked to none."},
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
