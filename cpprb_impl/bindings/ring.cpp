// The type Ring: construction, add, uniform sampling, reading and clearing.
#include "ring.hpp"
#include "slowed.hpp"
#include "state.hpp"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace rb {
namespace {

int ring_traverse(PyObject* self, visitproc visit, void* arg) {
  Ring* ring = reinterpret_cast<RingObject*>(self)->ring;
  return ring ? ring->recent.traverse(visit, arg) : 0;
}

int ring_clear_references(PyObject* self) {
  if (Ring* ring = reinterpret_cast<RingObject*>(self)->ring) ring->recent.clear();
  return 0;
}

void ring_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  delete reinterpret_cast<RingObject*>(self)->ring;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
}

PyObject* ring_add_rows(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  return guarded<PyObject*>(nullptr, [&] { return add_rows(self, args, nargs, names, 1, false); });
}

PyObject* ring_add(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  return guarded<PyObject*>(nullptr, [&] {
    Ring& ring = ring_of(self);
    const char* through = "_add_through";
    try {
      if (ring.adds_directly) [[likely]]
        return ring.streams.nstep ? add_steps(self, args, nargs, names)
                                  : add_rows(self, args, nargs, names, ring.environments, true);
      if (!ring.add_through_python) return add_watched(self, args, nargs, names);
    } catch (const EnvironmentsGiven&) {
      through = "_add_some";
    }
    std::vector<PyObject*> all{self};
    all.insert(all.end(), args, args + nargs + (names ? PyTuple_GET_SIZE(names) : 0));
    const Ref method(checked(PyUnicode_InternFromString(through)));
    return PyObject_VectorcallMethod(method.get(), all.data(), static_cast<std::size_t>(nargs) + 1, names);
  });
}

PyObject* ring_add_of(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  return guarded<PyObject*>(nullptr, [&] {
    if (nargs != 1) raise(PyExc_TypeError, "_add_of() takes env_ids, and the fields of a transition as keywords");
    const Ref given = as_indexes(args[0]);
    const auto* from = static_cast<const npy_int64*>(PyArray_DATA(given.array()));
    const std::vector<npy_int64> environments(from, from + PyArray_SIZE(given.array()));
    return add_watched(self, args + 1, 0, names, &environments);
  });
}

PyObject* ring_sample(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  return guarded<PyObject*>(nullptr, [&] {
    PyObject* given[2];
    sort_arguments("sample", args, nargs, names, {"batch_size", "out"}, given);
    const npy_intp rows = batch_size(given[0]);
    CallGuard call(self);
    Ring& ring = call.ring();
    Batch batch(ring.fields, rows, {}, for_batch(ring, given[1]), recent_batches(ring));
    Borrowed<Drawn> drawn(ring.drawn);
    drawn->slots.resize(static_cast<std::size_t>(rows));
    Found found;
    {
      PythonWaiting waiting(call);
      LearnerGuard guard(call.store(), waiting);
      found = ring.sampler->sample(ring.random, *drawn, batch.places(), waiting);
    }
    if (found == Found::nothing) raise(PyExc_ValueError, "cannot sample from an empty buffer");
    return finished(self, batch, &drawn->slots);
  });
}

PyObject* ring_sample_indexes(PyObject* self, PyObject* value) {
  return guarded<PyObject*>(nullptr, [&] {
    npy_intp rows = batch_size(value);
    const Ref indexes(checked(PyArray_SimpleNew(1, &rows, NPY_INT64)));
    CallGuard call(self);
    Ring& ring = call.ring();
    if (ring.is_shared)
      raise(PyExc_TypeError,
            "sample_indexes() requires an unshared buffer: in a shared one, a row may be overwritten before it is "
            "read");
    if (ring.prioritized && ring.streams.sequences)
      raise(PyExc_TypeError,
            "sample_indexes() is not supported by a prioritized buffer with sequences: its priorities belong to "
            "sequences, not rows");
    Borrowed<Drawn> drawn(ring.drawn);
    drawn->slots.resize(static_cast<std::size_t>(rows));
    Found found;
    {
      PythonWaiting waiting(call);
      LearnerGuard guard(call.store(), waiting);
      found = ring.sampler->sample(ring.random, *drawn, nullptr, waiting);
    }
    if (found == Found::nothing) raise(PyExc_ValueError, "cannot sample from an empty buffer");
    if (found == Found::no_mass) raise(PyExc_ValueError, "cannot sample: every stored priority is 0");
    std::copy(drawn->slots.begin(), drawn->slots.end(), static_cast<npy_int64*>(PyArray_DATA(indexes.array())));
    return Py_NewRef(indexes.get());
  });
}

