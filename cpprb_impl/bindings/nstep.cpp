#include "nstep.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "ring.hpp"

namespace rb {
namespace {

// Computes the transitions that begin with the oldest `count` steps. Throws NstepWindow::TooLarge before a number
// becomes infinite in a field without an earlier warning.
void make_oldest(const Ring& ring, NstepWindow& window, std::size_t count) {
  window.transitions(count);
  for (const auto& each : window.too_large())
    if (!ring.change_warnings.has(ring.fields[each.column])) throw NstepWindow::TooLarge(each);
}

// Calls use(), which may throw NstepWindow::TooLarge before changing anything; in that case, warns and calls it again.
// A warning may run Python code, and so must not be issued during the call.
template <class Use>
auto with_warnings(Ring& ring, Use use) {
  while (true) {
    NstepWindow::TooLarge found{};
    try {
      return use();
    } catch (const NstepWindow::TooLarge& thrown) {
      found = thrown;
    }
    const Ref number(checked(PyFloat_FromDouble(found.number)));
    ring.change_warnings.warn(ring.fields[found.column], kBecomeInfinite, number.get());
  }
}

// Stores the transitions computed from the oldest `count` steps, and removes those steps. Returns the first
// transition's slot.
std::uint64_t store_oldest(Ring& ring, NstepWindow& window, std::size_t count, Waiting& waiting) {
  Nstep& nstep = *ring.streams.nstep;
  const char* const* data = window.made();
  NewRows rows{data, count, nullptr, 0, 0};
  if (ring.prioritized) {
    const auto* priority = reinterpret_cast<const double*>(data[ring.fields.size()]);
    const auto* leaf = reinterpret_cast<const float*>(data[ring.fields.size() + 1]);
    const float leaf_of_max = ring.leaf_of_max_priority();  // its value when the rows are stored
    nstep.leaves.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const bool given = !std::isnan(priority[i]);
      nstep.leaves[i] = given ? leaf[i] : leaf_of_max;
      if (given) rows.largest = std::max(rows.largest, priority[i]);
    }
    rows.leaves = nstep.leaves.data();
  }
  const std::uint64_t slot = ring.store->add(rows, waiting);
  window.drop(count);
  ring.streams.episode_rows += count;
  return slot;
}

// Sets the values of the steps that were read, by column of the window.
void set_values(const Ring& ring, Nstep& nstep, const AddScratch& in) {
  nstep.values.assign(ring.fields.size(), nullptr);
  for (std::size_t f = 0; f < nstep.fields.size(); ++f) nstep.values[nstep.columns[f]] = in.data[f];
  if (ring.prioritized) {
    nstep.values.push_back(reinterpret_cast<const char*>(in.priorities.data()));
    nstep.values.push_back(reinterpret_cast<const char*>(in.leaves.data()));
  }
}

void read_priorities(const Ring& ring, const Arguments& rows, AddScratch& in) {
  if (!ring.prioritized) return;
  in.priorities.assign(rows.count, std::numeric_limits<double>::quiet_NaN());
  in.leaves.resize(rows.count);
  if (rows.has_priorities)
    rows.priorities.read([&](const auto* first) { std::copy_n(first, rows.count, in.priorities.begin()); });
}

// Appends step `nth` of the steps at `values`, by column.
void append_one(NstepWindow& window, const std::vector<const char*>& values, std::size_t nth) {
  std::vector<const char*> value(values);
  for (std::size_t c = 0; c < value.size(); ++c)
    if (value[c] != nullptr) value[c] += nth * window.bytes(c);
  window.append(value.data(), 1);
}

// Appends each step to its environment's window, and stores the transitions that this completes. Returns the first
// transition's slot, or none. If storing fails, the steps of later environments are not appended.
std::optional<std::uint64_t> add_divided(Ring& ring, const std::vector<npy_int64>& environments, Waiting& waiting) {
  Nstep& nstep = *ring.streams.nstep;
  std::vector<std::size_t> added(ring.environments);
  for (std::size_t i = 0; i < environments.size(); ++i) {
    const auto environment = static_cast<std::size_t>(environments[i]);
    append_one(nstep.windows[environment], nstep.values, i);
    ++added[environment];
  }
  std::optional<std::uint64_t> first;
  std::size_t e = 0;
  try {
    for (auto& window : nstep.windows)
      if (window.complete() != 0) make_oldest(ring, window, window.complete());
    for (; e < ring.environments; ++e) {
      const std::size_t complete = nstep.windows[e].complete();
      if (complete == 0) continue;
      const std::uint64_t slot = store_oldest(ring, nstep.windows[e], complete, waiting);
      if (!first) first = slot;
    }
  } catch (...) {
    for (; e < ring.environments; ++e) nstep.windows[e].drop_newest(added[e]);
    throw;
  }
  return first;
}

PyObject* slot_or_none(std::optional<std::uint64_t> slot) {
  if (!slot) Py_RETURN_NONE;
  return PyLong_FromUnsignedLongLong(*slot);
}

}  // namespace

std::size_t Nstep::waiting() const {
  std::size_t steps = window.waiting();
  for (const auto& each : windows) steps += each.waiting();
  return steps;
}

void Nstep::clear() {
  window.clear();
  for (auto& each : windows) each.clear();
}

