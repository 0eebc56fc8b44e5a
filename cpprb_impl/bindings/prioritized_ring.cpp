// The type PrioritizedRing: proportional sampling with importance weights (Schaul et al. 2015).
#include <algorithm>
#include <cmath>
#include <limits>

#include "../core/base/powers.hpp"
#include "../core/shared/shared_store.hpp"
#include "ring.hpp"
#include "slowed.hpp"

namespace rb {
namespace {

// Draws rows by priority into the batch.
void draw(CallGuard& call, Drawn& drawn, Batch& batch, npy_intp rows) {
  Ring& ring = call.ring();
  drawn.slots.resize(static_cast<std::size_t>(rows));
  Found found;
  {
    PythonWaiting waiting(call);
    LearnerGuard guard(call.store(), waiting);
    found = ring.sampler->sample(ring.random, drawn, batch.places(), waiting);
  }
  if (found == Found::nothing) raise(PyExc_ValueError, "cannot sample from an empty buffer");
  if (found == Found::no_mass) raise(PyExc_ValueError, "cannot sample: every stored priority is 0");
}

[[noreturn, gnu::cold]] void refuse_rows(const char* method) {
  raise(PyExc_TypeError,
        "%s() is not supported by a prioritized buffer with sequences, whose priorities belong to sequences: call "
        "sample_sequences()",
        method);
}

PyObject* prioritized_sample(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  return guarded<PyObject*>(nullptr, [&] {
    static const std::vector<ExtraColumn> extra = {{PyUnicode_InternFromString("weights"), NPY_FLOAT32},
                                                   {PyUnicode_InternFromString("indexes"), NPY_INT64}};
    PyObject* given[3];
    sort_arguments("sample", args, nargs, names, {"batch_size", "beta", "out"}, given);
    const npy_intp rows = batch_size(given[0]);
    const double beta = beta_of(given[1]);
    CallGuard call(self);
    Ring& ring = call.ring();
    if (ring.streams.sequences) [[unlikely]]
      refuse_rows("sample");
    Batch batch(ring.fields, rows, extra, for_batch(ring, given[2]), recent_batches(ring));
    auto* weights = static_cast<float*>(batch.extra(0));
    auto* indexes = static_cast<npy_int64*>(batch.extra(1));
    Borrowed<Drawn> drawn(ring.drawn);
    draw(call, *drawn, batch, rows);
    std::copy(drawn->slots.begin(), drawn->slots.end(), indexes);
    importance_weights(*drawn, beta, ring.priorities, call.store(), weights);
    if (drawn->sample != 0) batch.is_sample(drawn->sample, 1, ring.recent);
    return finished(self, batch, &drawn->slots);
  });
}

// The store of a shared ring, whose rows have numbers that never repeat.
SharedStore& numbered_store(CallGuard& call, const char* method) {
  auto* store = dynamic_cast<SharedStore*>(&call.store());
  if (store == nullptr) raise(PyExc_TypeError, "%s() requires a shared buffer", method);
  return *store;
}

PyObject* prioritized_draw(PyObject* self, PyObject* size) {
  return guarded<PyObject*>(nullptr, [&] {
    static const std::vector<ExtraColumn> extra = {{PyUnicode_InternFromString("leaves"), NPY_FLOAT32},
                                                   {PyUnicode_InternFromString("rows"), NPY_INT64}};
    const npy_intp rows = batch_size(size);
    CallGuard call(self);
    numbered_store(call, "_draw");
    Ring& ring = call.ring();
    if (ring.streams.sequences) refuse_rows("_draw");
    Batch batch(ring.fields, rows, extra, nullptr, recent_batches(ring));
    Borrowed<Drawn> drawn(ring.drawn);
    draw(call, *drawn, batch, rows);
    std::copy(drawn->leaves.begin(), drawn->leaves.end(), static_cast<float*>(batch.extra(0)));
    std::copy(drawn->rows.begin(), drawn->rows.end(), static_cast<npy_int64*>(batch.extra(1)));
    const double total = drawn->total, smallest = drawn->smallest;
    return Py_BuildValue("(Ndd)", finished(self, batch), total, smallest);
  });
}

enum class By { index, row };

template <By by>
PyObject* prioritized_update(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  return guarded<PyObject*>(nullptr, [&] {
    PyObject* given[2];
    const char* method = by == By::index ? "update_priorities" : "_update_rows";
    const char* which = by == By::index ? "indexes" : "rows";
    sort_arguments(method, args, nargs, names, {which, "priorities"}, given);
    if (given[0] == nullptr || given[1] == nullptr)
      raise(PyExc_TypeError, "%s() needs %s and priorities", method, which);
    const Ref indexes = as_indexes(given[0]);
    Numbers priorities(given[1], "priorities");
    CallGuard call(self);
    Ring& ring = call.ring();
    Sequences* const sequences = ring.streams.sequences.get();
    std::vector<float> magnitudes;  // of the errors, for the other sequences that contain these steps
    Store& store = call.store();
    SharedStore* numbered = by == By::row ? &numbered_store(call, method) : nullptr;
    if (sequences != nullptr) [[unlikely]]
      priorities = by == By::row
                       ? priorities_of_rows(ring, indexes, std::move(priorities))
                       : sequence_priorities(ring, indexes, std::move(priorities),
                                             ring.recent.sample_in(PyArray_BYTES(indexes.array())), magnitudes);
    npy_intp count, values;
    bool changed;
    std::size_t bad = kAllGood, missing = kAllGood;
    const npy_int64* index;
    Borrowed<Drawn> drawn(ring.drawn);
    {
      PythonWaiting waiting(call);
      LearnerGuard guard(store, waiting);
      // The caller's arrays are read only now, after the last point at which Python code could run.
      changed = priorities.changed() || !has_plain_numbers(indexes, NPY_INT64);
      count = changed ? 0 : PyArray_SIZE(indexes.array());
      values = changed ? 0 : priorities.is_scalar() ? count : priorities.size();
      index = static_cast<const npy_int64*>(PyArray_DATA(indexes.array()));
      double largest = 0;
      if (values != count) count = 0;
      drawn->leaves.resize(static_cast<std::size_t>(count));
      if (count != 0) bad = ring.leaves_of(priorities, drawn->leaves.data(), largest);
      if (count != 0 && bad == kAllGood) {
        if (priorities.is_scalar()) std::fill(drawn->leaves.begin() + 1, drawn->leaves.end(), drawn->leaves[0]);
        if (numbered != nullptr) {
          missing = numbered->update_rows(index, drawn->leaves.size(), drawn->leaves.data(), largest);
        } else {
          const std::uint64_t sample = ring.recent.sample_in(PyArray_BYTES(indexes.array()));
          if (sequences != nullptr && sequences->own) [[unlikely]]
            for (std::size_t i = 0; i < drawn->leaves.size(); ++i)
              if (const auto slot = static_cast<std::uint64_t>(index[i]);
                  store.holds(slot) && !sequences->own->sampler.is_end(slot))
                drawn->leaves[i] = store.leaf(slot);  // its sequence was overwritten
          missing = store.update(index, drawn->leaves.size(), drawn->leaves.data(), largest, sample);
          if (missing == kAllGood && !magnitudes.empty()) [[unlikely]]
            update_overlapping(ring, index, magnitudes, sample);
        }
        if (missing == kAllGood) ring.let_max_priority_fall();
      }
    }
    if (changed) raise(PyExc_ValueError, "indexes or priorities: the array was changed while it was being read");
    if (values != count)
      raise(PyExc_ValueError, "priorities must have one value per index, got %zd values for %zd indexes", values,
            PyArray_SIZE(indexes.array()));
    if (bad != kAllGood) raise_bad_priority(priorities, bad);
    if (missing < kAllLate)
      raise(PyExc_IndexError, "indexes[%zu] is %lld, where no transition is stored", missing,
            static_cast<long long>(index[missing]));
    Py_RETURN_NONE;
  });
}

PyObject* prioritized_max(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] { return PyFloat_FromDouble(CallGuard(self).store().max_priority()); });
}

