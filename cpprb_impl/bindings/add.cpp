// add(): read everything, then claim, then copy. A call that fails has changed nothing.
#include <algorithm>

#include "ring.hpp"

namespace rb {

PyObject* add_rows(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  Ring& ring = ring_of(self);
  if (nargs != 0) raise(PyExc_TypeError, "add() takes the fields of a transition by keyword only");
  if (ring.fields.empty()) raise(PyExc_KeyError, "the buffer has no fields: env_dict names none");

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
    Incoming& home;
    Incoming incoming;
    explicit Lent(Incoming& from) : home(from), incoming(std::move(from)) {}
    ~Lent() {
      for (auto& source : incoming.sources) source.let_go();
      home = std::move(incoming);
    }
  } lent(ring.incoming);
  Incoming& in = lent.incoming;
  // Priorities first: converting them may run Python code, and after read_sources none may run.
  const bool given = priorities != nullptr;
  const Numbers numbers = given ? Numbers(priorities, "priorities") : Numbers();
  const npy_intp rows = read_sources(ring.fields, values, in.sources);
  const auto count = static_cast<std::size_t>(rows);
  double largest = 0;
  if (given) {
    if (numbers.changed()) raise(PyExc_ValueError, "priorities: the array was changed while a field was converted");
    if (numbers.size() != rows) raise(PyExc_ValueError, "priorities: %zd values for %zd rows", numbers.size(), rows);
    in.leaves.resize(count);
    if (const auto bad = ring.leaves_of(numbers, in.leaves.data(), largest); bad != kAllGood)
      raise_bad_priority(numbers, bad);
  }
  in.data.clear();
  for (const auto& source : in.sources) in.data.push_back(source.data);

  Use use(self);
  Store& store = use.store();
  if (ring.rows->has_files() && ring.maker != process_number())
    raise(PyExc_RuntimeError, "a forked child can't add to a buffer with mmap_prefix: its parent has the same files");
  const float leaf_of_max = ring.prioritized && !given ? ring.leaf_of_max_priority() : 0;
  // Of more rows than the ring holds only the last ones would survive.
  const std::size_t skip = count > store.capacity() ? count - store.capacity() : 0;
  ring.rows->prepare(in.data.data(), skip, count);
  std::uint64_t first;
  {
    TurnWaiting waiting(ring);
    ExplorerTurn turn(store, use.seat(), count, waiting);
    first = turn.first();
    const std::uint64_t slot = (first + skip) % store.capacity();
    ring.rows->write(in.data.data(), skip, count, slot);
    if (ring.prioritized) {
      store.raise_max_priority(largest);
      float* leaf = store.tree().leaves();
      const std::size_t before_end = std::min<std::size_t>(count - skip, store.capacity() - slot);
      if (given) {
        const float* from = in.leaves.data() + skip;
        std::copy_n(from, before_end, leaf + slot);
        std::copy_n(from + before_end, count - skip - before_end, leaf);
      } else {
        std::fill_n(leaf + slot, before_end, leaf_of_max);
        std::fill_n(leaf, count - skip - before_end, leaf_of_max);
      }
    }
  }
  if (ring.rows->has_streams()) ring.rows->forget_before(store.tail() % store.capacity());
  ring.episode_rows += count;
  return PyLong_FromUnsignedLongLong(first % store.capacity());
}

}  // namespace rb
