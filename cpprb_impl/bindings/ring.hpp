// The native object behind every buffer class: a store, its fields, and this process's own state.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../core/store.hpp"
#include "fields.hpp"
#include "python.hpp"

namespace rb {

struct Ring {
  Ring(std::vector<Field> fields, bool prioritized);

  std::vector<Field> fields;
  RowLayout layout;
  std::unique_ptr<Store> store;  // empty once closed
  bool close_wanted = false;
  // What a feature written in Python needs: add() goes to self._add_through(**rows), and every batch that is
  // given back through self._batch_through(batch) first.
  bool add_through_python = false, batch_through_python = false;
  int users = 0;  // calls under way that need the store: a wait lets other threads in

  unsigned long signalled = 0;  // the thread that runs signal handlers while it waits in a turn, or 0

  // Own to each process; see Use.
  std::uint64_t process = 0;
  std::optional<std::size_t> seat;
  Random random;

  std::uint64_t episode_rows = 0;
  Keywords keywords;
  std::vector<Source> sources;     // kept from call to call for its memory
  std::vector<std::size_t> slots;  // likewise

  // Prioritized: leaf = (priority + eps)^alpha, Schaul et al. 2015, section 3.3.
  double alpha = 0.6, eps = 1e-4;
  bool check_for_update = false;
  std::uint64_t sampled_at = 0;  // the head when this process last sampled
  double known_max = -1;
  float leaf_of_max = 0;

  float leaf(double priority) const;
  // The leaves of raw priorities; `largest` becomes at least the largest of them. Raises TypeError, and
  // ValueError that names the first bad one by its place.
  std::vector<float> read_leaves(PyObject* priorities, double& largest) const;
};

struct RingObject {
  PyObject_HEAD Ring* ring;
};

// One call's use of the store: it can't be closed meanwhile, and a process that was forked since the
// last call gets random numbers and a seat of its own first. Raises ValueError when closed.
class Use {
 public:
  explicit Use(PyObject* self);
  ~Use();
  Use(const Use&) = delete;

  Ring& ring() { return ring_; }
  Store& store() { return *ring_.store; }
  std::size_t seat();

 private:
  Ring& ring_;
};

Ring& ring_of(PyObject* self);

// A dict of new arrays, (rows, *shape) each, to be filled from slots.
class Batch {
 public:
  Batch(const std::vector<Field>& fields, npy_intp rows);
  void fill(Store& store, const RowLayout& layout, const std::size_t* slots, std::size_t count);
  // The memory of a further array of the batch, (rows,).
  void* add_column(const char* name, int type);
  PyObject* give() { return dict_.give(); }

 private:
  npy_intp rows_;
  Ref dict_;
  std::vector<char*> columns_;
};

// The batch size a caller asked for; raises TypeError, ValueError.
npy_intp batch_size(PyObject* value);

// Sorts the arguments of a fast call by name into `values` (null where not given); raises TypeError.
void sort_arguments(const char* function, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                    std::initializer_list<const char*> known, PyObject** values);

// `batch` as the caller gets it.
PyObject* finished(PyObject* self, Batch& batch);

// Stores the rows of one call of add(). `priorities` may be null; returns the first row's slot.
PyObject* add_rows(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names);

extern PyTypeObject RingType;
extern PyTypeObject PrioritizedRingType;
int prepare_types(PyObject* module);

// Counts the forks of this process's ancestors: differs in every forked child.
std::uint64_t process_number();

}  // namespace rb
