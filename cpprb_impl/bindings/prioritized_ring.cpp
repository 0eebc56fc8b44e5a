// The type PrioritizedRing: proportional sampling with importance weights (Schaul et al. 2015).
#include <cmath>

#include "ring.hpp"

namespace rb {
namespace {

// (leaf / smallest)^-beta; in double only where the ratio is beyond float.
float weight(float leaf, float smallest, double beta) {
  const float ratio = leaf / smallest;
  if (std::isfinite(ratio)) [[likely]]
    return std::pow(ratio, static_cast<float>(-beta));
  return static_cast<float>(std::pow(static_cast<double>(leaf) / static_cast<double>(smallest), -beta));
}

PyObject* prioritized_sample(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  return guarded<PyObject*>(nullptr, [&] {
    PyObject* given[2];
    sort_arguments("sample", args, nargs, names, {"batch_size", "beta"}, given);
    const npy_intp rows = batch_size(given[0]);
    const double beta = given[1] != nullptr ? PyFloat_AsDouble(given[1]) : 0.4;
    if (PyErr_Occurred()) throw PythonError();
    if (!(beta >= 0) || !std::isfinite(beta))
      raise(PyExc_ValueError, "beta must be finite and not negative, but is %R",
            Ref(checked(PyFloat_FromDouble(beta))).get());
    Use use(self);
    Ring& ring = use.ring();
    Store& store = use.store();
    Batch batch(ring.fields, rows);
    auto* weights = static_cast<float*>(batch.add_column("weights", NPY_FLOAT32));
    auto* indexes = static_cast<npy_int64*>(batch.add_column("indexes", NPY_INT64));
    bool empty, drawable = false;
    {
      PythonWaiting waiting(ring.signalled);
      LearnerTurn turn(store, waiting);
      ring.slots.resize(static_cast<std::size_t>(rows));  // only now: see ring_sample
      store.bring_tree_up_to_date();
      empty = store.stored() == 0;
      drawable = store.tree().total() > 0;
      if (!empty && drawable) {
        store.tree().draw(ring.random, ring.slots.size(), ring.slots.data());
        batch.fill(store, ring.layout, ring.slots.data(), ring.slots.size());
        // w_i = (N P(i))^-beta / max_j w_j = (p_i / min_j p_j)^-beta: N and the total cancel out.
        const float smallest = store.tree().minimum();
        for (npy_intp i = 0; i < rows; ++i) {
          const std::size_t slot = ring.slots[static_cast<std::size_t>(i)];
          indexes[i] = static_cast<npy_int64>(slot);
          weights[i] = weight(store.tree().leaves()[slot], smallest, beta);
        }
        ring.sampled_at = store.head();
      }
    }
    if (empty) raise(PyExc_ValueError, "can't sample from an empty buffer");
    if (!drawable) raise(PyExc_ValueError, "can't sample: every stored priority is 0");
    return finished(self, batch);
  });
}

PyObject* prioritized_update(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  return guarded<PyObject*>(nullptr, [&] {
    PyObject* given[2];
    sort_arguments("update_priorities", args, nargs, names, {"indexes", "priorities"}, given);
    if (given[0] == nullptr || given[1] == nullptr)
      raise(PyExc_TypeError, "update_priorities() needs indexes and priorities");
    // Copied, because converting the priorities may run Python code that changes the caller's arrays.
    const std::vector<npy_int64> index = read_indexes(given[0]);
    double largest = 0;
    const std::vector<float> all = ring_of(self).read_leaves(given[1], largest);
    if (index.size() != all.size())
      raise(PyExc_ValueError, "priorities: %zu values for %zu indexes", all.size(), index.size());
    const auto count = static_cast<npy_intp>(index.size());

    Use use(self);
    Ring& ring = use.ring();
    Store& store = use.store();
    std::vector<std::size_t> slots;
    std::vector<float> leaves;
    slots.reserve(all.size());
    leaves.reserve(all.size());
    npy_intp missing = -1;
    {
      PythonWaiting waiting(ring.signalled);
      LearnerTurn turn(store, waiting);
      for (npy_intp i = 0; i < count && missing < 0; ++i) {
        const auto slot = static_cast<std::uint64_t>(index[static_cast<std::size_t>(i)]);
        if (slot >= store.capacity()) {
          missing = i;
        } else if (!store.holds(slot)) {
          // Another process may have cleared it since; on one's own it is a mistake.
          if (store.name().empty()) missing = i;
        } else if (!ring.check_for_update || store.row_of(slot) < ring.sampled_at) {
          slots.push_back(slot);
          leaves.push_back(all[static_cast<std::size_t>(i)]);
        }
      }
      if (missing < 0) {
        if (!slots.empty()) store.raise_max_priority(largest);
        store.set_leaves(slots, leaves);
      }
    }
    if (missing >= 0)
      raise(PyExc_IndexError, "indexes[%zd] is %lld, where no transition is stored", missing,
            static_cast<long long>(index[static_cast<std::size_t>(missing)]));
    Py_RETURN_NONE;
  });
}

PyObject* prioritized_max(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] { return PyFloat_FromDouble(Use(self).store().max_priority()); });
}

PyMethodDef prioritized_methods[] = {
    {"sample", method(prioritized_sample), METH_FASTCALL | METH_KEYWORDS,
     "sample(batch_size, beta=0.4) -> dict of fresh arrays (batch_size, *shape)\n\n"
     "Stratified proportional sampling with P(i) = (p_i + eps)^alpha / sum. Adds \"weights\", float32\n"
     "(batch_size,), (N P(i))^-beta divided by the largest of any stored transition, and \"indexes\", int64\n"
     "(batch_size,). Raises ValueError when the buffer is empty. Schaul et al. 2015, equations 1 and 2."},
    {"update_priorities", method(prioritized_update), METH_FASTCALL | METH_KEYWORDS,
     "update_priorities(indexes, priorities)\n\nRaises ValueError for a priority that is NaN, infinite or\n"
     "negative or for different lengths, IndexError for an index without a transition; nothing is then changed."},
    {"get_max_priority", prioritized_max, METH_NOARGS,
     "get_max_priority() -> float\n\nThe largest raw priority since the last clear(), at least 1; what add()\n"
     "without priorities gives."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

float Ring::leaf(double priority) const {
  return std::pow(static_cast<float>(priority + eps), static_cast<float>(alpha));
}

std::vector<float> Ring::read_leaves(PyObject* priorities, double& largest) const {
  const Ref array = as_doubles(priorities, "priorities");
  const auto* value = static_cast<const double*>(PyArray_DATA(array.array()));
  std::vector<float> leaves(static_cast<std::size_t>(PyArray_SIZE(array.array())));
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    leaves[i] = leaf(value[i]);
    if (!(value[i] >= 0) || !std::isfinite(value[i]) || !std::isfinite(leaves[i])) {
      Ref text(checked(PyFloat_FromDouble(value[i])));
      raise(PyExc_ValueError, "priorities[%zu] is %R: a priority must be finite and not negative", i, text.get());
    }
    largest = std::max(largest, value[i]);
  }
  return leaves;
}

PyTypeObject PrioritizedRingType = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "cpprb_impl._native.PrioritizedRing";
  type.tp_doc = "The native ring with priorities; see cpprb_impl.PrioritizedReplayBuffer.";
  type.tp_basicsize = sizeof(RingObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  type.tp_methods = prioritized_methods;
  return type;
}();

}  // namespace rb