PyObject* ring_gather(PyObject* self, PyObject* indexes) {
  return guarded<PyObject*>(nullptr, [&] {
    const Ref all = as_indexes(indexes);
    // Copied, because another thread may change the caller's array while this thread waits.
    const auto* from = static_cast<const npy_int64*>(PyArray_DATA(all.array()));
    const std::vector<npy_int64> given(from, from + PyArray_SIZE(all.array()));
    CallGuard call(self);
    const auto capacity = static_cast<npy_int64>(call.store().capacity());
    std::vector<std::size_t> slots(given.size());
    std::transform(given.begin(), given.end(), slots.begin(),
                   [=](npy_int64 index) { return static_cast<std::size_t>(index < 0 ? index + capacity : index); });
    Batch batch(call.ring().fields, static_cast<npy_intp>(slots.size()));
    std::size_t missing;
    {
      PythonWaiting waiting(call);
      LearnerGuard guard(call.store(), waiting);
      missing = call.store().read(slots, batch.places(), waiting);
    }
    if (missing != kAllGood)
      raise(PyExc_IndexError, "indexes[%zu] is %lld, where no transition is stored", missing,
            static_cast<long long>(given[missing]));
    return finished(self, batch);
  });
}

PyObject* ring_get_all_transitions(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded<PyObject*>(nullptr, [&] {
    static const char* names[] = {"shuffle", nullptr};
    int shuffle = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p", const_cast<char**>(names), &shuffle)) throw PythonError();
    CallGuard call(self);
    std::optional<Batch> batch;
    std::vector<std::size_t> slots;
    {
      PythonWaiting waiting(call);
      LearnerGuard guard(call.store(), waiting);
      slots = call.store().stored_slots();
      if (shuffle)
        for (std::size_t i = slots.size(); i > 1; --i) std::swap(slots[i - 1], slots[call.ring().random.below(i)]);
      {
        // The number of rows is only known inside the guard, where no Python code may run, since it could call this
        // buffer again. Allocating arrays can run Python code only through the garbage collector.
        const CollectorOff until_allocated;
        batch.emplace(call.ring().fields, static_cast<npy_intp>(slots.size()));
      }
      const std::size_t rows = call.store().read_stored(slots, batch->places(), waiting);
      if (rows != slots.size()) batch->shorten(static_cast<npy_intp>(rows));
    }
    return finished(self, *batch, &slots);
  });
}

PyObject* ring_clear(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] {
    CallGuard call(self);
    {
      PythonWaiting waiting(call);
      LearnerGuard guard(call.store(), waiting);
      call.store().clear();
    }
    clear_streams(self);  // after the guard is released: a thread that holds a stream's window may wait for it
    Py_RETURN_NONE;
  });
}

PyObject* ring_on_episode_end(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] {
    end_episodes(self);
    Py_RETURN_NONE;
  });
}

PyObject* ring_is_nstep(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] { return PyBool_FromLong(ring_of(self).streams.nstep != nullptr); });
}

PyObject* ring_get_pending(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] { return pending_steps(ring_of(self)); });
}

PyObject* ring_get_current_episode_len(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] {
    notice_fork(ring_of(self));
    return PyLong_FromUnsignedLongLong(ring_of(self).streams.episode_rows);
  });
}

PyObject* ring_get_stored_size(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] { return PyLong_FromUnsignedLongLong(CallGuard(self).store().stored()); });
}

PyObject* ring_get_buffer_size(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] { return PyLong_FromUnsignedLongLong(CallGuard(self).store().capacity()); });
}

