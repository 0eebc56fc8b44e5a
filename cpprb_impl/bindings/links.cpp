// Reads and restores the links between the rows of a buffer with sequences, for copies and files.
#include <algorithm>

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

PyObject* get_links(PyObject* self, PyObject* args) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    Py_ssize_t begin, end;
    if (!PyArg_ParseTuple(args, "nn", &begin, &end)) throw PythonError();
    CallGuard call(self);
    const PrivateSequences* sequences = private_sequences(call.ring());
    if (sequences == nullptr) Py_RETURN_NONE;
    const auto stored = static_cast<Py_ssize_t>(call.store().stored());
    if (begin < 0 || begin > end || end > stored)
      raise(PyExc_IndexError, "rows must be from 0 to %zd, got %zd to %zd", stored, begin, end);
    const Links& links = sequences->links;
    npy_intp dims[] = {end - begin, 2};
    Ref array(checked(PyArray_SimpleNew(2, dims, NPY_UINT32)));
    auto* to = static_cast<npy_uint32*>(PyArray_DATA(array.array()));
    const std::uint64_t oldest = call.store().head() - call.store().stored();
    for (Py_ssize_t i = begin; i < end; ++i) {
      const std::uint64_t slot = (oldest + static_cast<std::uint64_t>(i)) % call.store().capacity();
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
    const auto stored = static_cast<npy_intp>(call.store().stored());
    if (begin < 0 || begin + count > stored)
      raise(PyExc_IndexError, "rows must be from 0 to %zd, got %zd to %zd", stored, begin, begin + count);
    const std::uint64_t tail = call.store().head() - call.store().stored();
    const std::uint64_t first = tail + static_cast<std::uint64_t>(begin);
    for (npy_intp i = 0; i < count; ++i)
      sequences.links.put(first + static_cast<std::uint64_t>(i), tail, links[2 * i], links[2 * i + 1]);
    sequences.sampler.changed_from(first);
    sequences.episodes.changed_from(first);
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

PyMethodDef methods[] = {
    {"_get_links", get_links, METH_VARARGS,
     "_get_links(begin, end) -> uint32 (end - begin, 2), or None without sequences\n\n"
     "For each of the transitions begin, begin + 1, ..., end - 1, counted from the oldest: how many rows before it "
     "the\n"
     "previous one of its stream is (0: there is none), plus 2^31 for the first and 2^30 for the last step of an\n"
     "episode; and its step in its episode, or in its stream if sequences may cross ends, from 1 on."},
    {"_set_links", set_links, METH_VARARGS,
     "_set_links(begin, links)\n\nSet the links of the transitions begin, begin + 1, ..., counted from the oldest."},
    {"_get_streams", get_streams, METH_NOARGS,
     "_get_streams() -> int64 (n_envs,), or None without sequences\n\n"
     "How many rows ago each stream got its newest transition (0: none), times 2, plus 1 if its next one begins an\n"
     "episode."},
    {"_set_streams", set_streams, METH_O, "_set_streams(streams)\n\nContinue from what `_get_streams` returned."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_link_methods(PyTypeObject& type) { return add_methods(type, methods); }

}  // namespace rb
