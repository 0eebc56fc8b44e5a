// The native object behind every buffer class: a store, its fields, and state private to this process.
#pragma once

#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../core/store/sampler.hpp"
#include "../core/store/store.hpp"
#include "batch.hpp"
#include "fields.hpp"
#include "options.hpp"
#include "python.hpp"
#include "streams.hpp"

namespace rb {

// The arguments of one call of add(); kept between calls to reuse its memory.
struct AddScratch {
  std::vector<Source> sources;
  std::vector<const char*> data;  // by field
  std::vector<float> leaves;
  std::vector<double> priorities;  // of steps
};

// Counts the forks among this process's ancestors, so it differs in every forked child.
std::uint64_t process_number();
void count_fork();

struct Ring {
  Ring(RingOptions options, std::unique_ptr<Store> store, std::unique_ptr<Sampler> sampler);

  const std::vector<Field> fields;
  const bool is_shared, prioritized;
  const std::size_t environments;  // see RingOptions
  const PriorityOptions priorities;
  const bool add_through_python, batch_through_python;  // see RingOptions
  std::unique_ptr<Store> store;                         // empty once closed
  std::unique_ptr<Sampler> sampler;                     // over the store
  bool close_wanted = false;
  void release_store();

  // Number of calls in progress that use the store; a waiting call lets other threads in. These calls belong to the
  // process `counted_in`. A forked child continues only the calls of the thread that forked.
  int users = 0;
  std::uint64_t counted_in = process_number();
  void forget_users_of_other_threads();

  // Private to each process; see CallGuard.
  std::uint64_t process = 0;
  std::uint64_t maker = 0;  // number of the process that created the ring
  Random random;

  Keywords keywords;
  ChangeWarnings change_warnings;
  Streams streams;
  bool adds_directly;  // whether add() is not watched and does not go through Python
  AddScratch add_scratch;
  RecentBatches recent;
  Drawn drawn;

  // Only for prioritized rings.
  double known_max = -1;
  float leaf_of_max = 0;

  float leaf_of_max_priority();
  // Lowers the maximum to the largest priority of any stored row, so that one large error does not favour new rows
  // forever. Needs a LearnerGuard.
  void let_max_priority_fall();
  // Computes the leaves of raw priorities; `largest` becomes at least the largest priority. Returns the position of the
  // first priority that is negative, not finite, or too large to be stored; otherwise kAllGood.
  std::size_t leaves_of(const Numbers& given, float* leaves, double& largest) const;

  // A long copy out of an unshared ring lets other Python threads run; threads that use this ring must wait.
  bool copying = false;  // guarded by the interpreter's lock
  std::mutex end_of_copy;
  void let_copy_end();
};

// Memory reused from one call to the next. A call borrows the memory, because other threads, or code run by an
// argument, may make further calls meanwhile, which find it empty.
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
    for (auto& source : (*this)->sources) source.release();
  }
};

[[noreturn]] void raise_bad_priority(const Numbers& priorities, std::size_t place);

struct RingObject {
  PyObject_HEAD Ring* ring;
};

// Held by each call while it uses the store, which therefore cannot be closed meanwhile. The constructor raises
// ValueError if the buffer is closed. In the first call after a fork, it reseeds the process's random numbers.
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
  bool in_handlers_ =
      false;  // signal handlers that run during the wait must not use the buffer, since some of its locks are held
};

// How a call waits: other Python threads can run meanwhile, and Ctrl-C is handled.
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

// In the first call after a fork: the child has no other threads, and draws its own random numbers. Throws
// std::bad_alloc or std::system_error; the next call then tries again.
void notice_fork(Ring& ring);

// Parses the batch size passed by a caller; raises TypeError, ValueError.
npy_intp batch_size(PyObject* value);

// Parses the exponent of importance weights; 0.4 if it is null. Raises TypeError, ValueError.
double beta_of(PyObject* given);

// Sorts the arguments of a fast call by name into `values` (null where not given); raises TypeError.
void sort_arguments(const char* function, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                    std::initializer_list<const char*> known, PyObject** values);

// Converts `batch` to the object that the caller receives. `slots` are the slots of its rows, unless the caller named
// them.
PyObject* finished(PyObject* self, Batch& batch, const std::vector<std::size_t>* slots = nullptr);
// Recent batches whose arrays a sample may reuse; null if Python code replaces the returned arrays.
RecentBatches* recent_batches(Ring& ring);
// Checks the caller's `out`; raises TypeError if it cannot be used with this ring.
PyObject* for_batch(const Ring& ring, PyObject* out);

// The arguments of one call of add() that are not in its `AddScratch`.
struct Arguments {
  std::size_t count = 0;
  bool has_priorities = false;
  Numbers priorities;
  double largest = 0;  // of the priorities
};

// Reads one call's arguments for `fields`, with a number of rows that is a multiple of `environments`. Raises KeyError,
// TypeError, ValueError or OverflowError. Throws EnvironmentsGiven.
Arguments read_rows(Ring& ring, const std::vector<Field>& fields, Keywords& keywords, PyObject* const* args,
                    Py_ssize_t nargs, PyObject* names, std::size_t environments, AddScratch& in);
// Raises ValueError or IndexError unless there is one environment per row, and each exists.
void check_environments(const Ring& ring, const std::vector<npy_int64>& environments, std::size_t rows);
// Raises RuntimeError if rows must not be added because another process writes the same files.
void check_files(const Ring& ring);

// Stores the rows of one call of add() without further processing; returns the first row's slot. `are_steps`: whether
// they continue the streams of steps.
PyObject* add_rows(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names, std::size_t environments,
                   bool are_steps);
// The same for rows of these streams of a shared ring with sequences, and whether each is the first of its episode.
PyObject* add_stream_rows(PyObject* self, const std::vector<npy_int64>& streams, const std::vector<char>& firsts,
                          PyObject* const* args, PyObject* names);
// The same for rows with these links, from the number `first` on: see NewRows.
PyObject* add_linked_rows(PyObject* self, std::uint64_t first, const std::vector<LinkWord>& links,
                          PyObject* const* args, PyObject* names);
// The same if the order of rows is watched, or for rows of some environments; throws OrderFound.
PyObject* add_watched_rows(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                           const std::vector<npy_int64>* environments);

extern PyTypeObject RingType;
extern PyTypeObject PrioritizedRingType;
int prepare_types(PyObject* module);

int construct(PyObject* self, PyObject* args, PyObject* kwargs);  // tp_init of both types
std::uint64_t entropy();                                          // from the operating system; throws std::system_error

}  // namespace rb