PyObject* ring_get_next_index(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] { return PyLong_FromUnsignedLongLong(CallGuard(self).store().next_slot()); });
}

PyObject* ring_close(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] {
    Ring& ring = ring_of(self);
    ring.close_wanted = true;
    ring.recent.clear();
    ring.forget_users_of_other_threads();
    if (ring.users == 0) ring.release_store();  // otherwise the last user releases it
    Py_RETURN_NONE;
  });
}

PyObject* ring_segment(PyObject* self, void*) {
  return guarded<PyObject*>(nullptr, [&] { return PyUnicode_FromString(CallGuard(self).store().name().c_str()); });
}

PyObject* ring_n_envs(PyObject* self, void*) {
  return guarded<PyObject*>(nullptr, [&] { return PyLong_FromSize_t(ring_of(self).environments); });
}

PyObject* ring_nbytes(PyObject* self, void*) {
  return guarded<PyObject*>(nullptr, [&] {
    CallGuard call(self);
    const Sequences* sequences = call.ring().streams.sequences.get();
    return PyLong_FromSize_t(call.store().bytes() + (sequences != nullptr ? sequences->bytes() : 0));
  });
}

// The first line of each docstring is the signature that inspect.signature reads; types are in _native.pyi.
PyMethodDef ring_methods[] = {
    {"add", RB_SLOWED(add, ring_add), METH_FASTCALL | METH_KEYWORDS,
     "add($self, /, **transition)\n--\n\n"
     "Store one transition, or many. Each field is an array_like of shape (*shape) or (rows, *shape). Flat values and\n"
     "values with additional leading axes are split into rows, whose axes must be in order. Returns the index of the\n"
     "first row, int; if other processes also add, the other rows need not follow it. With N-step transitions,\n"
     "returns the index of the first one completed, or None.\n"
     "Raises KeyError if a field is missing; ValueError, TypeError or OverflowError naming the field that does not "
     "fit.\n"
     "The buffer is then unchanged. A UserWarning, once per field, reports that the field's dtype changes numbers by\n"
     "more than rounding: fractions or imaginary parts are dropped, finite numbers become infinite, or numbers other\n"
     "than 0 and 1 become True. Other names are ignored: the first time, a UserWarning names them.\n\n"
     "With n_envs, env_ids names the environments whose rows are passed: their numbers (rows,), or a mask (n_envs,)\n"
     "of bools; with a mask, the fields may also hold a row of every environment, of which the selected rows are\n"
     "added. An environment's steps must be added in order. Raises TypeError, ValueError or IndexError for invalid\n"
     "env_ids."},
    {"_add_rows", method(ring_add_rows), METH_FASTCALL | METH_KEYWORDS,
     "_add_rows($self, /, **rows)\n--\n\n"
     "Store transitions as they are: do not form N-step transitions, and skip features written in Python."},
    {"_add_of", method(ring_add_of), METH_FASTCALL | METH_KEYWORDS,
     "_add_of($self, env_ids, /, **transition)\n--\n\n"
     "Like `add`, for rows of the environments env_ids (rows,), which need not be all environments."},
    {"sample", RB_SLOWED(sample, ring_sample), METH_FASTCALL | METH_KEYWORDS,
     "sample($self, /, batch_size, out=None)\n--\n\n"
     "Return transitions drawn uniformly, with replacement: a dict of arrays (batch_size, *shape). The arrays are\n"
     "new, unless `out` is given: a dict with one array per field, of the field's dtype and in C order, which is\n"
     "filled and returned. Raises ValueError if the buffer is empty or an array of `out` does not fit, KeyError if\n"
     "`out` lacks a field, RuntimeError if other processes overwrite a shared buffer faster than rows can be read."},
    {"sample_indexes", ring_sample_indexes, METH_O,
     "sample_indexes($self, batch_size, /)\n--\n\n"
     "Return the indexes of transitions drawn as in `sample`, int64 (batch_size,), to pass to `get`. Raises\n"
     "ValueError if the buffer is empty, TypeError for a shared buffer."},
    {"get", ring_gather, METH_O,
     "get($self, indexes, /)\n--\n\n"
     "Return the transitions at `indexes` (n,): a dict of new arrays (n, *shape). Negative indexes count from\n"
     "the ring's end. Raises IndexError if no transition is stored at an index, TypeError for a mask of bools."},
    {"get_all_transitions", method(ring_get_all_transitions), METH_VARARGS | METH_KEYWORDS,
     "get_all_transitions($self, /, shuffle=False)\n--\n\n"
     "Return all stored transitions: a dict of new arrays (stored size, *shape), in index order, or in random\n"
     "order if `shuffle` is true."},
    {"clear", ring_clear, METH_NOARGS,
     "clear($self, /)\n--\n\nRemove every transition, including pending N-step ones."},
    {"on_episode_end", ring_on_episode_end, METH_NOARGS,
     "on_episode_end($self, /)\n--\n\n"
     "End the episode: pending N-step transitions are completed with the available steps."},
    {"is_Nstep", ring_is_nstep, METH_NOARGS, "is_Nstep($self, /)\n--\n\nReturn whether N-step transitions are stored."},
    {"_get_pending", ring_get_pending, METH_NOARGS,
     "_get_pending($self, /)\n--\n\n"
     "Return the steps of incomplete N-step transitions: a dict of new arrays (steps, *shape), with \"priorities\"\n"
     "(NaN where none was given) if prioritized, and with \"env_ids\" unless the steps cycle through all\n"
     "environments. Rewards have the dtype in which they are summed. The dict is empty without N-step\n"
     "transitions."},
    {"get_current_episode_len", ring_get_current_episode_len, METH_NOARGS,
     "get_current_episode_len($self, /)\n--\n\n"
     "Return the number of transitions that this process has added since the last end of an episode."},
    {"get_stored_size", ring_get_stored_size, METH_NOARGS,
     "get_stored_size($self, /)\n--\n\nReturn the number of stored transitions."},
    {"get_buffer_size", ring_get_buffer_size, METH_NOARGS,
     "get_buffer_size($self, /)\n--\n\nReturn the capacity in transitions."},
    {"get_next_index", ring_get_next_index, METH_NOARGS,
     "get_next_index($self, /)\n--\n\nReturn the index that the next transition will get."},
    {"close", ring_close, METH_NOARGS,
     "close($self, /)\n--\n\n"
     "Release the memory; the creator of a shared segment also removes its name. Any later use raises ValueError.\n"
     "Garbage collection closes a buffer as well."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef ring_properties[] = {
    {"segment", ring_segment, nullptr, "str: the shared segment's name; empty when not shared", nullptr},
    {"n_envs", ring_n_envs, nullptr, "int: the number of environments whose steps are added together", nullptr},
    {"nbytes", ring_nbytes, nullptr,
     "int: bytes of memory reserved for rows and priorities, plus those in use for frames that are stored once; files "
     "do "
     "not count",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

}  // namespace

PyTypeObject RingType = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "cpprb_impl._native.Ring";
  type.tp_doc =
      "Ring(layout, *, seed=None, segment=None, description='', add_through_python=False,\n"
      "batch_through_python=False)\n--\n\nThe native ring of transitions; see "
      "cpprb_impl.ReplayBuffer.";
  type.tp_basicsize = sizeof(RingObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  type.tp_traverse = ring_traverse;
  type.tp_clear = ring_clear_references;
  type.tp_new = PyType_GenericNew;
  type.tp_init = construct;
  type.tp_dealloc = ring_dealloc;
  type.tp_methods = ring_methods;
  type.tp_getset = ring_properties;
  return type;
}();

int prepare_types(PyObject* module) {
  if (pthread_atfork(nullptr, nullptr, count_fork) != 0) {
    PyErr_NoMemory();
    return -1;
  }
  PrioritizedRingType.tp_base = &RingType;
  for (auto* type : {&RingType, &PrioritizedRingType})
    if (PyType_Ready(type) < 0 || PyModule_AddType(module, type) < 0) return -1;
  for (const auto add : {add_state_methods, add_order_methods, add_sequence_methods, add_link_methods})
    if (add(RingType) < 0) return -1;
  return 0;
}

}  // namespace rb
