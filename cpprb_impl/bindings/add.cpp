// add(): read everything, then claim, then copy. A call that fails has changed nothing.
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

  Lent<Incoming> lent(ring.incoming);
  Incoming& in = *lent;
  struct LetGo {
    Incoming& incoming;
    ~LetGo() {
      for (auto& source : incoming.sources) source.let_go();
    }
  } let_go{in};
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
  if (store.rows().has_files() && !ring.is_shared && ring.maker != process_number())
    raise(PyExc_RuntimeError, "a forked child can't add to a buffer with mmap_prefix: its parent has the same files");
  const float leaf_of_max = ring.prioritized && !given ? ring.leaf_of_max_priority() : 0;
  const NewRows all{in.data.data(), count, given ? in.leaves.data() : nullptr, leaf_of_max, largest};
  TurnWaiting waiting(ring);
  const std::uint64_t slot = store.add(all, waiting);
  ring.episode_rows += count;
  return PyLong_FromUnsignedLongLong(slot);
}

}  // namespace rb
