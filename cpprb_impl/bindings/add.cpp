// add(): reads all arguments, then claims slots, then copies. A call with invalid arguments changes nothing; one that
// Ctrl-C interrupts while it waits for another process may have stored some of its rows.
#include "ring.hpp"

namespace rb {

Arguments read_rows(Ring& ring, const std::vector<Field>& fields, Keywords& keywords, PyObject* const* args,
                    Py_ssize_t nargs, PyObject* names, std::size_t environments, AddScratch& in) {
  if (nargs != 0) raise(PyExc_TypeError, "add() takes the fields of a transition as keyword arguments only");
  if (fields.empty()) raise(PyExc_KeyError, "the buffer has no fields: env_dict names none");

  PyObject* small[16];
  std::vector<PyObject*> large;
  PyObject** values = small;
  if (fields.size() > std::size(small)) {
    large.resize(fields.size());
    values = large.data();
  }
  PyObject* priorities = nullptr;
  const std::vector<int>& meaning = keywords.meaning(names, fields);
  for (std::size_t i = 0; i < meaning.size(); ++i) {
    if (meaning[i] >= 0) values[meaning[i]] = args[i];
    if (meaning[i] == Keywords::kPriorities && args[i] != Py_None) priorities = args[i];
  }

  Arguments rows;
  // Read priorities first: converting them may run Python code, which must not run after read_sources.
  rows.has_priorities = priorities != nullptr;
  if (rows.has_priorities) rows.priorities = Numbers(priorities, "priorities");
  const npy_intp count = read_sources(fields, values, ring.change_warnings, in.sources);
  rows.count = static_cast<std::size_t>(count);
  if (rows.count % environments != 0)
    raise(PyExc_ValueError,
          "add() must be given one row per environment (n_envs=%zu), or a multiple, got %zd rows; to add rows of only "
          "some environments, pass env_ids",
          environments, count);
  if (const Numbers& numbers = rows.priorities; rows.has_priorities) {
    if (numbers.changed())
      raise(PyExc_ValueError, "priorities: the array was changed while a field was being converted");
    if (numbers.size() != count)
      raise(PyExc_ValueError, "priorities must have one value per row, got %zd values for %zd rows", numbers.size(),
            count);
    in.leaves.resize(rows.count);
    if (const auto bad = ring.leaves_of(numbers, in.leaves.data(), rows.largest); bad != kAllGood)
      raise_bad_priority(numbers, bad);
  }
  in.data.clear();
  for (const auto& source : in.sources) in.data.push_back(source.data);
  return rows;
}

void check_files(const Ring& ring) {
  if (ring.store->rows().has_files() && !ring.is_shared && ring.maker != process_number())
    raise(PyExc_RuntimeError,
          "a forked child cannot add to a buffer with mmap_prefix: its parent writes the same files");
}

void check_environments(const Ring& ring, const std::vector<npy_int64>& environments, std::size_t rows) {
  if (environments.size() != rows)
    raise(PyExc_ValueError, "env_ids must have one value per row, got %zu values for %zu rows", environments.size(),
          rows);
  for (std::size_t i = 0; i < rows; ++i)
    if (environments[i] < 0 || static_cast<std::size_t>(environments[i]) >= ring.environments)
      raise(PyExc_IndexError, "env_ids[%zu] must be from 0 to %zu, got %lld", i, ring.environments - 1,
            static_cast<long long>(environments[i]));
}

namespace {

// Rows of all environments in turn, unless `environments` has one for each.
inline PyObject* store_rows(PyObject* self, Ring& ring, const Arguments& rows, BorrowedAddScratch& in,
                            const std::vector<npy_int64>* environments, bool are_steps, const bool* firsts = nullptr,
                            const LinkWord* linked = nullptr, std::uint64_t linked_from = 0) {
  CallGuard call(self);
  check_files(ring);
  const float leaf_of_max = ring.prioritized && !rows.has_priorities ? ring.leaf_of_max_priority() : 0;
  const NewRows all{.data = in->data.data(),
                    .count = rows.count,
                    .leaves = rows.has_priorities ? in->leaves.data() : nullptr,
                    .leaf = leaf_of_max,
                    .largest = rows.largest,
                    .linked = linked,
                    .linked_from = linked_from};
  PythonWaiting waiting(call);
  const Numbers* const priorities = rows.has_priorities ? &rows.priorities : nullptr;
  const std::uint64_t slot = ring.streams.sequences && linked == nullptr
                                 ? add_linked(ring, all, priorities, environments, are_steps, waiting, firsts)
                                 : call.store().add(all, waiting);
  ring.streams.episode_rows += rows.count;
  return PyLong_FromUnsignedLongLong(slot);
}

}  // namespace

PyObject* add_rows(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names, std::size_t environments,
                   bool are_steps) {
  Ring& ring = ring_of(self);
  BorrowedAddScratch in(ring.add_scratch);
  const Arguments rows = read_rows(ring, ring.fields, ring.keywords, args, nargs, names, environments, *in);
  return store_rows(self, ring, rows, in, nullptr, are_steps);
}

PyObject* add_stream_rows(PyObject* self, const std::vector<npy_int64>& streams, const std::vector<char>& firsts,
                          PyObject* const* args, PyObject* names) {
  Ring& ring = ring_of(self);
  BorrowedAddScratch in(ring.add_scratch);
  const Arguments rows = read_rows(ring, ring.fields, ring.keywords, args, 0, names, 1, *in);
  if (streams.size() != rows.count || firsts.size() != rows.count)
    raise(PyExc_ValueError, "streams and firsts must have one value per row, got %zu and %zu values for %zu rows",
          streams.size(), firsts.size(), rows.count);
  return store_rows(self, ring, rows, in, &streams, true, reinterpret_cast<const bool*>(firsts.data()));
}

PyObject* add_linked_rows(PyObject* self, std::uint64_t first, const std::vector<LinkWord>& links,
                          PyObject* const* args, PyObject* names) {
  Ring& ring = ring_of(self);
  BorrowedAddScratch in(ring.add_scratch);
  const Arguments rows = read_rows(ring, ring.fields, ring.keywords, args, 0, names, 1, *in);
  if (links.size() != rows.count)
    raise(PyExc_ValueError, "links must have one value per row, got %zu values for %zu rows", links.size(), rows.count);
  return store_rows(self, ring, rows, in, nullptr, false, nullptr, links.data(), first);
}

PyObject* add_watched_rows(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                           const std::vector<npy_int64>* environments) {
  Ring& ring = ring_of(self);
  BorrowedAddScratch in(ring.add_scratch);
  const std::size_t in_turn = environments == nullptr ? ring.environments : 1;
  const Arguments rows = read_rows(ring, ring.fields, ring.keywords, args, nargs, names, in_turn, *in);
  if (environments != nullptr) check_environments(ring, *environments, rows.count);
  look_at_order(ring, *in, rows.count, environments);
  PyObject* slot = store_rows(self, ring, rows, in, environments, true);
  keep_order(ring);
  return slot;
}

}  // namespace rb