void Nstep::divide(std::size_t environments) {
  if (!windows.empty()) return;
  std::vector<NstepWindow> all;
  for (std::size_t e = 0; e < environments; ++e) all.push_back(window.of_one());
  std::vector<const char*> steps;
  for (std::size_t c = 0; c < window.columns(); ++c)
    steps.push_back(window.waiting() != 0 ? window.column(c) : nullptr);
  for (std::size_t i = 0; i < window.waiting(); ++i) append_one(all[i % environments], steps, i);
  windows = std::move(all);
  window.clear();
}

PyObject* waiting_steps(const Ring& ring) {
  const Nstep& nstep = *ring.streams.nstep;
  // Created first: allocating a dict, unlike an array, may run the garbage collector, and so code that adds steps.
  Ref steps(checked(PyDict_New()));
  const auto column = [&](std::size_t c, PyObject* name, PyArray_Descr* dtype, const std::vector<npy_intp>& shape) {
    npy_intp dims[33] = {static_cast<npy_intp>(nstep.waiting())};
    std::copy(shape.begin(), shape.end(), dims + 1);
    Py_INCREF(dtype);  // PyArray_NewFromDescr steals a reference
    const Ref array(checked(PyArray_NewFromDescr(&PyArray_Type, dtype, static_cast<int>(shape.size()) + 1, dims,
                                                 nullptr, nullptr, 0, nullptr)));
    char* to = PyArray_BYTES(array.array());
    const auto copy = [&](const NstepWindow& window) {
      if (window.waiting() != 0) to = std::copy_n(window.column(c), window.waiting() * window.bytes(c), to);
    };
    copy(nstep.window);
    for (const auto& each : nstep.windows) copy(each);
    if (PyDict_SetItem(steps.get(), name, array.get()) < 0) throw PythonError();
  };
  for (std::size_t f = 0; f < nstep.fields.size(); ++f)
    column(nstep.columns[f], nstep.fields[f].name.get(), nstep.fields[f].descr(), nstep.fields[f].shape);
  if (ring.prioritized) {
    const Ref name(checked(PyUnicode_FromString("priorities"))),
        dtype(reinterpret_cast<PyObject*>(PyArray_DescrFromType(NPY_DOUBLE)));
    column(ring.fields.size(), name.get(), reinterpret_cast<PyArray_Descr*>(dtype.get()), {});
  }
  if (nstep.windows.empty()) return steps.give();
  auto count = static_cast<npy_intp>(nstep.waiting());
  const Ref environments(checked(PyArray_SimpleNew(1, &count, NPY_INT64)));
  auto* to = static_cast<npy_int64*>(PyArray_DATA(environments.array()));
  for (std::size_t e = 0; e < nstep.windows.size(); ++e)
    to = std::fill_n(to, nstep.windows[e].waiting(), static_cast<npy_int64>(e));
  if (PyDict_SetItemString(steps.get(), "env_ids", environments.get()) < 0) throw PythonError();
  return steps.give();
}

PyObject* add_steps(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                    const std::vector<npy_int64>* environments) {
  Ring& ring = ring_of(self);
  Nstep& nstep = *ring.streams.nstep;
  BorrowedAddScratch in(ring.add_scratch);
  const std::size_t in_turn = environments == nullptr ? ring.environments : 1;
  const Arguments rows = read_rows(ring, nstep.fields, nstep.keywords, args, nargs, names, in_turn, *in);
  if (environments != nullptr) check_environments(ring, *environments, rows.count);
  look_at_order(ring, *in, rows.count, environments);
  read_priorities(ring, rows, *in);
  return with_warnings(ring, [&] {
    CallGuard call(self);
    check_files(ring);
    PythonWaiting waiting(call);
    const OneCall guard(nstep.taken, waiting);
    set_values(ring, nstep, *in);
    if (environments != nullptr) nstep.divide(ring.environments);
    std::optional<std::uint64_t> slot;
    if (environments != nullptr) {
      slot = add_divided(ring, *environments, waiting);
    } else if (!nstep.windows.empty()) {
      std::vector<npy_int64> all(rows.count);
      for (std::size_t i = 0; i < rows.count; ++i) all[i] = static_cast<npy_int64>(i % ring.environments);
      slot = add_divided(ring, all, waiting);
    } else {
      nstep.window.append(nstep.values.data(), rows.count);
      const std::size_t complete = nstep.window.complete();
      try {
        if (complete != 0) {
          make_oldest(ring, nstep.window, complete);
          slot = store_oldest(ring, nstep.window, complete, waiting);
        }
      } catch (...) {
        nstep.window.drop_newest(rows.count);
        throw;
      }
    }
    keep_order(ring);
    return slot_or_none(slot);
  });
}

void flush_steps(PyObject* self) {
  if (ring_of(self).streams.nstep->waiting() == 0) return;
  with_warnings(ring_of(self), [self] {
    CallGuard call(self);
    Ring& ring = call.ring();
    check_files(ring);
    PythonWaiting waiting(call);
    const OneCall guard(ring.streams.nstep->taken, waiting);
    const auto each = [&ring](auto use) {
      if (ring.streams.nstep->window.waiting() != 0) use(ring.streams.nstep->window);
      for (auto& window : ring.streams.nstep->windows)
        if (window.waiting() != 0) use(window);
    };
    each([&](NstepWindow& window) { make_oldest(ring, window, window.waiting()); });
    each([&](NstepWindow& window) { store_oldest(ring, window, window.waiting(), waiting); });
  });
}

}  // namespace rb
