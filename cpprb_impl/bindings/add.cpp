// add(): read everything, then claim, then copy. A call that fails has changed nothing.
#include <algorithm>

#include "ring.hpp"

namespace rb {
namespace {

void copy_rows(Ring& ring, Store& store, const std::vector<Source>& sources, std::uint64_t first, npy_intp skip,
               npy_intp rows) {
  const auto& places = ring.layout.fields();
  std::uint64_t slot = (first + static_cast<std::uint64_t>(skip)) % store.capacity();
  for (npy_intp i = skip; i < rows; ++i) {
    char* row = store.row_in_slot(slot);
    for (std::size_t f = 0; f < places.size(); ++f)
      copy_field(row + places[f].offset, sources[f].data + static_cast<std::size_t>(i) * places[f].bytes,
                 places[f].bytes);
    if (++slot == store.capacity()) slot = 0;
  }
}

}  // namespace

PyObject* add_rows(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  Ring& ring = ring_of(self);
  if (nargs != 0) raise(PyExc_TypeError, "add() takes the fields of a transition by keyword only");

  PyObject* small[16];
  std::vector<PyObject*> large;
  PyObject** values = small;
  if (ring.fields.size() > std::size(small)) {
    large.resize(ring.fields.size());
    values = large.data();
  }
  PyObject* priorities = nullptr;
  const std::vector<int>& meaning = ring.keywords.meaning(names, ring.fields);
  for (std::size_t i = 0; i < meaning.size(); ++i) {
    if (meaning[i] >= 0) values[meaning[i]] = args[i];
    if (meaning[i] == Keywords::kPriorities && args[i] != Py_None) priorities = args[i];
  }

  // Taken out for the time of the call: a value's __array__ may call add() of this very buffer.
  struct Lent {
    std::vector<Source>& home;
    std::vector<Source> sources;
    explicit Lent(std::vector<Source>& from) : home(from), sources(std::move(from)) {}
    ~Lent() {
      for (auto& source : sources) source.owner = Ref();
      home = std::move(sources);
    }
  } lent(ring.sources);
  // Priorities first: converting them may run Python code, and after read_sources none may run.
  double largest = 0;
  std::vector<float> leaves;
  if (priorities != nullptr) leaves = ring.read_leaves(priorities, largest);
  const npy_intp rows = read_sources(ring.fields, values, lent.sources);
  if (priorities != nullptr && static_cast<npy_intp>(leaves.size()) != rows)
    raise(PyExc_ValueError, "priorities: %zu values for %zd rows", leaves.size(), rows);

  Use use(self);
  Store& store = use.store();
  const bool prioritized = Py_TYPE(self) == &PrioritizedRingType || PyObject_TypeCheck(self, &PrioritizedRingType);
  if (prioritized && leaves.empty()) {
    if (const double max = store.max_priority(); max != ring.known_max) {
      ring.known_max = max;
      ring.leaf_of_max = ring.leaf(max);
    }
  }
  // Of more rows than the ring holds only the last ones would survive.
  const npy_intp skip = std::max<npy_intp>(0, rows - static_cast<npy_intp>(store.capacity()));
  std::uint64_t first;
  {
    PythonWaiting waiting(ring.signalled);
    ExplorerTurn turn(store, use.seat(), static_cast<std::uint64_t>(rows), waiting);
    first = turn.first();
    copy_rows(ring, store, lent.sources, first, skip, rows);
    if (prioritized) {
      store.raise_max_priority(largest);
      float* leaf = store.tree().leaves();
      for (npy_intp i = skip; i < rows; ++i)
        leaf[(first + static_cast<std::uint64_t>(i)) % store.capacity()] =
            leaves.empty() ? ring.leaf_of_max : leaves[static_cast<std::size_t>(i)];
    }
  }
  ring.episode_rows += static_cast<std::uint64_t>(rows);
  return PyLong_FromUnsignedLongLong(first % store.capacity());
}

}  // namespace rb