PyMethodDef prioritized_methods[] = {
    {"sample", RB_SLOWED(sample, prioritized_sample), METH_FASTCALL | METH_KEYWORDS,
     "sample($self, /, batch_size, beta=0.4, out=None)\n--\n\n"
     "Return transitions drawn by priority, stratified, with P(i) = (p_i + eps)^alpha / sum: a dict of arrays\n"
     "(batch_size, *shape). It also contains \"weights\", float32, and \"indexes\", int64, both (batch_size,).\n"
     "A weight is (N P(i))^-beta, divided by the largest weight of any stored transition, or as the constructor's\n"
     "`normalize` specifies. The arrays are new, or those of the dict `out`: see ReplayBuffer.sample.\n"
     "Raises the same exceptions as ReplayBuffer.sample. Schaul et al. 2015, equations 1 and 2."},
    {"_draw", prioritized_draw, METH_O,
     "_draw($self, batch_size, /)\n--\n\n"
     "Return what `sample` draws from a shared buffer, with the rows' leaves and numbers instead of weights and\n"
     "indexes, the sum of all leaves, and the smallest leaf: a tuple of a dict and two floats."},
    {"_draw_sequences", draw_sequences, METH_O,
     "_draw_sequences($self, batch_size, /)\n--\n\n"
     "Return what `sample_sequences` draws from a shared buffer, with the leaves and the numbers of their last steps\n"
     "instead of weights and indexes, the sum of all leaves, the smallest leaf, and the number of sequences, or -1\n"
     "unless `normalize` is None: a tuple of a dict, two floats and an int."},
    {"_update_rows", RB_SLOWED(update, prioritized_update<By::row>), METH_FASTCALL | METH_KEYWORDS,
     "_update_rows($self, /, rows, priorities)\n--\n\n"
     "Like `update_priorities`, for the transitions with these numbers in a shared buffer. Skips those that are no\n"
     "longer stored."},
    {"sample_sequences", RB_SLOWED(sample, sample_prioritized_sequences), METH_FASTCALL | METH_KEYWORDS,
     "sample_sequences($self, /, batch_size, beta=0.4, time_major=False, out=None, frames='stacks')\n--\n\n"
     "Return sequences of consecutive steps, drawn by priority, as `ReplayBuffer.sample_sequences` returns them, with\n"
     "\"weights\", float32, and \"indexes\", int64, both (batch_size,): the importance weights, as in `sample`, over "
     "the\n"
     "sequences that can be drawn, and the indexes of their last steps, for `update_priorities`."},
    {"update_priorities", RB_SLOWED(update, prioritized_update<By::index>), METH_FASTCALL | METH_KEYWORDS,
     "update_priorities($self, /, indexes, priorities)\n--\n\n"
     "Set the raw priorities of the transitions at `indexes` (n,); a scalar priority applies to all of them. Indexes "
     "may\n"
     "have any integer type, or be floats with whole values. Raises ValueError if a priority is NaN, infinite or\n"
     "negative, if values are text or masked, if lengths differ, or if an index is not a whole number; TypeError if\n"
     "other values are not numbers; IndexError if there is no transition at an index. Nothing is changed then. In a\n"
     "shared buffer, a transition that was overwritten meanwhile is skipped; there, IndexError is only raised for an\n"
     "index beyond the capacity."},
    {"get_max_priority", prioritized_max, METH_NOARGS,
     "get_max_priority($self, /)\n--\n\n"
     "Return the largest raw priority of any stored transition, but at least 1 (float). Transitions added without a\n"
     "priority get this value. It rises immediately, and falls only in update_priorities()."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

float Ring::leaf_of_max_priority() {
  if (const double max = store->max_priority(); max != known_max) {
    known_max = max;
    leaf_of_max = priorities.leaf(max);
  }
  return leaf_of_max;
}

void Ring::let_max_priority_fall() {
  constexpr double kFirst = 1.0;      // the initial value
  constexpr float kSame = 1 - 1e-4f;  // tolerance for the rounding of leaves
  const double known = store->max_priority();
  if (known <= kFirst || priorities.alpha == 0) return;
  const float largest = store->largest_leaf();
  if (largest >= kSame * priorities.leaf(known)) return;
  const auto priority = [&](float leaf) {
    return std::max(kFirst, std::pow(static_cast<double>(leaf), 1 / priorities.alpha) - priorities.eps);
  };
  store->lower_max_priority(known, priority(largest));
  // An explorer that added a large priority meanwhile found the old maximum large enough and did not raise it.
  if (const float now = store->largest_leaf(); now > largest) store->raise_max_priority(priority(now));
}

std::size_t Ring::leaves_of(const Numbers& given, float* leaves, double& largest) const {
  const auto count = static_cast<std::size_t>(given.size());
  const double alpha = priorities.alpha, eps = priorities.eps;
  return given.read([&](const auto* value) {
    shifted_powers(value, count, eps, alpha, leaves);
    bool good = true;
    for (std::size_t i = 0; i < count; ++i) {
      good &= (value[i] >= 0) & (leaves[i] <= std::numeric_limits<float>::max());
      largest = std::max(largest, static_cast<double>(value[i]));
    }
    // With an alpha of 0, any number, even NaN, has the leaf 1, so the priorities are checked here.
    for (std::size_t i = 0; i < count; ++i)
      if ((!good || alpha == 0) && !(value[i] >= 0 && std::isfinite(value[i]) && std::isfinite(leaves[i]))) return i;
    return kAllGood;
  });
}

void raise_bad_priority(const Numbers& priorities, std::size_t place) {
  const double value = priorities.read([place](const auto* first) { return static_cast<double>(first[place]); });
  const Ref text(checked(PyFloat_FromDouble(value)));
  const char* must = value > 0 && std::isfinite(value) ? "small enough that (priority + eps)^alpha is a finite float"
                                                       : "finite and not negative";
  raise(PyExc_ValueError, "priorities[%zu] must be %s, got %R", place, must, text.get());
}

PyTypeObject PrioritizedRingType = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "cpprb_impl._native.PrioritizedRing";
  type.tp_doc =
      "PrioritizedRing(layout, *, seed=None, segment=None, description='', add_through_python=False,\n"
      "batch_through_python=False)\n--\n\nThe native ring with "
      "priorities; see cpprb_impl.PrioritizedReplayBuffer.";
  type.tp_basicsize = sizeof(RingObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  type.tp_methods = prioritized_methods;
  return type;
}();

}  // namespace rb
