// The native object behind every buffer class: a store, its fields, and this process's own state.
#pragma once

#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../core/sampler.hpp"
#include "../core/store.hpp"
#include "batch.hpp"
#include "fields.hpp"
#include "nstep.hpp"
#include "options.hpp"
#include "python.hpp"

namespace rb {

// One call of add(), read; kept from call to call for its memory.
struct AddScratch {
  std::vector<Source> sources;
  std::vector<const char*> data;  // by field
  std::vector<float> leaves;
  std::vector<double> priorities;  // of steps
};

// Counts the forks of this process's ancestors: differs in every forked child.
std::uint64_t process_number();
void count_fork();

struct Ring {
  Ring(RingOptions options, std::unique_ptr<Store> store, std::unique_ptr<Sampler> sampler);

  const std::vector<Field> fields;
  const bool is_shared, prioritized;
  const PriorityOptions priorities;
  const bool add_through_python, batch_through_python;  // see RingOptions
  std::unique_ptr<Store> store;                         // empty once closed
  std::unique_ptr<Sampler> sampler;                     // over the store
  bool close_wanted = false;
  void release_store();

  // Calls under way that need the store: a wait lets other threads in. They are those of the process `counted_in`: of
  // its parent's calls, a forked child goes on only with those of the thread that forked.
  int users = 0;
  std::uint64_t counted_in = process_number();
  void forget_users_of_other_threads();

  // Own to each process; see CallGuard.
  std::uint64_t process = 0;
  std::uint64_t maker = 0;  // that of the process that made it
  Random random;

  std::uint64_t episode_rows = 0;
  Keywords keywords;
  const std::unique_ptr<Nstep> nstep;  // null where each step is a transition
  AddScratch add_scratch;
  RecentBatches recent;
  Drawn drawn;

  // Of prioritized rings.
  double known_max = -1;
  float leaf_of_max = 0;

  float leaf_of_max_priority();
  // To the largest priority of any stored row: one large error must not favour new rows for ever. Needs a
  // LearnerGuard.
  void let_max_priority_fall();
  // The leaves of raw priorities; `largest` becomes at least the largest of them. Returns the
  // place of the first that is negative or not finite, or too large to be stored, else kAllGood.
  std::size_t leaves_of(const Numbers& given, float* leaves, double& largest) const;

  // A long copy out of an unshared ring lets other Python threads run; those that come to this ring wait.
  bool copying = false;  // guarded by the interpreter's lock
  std::mutex end_of_copy;
  void let_copy_end();
};

// Memory that one call reuses from the last one. A call borrows it, since other threads, or an argument's own code, may
// call meanwhile: they find it empty.
template <class Kept>
class Borrowed {
 public:
  explicit Borrowed(Kept& home) : home_(home), kept_(std::move(home)) {}
  ~Borrowed() { home_ = std::move(kept_); }
  Borrowed(const Borrowed&) = delete;
  Kept* operator->() { return &kept_; }
  Kept& operator*() { return kept_; }

 private:
  Kept& home_;
  Kept kept_;
};

class BorrowedAddScratch : public Borrowed<AddScratch> {
 public:
  using Borrowed::Borrowed;
  ~BorrowedAddScratch() {
    for (auto& source : (*this)->sources) source.let_go();
  }
};

[[noreturn]] void raise_bad_priority(const Numbers& priorities, std::size_t place);

struct RingObject {
  PyObject_HEAD Ring* ring;
};

// Held by each call for as long as it uses the store, which cannot be closed meanwhile. Its constructor raises
// ValueError if the buffer is closed. In the first call after a fork, it gives the process random numbers of its own.
class CallGuard {
 public:
  explicit CallGuard(PyObject* self);
  ~CallGuard();
  CallGuard(const CallGuard&) = delete;

  Ring& ring() { return ring_; }
  Store& store() { return *ring_.store; }

 private:
  friend class PythonWaiting;
  friend void count_fork();

  // The guards of a thread form a stack: the last one to begin ends first.
  static constinit thread_local CallGuard* innermost_of_thread_;

  CallGuard*& innermost_ = innermost_of_thread_;  // looked up once: a call stays in its thread
  Ring& ring_;
  CallGuard* outer_ = nullptr;
  bool in_handlers_ = false;  // its wait runs signal handlers: they find locks half taken, and must not enter
};

// How a call waits: other Python threads run meanwhile, and Ctrl-C is heard.
class PythonWaiting final : public Waiting {
 public:
  explicit PythonWaiting(CallGuard& call);
  void begin() override { state_ = PyEval_SaveThread(); }
  bool go_on() override;
  void end() override { take_interpreter(state_); }
  void copy(const std::function<void()>& work) override;

 private:
  CallGuard& call_;
  PyThreadState* state_ = nullptr;
};

Ring& ring_of(PyObject* self);

// In the first call after a fork: the child has no other threads, draws random numbers of its own, and has no waiting
// steps of a shared ring. Throws std::bad_alloc, std::system_error: the next call tries again.
void notice_fork(Ring& ring);

// The batch size a caller asked for; raises TypeError, ValueError.
npy_intp batch_size(PyObject* value);

// Sorts the arguments of a fast call by name into `values` (null where not given); raises TypeError.
void sort_arguments(const char* function, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                    std::initializer_list<const char*> known, PyObject** values);

// `batch` as the caller gets it.
PyObject* finished(PyObject* self, Batch& batch);
// The batches that a sample may be given in; null where Python code changes what is given.
RecentBatches* recent_batches(Ring& ring);
// `out` as the caller gave it; raises TypeError where it can't be given.
PyObject* for_batch(const Ring& ring, PyObject* out);

// What one call of add() was given, beside what is in its `AddScratch`.
struct Arguments {
  std::size_t count = 0;
  bool has_priorities = false;
  Numbers priorities;
  double largest = 0;  // of the priorities
};

// Reads one call's arguments, for `fields`; raises KeyError, TypeError, ValueError or OverflowError.
Arguments read_rows(const Ring& ring, const std::vector<Field>& fields, Keywords& keywords, PyObject* const* args,
                    Py_ssize_t nargs, PyObject* names, AddScratch& in);
// Raises RuntimeError where rows must not be added, since another process writes the same files.
void check_files(const Ring& ring);

// Stores the rows of one call of add(), as they are; returns the first row's slot.
PyObject* add_rows(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names);

extern PyTypeObject RingType;
extern PyTypeObject PrioritizedRingType;
int prepare_types(PyObject* module);

int construct(PyObject* self, PyObject* args, PyObject* kwargs);  // tp_init of both types
std::uint64_t entropy();                                          // from the system; throws std::system_error

}  // namespace rb
