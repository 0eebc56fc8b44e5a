// The steps common to all calls of a ring's methods: sorting arguments, preparing the ring for this process and thread,
// and returning the batch.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <thread>
#include <utility>

#include "ring.hpp"

namespace rb {
namespace {

std::uint64_t forks = 0;  // changed only by a forked child, while it has a single thread

// Copies data out of a ring without holding the interpreter lock.
class CopyBesideOthers {
 public:
  explicit CopyBesideOthers(Ring& ring) : ring_(ring) {
    if (!ring_.is_shared) {
      ring_.end_of_copy.lock();
      ring_.copying = true;
    }
    state_ = PyEval_SaveThread();
  }
  ~CopyBesideOthers() {
    if (!ring_.is_shared) ring_.end_of_copy.unlock();  // done first, because we may never get the interpreter's lock
    take_interpreter(state_);
    if (!ring_.is_shared) ring_.copying = false;
  }
  CopyBesideOthers(const CopyBesideOthers&) = delete;

 private:
  Ring& ring_;
  PyThreadState* state_;
};

}  // namespace

// The initial-exec model saves a function call per use. GCC ignores the attribute at the declaration. Space for such
// variables is limited in libraries that are loaded later, but this one takes a single word.
[[gnu::tls_model("initial-exec")]] constinit thread_local CallGuard* CallGuard::innermost_of_thread_ = nullptr;

// Runs in the child's only thread, which continues the calls that it was in.
void count_fork() {
  ++forks;
  for (const CallGuard* each = CallGuard::innermost_of_thread_; each != nullptr; each = each->outer_) {
    each->ring_.forget_users_of_other_threads();
    ++each->ring_.users;
  }
}

std::uint64_t process_number() { return forks; }

Ring::Ring(RingOptions options, std::unique_ptr<Store> its_store, std::unique_ptr<Sampler> its_sampler)
    : fields(std::move(options.fields)),
      is_shared(options.shared.has_value()),
      prioritized(options.prioritized),
      environments(options.environments),
      priorities(options.priorities),
      add_through_python(options.add_through_python),
      batch_through_python(options.batch_through_python),
      store(std::move(its_store)),
      sampler(std::move(its_sampler)),
      process(process_number()),
      maker(process),
      random(options.seed ? *options.seed : entropy()),
      keywords(options.prioritized),
      streams(std::move(options.nstep)),
      adds_directly(!add_through_python) {}

OneCall::OneCall(bool& taken, Waiting& waiting) : taken_(taken) {
  while (taken_ && !is_ending()) {  // when the interpreter exits, the thread that holds it never continues
    waiting.begin();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    const bool calm = waiting.go_on();
    waiting.end();
    if (!calm) throw Interrupted();
  }
  taken_ = true;
}

void Ring::release_store() {
  if (streams.sequences && streams.sequences->shared) streams.closed = std::move(streams.sequences->shared->links);
  streams.sequences.reset();
  sampler.reset();
  store.reset();
}

void Ring::let_copy_end() {
  while (copying) {
    PyThreadState* state = PyEval_SaveThread();
    {
      const std::lock_guard wait(end_of_copy);
    }
    take_interpreter(state);
    if (is_ending()) copying = false;  // the copying thread never returns
  }
}

void Ring::forget_users_of_other_threads() {
  if (std::exchange(counted_in, process_number()) != process_number()) users = 0;
}

PythonWaiting::PythonWaiting(CallGuard& call) : call_(call) {
  Ring& ring = call.ring();
  // Releasing the interpreter lock is not worth it for a short copy: another thread may keep it for milliseconds. Nor
  // is it for a longer copy out of an unshared ring, which other threads could not use meanwhile anyway.
  long_copy = std::size_t{1} << (ring.is_shared ? 20 : 24);
  ring.let_copy_end();
}

bool PythonWaiting::go_on() {
  take_interpreter(state_);
  call_.in_handlers_ = true;
  const bool calm = PyErr_CheckSignals() == 0;
  call_.in_handlers_ = false;
  state_ = PyEval_SaveThread();
  return calm;
}

void PythonWaiting::copy(const std::function<void()>& work) {
  const CopyBesideOthers meanwhile(call_.ring());
  work();
}

Ring& ring_of(PyObject* self) {
  Ring* ring = reinterpret_cast<RingObject*>(self)->ring;
  if (ring == nullptr) raise(PyExc_RuntimeError, "the buffer's __init__ was never called");
  return *ring;
}

void notice_fork(Ring& ring) {
  if (ring.process == process_number()) [[likely]]
    return;
  ring.random.reseed(entropy());
  ring.forget_users_of_other_threads();
  // Set by a thread that does not exist in this process; if that thread was waiting, it may also hold the lock.
  ring.copying = false;
  ring.end_of_copy.~mutex();
  new (&ring.end_of_copy) std::mutex;
  ring.streams.begin_in_child(ring.is_shared);
  if (ring.store) ring.store->forked();
  ring.process = process_number();  // last, so that a failure above is retried
}

CallGuard::CallGuard(PyObject* self) : ring_(ring_of(self)) {
  for (const CallGuard* each = innermost_; each != nullptr; each = each->outer_)
    if (&each->ring_ == &ring_ && each->in_handlers_)
      raise(PyExc_RuntimeError, "a signal handler must not use a buffer that its own thread is waiting for");
  notice_fork(ring_);
  ring_.let_copy_end();
  // Checked only now: another thread may have closed the buffer while this one waited.
  if (ring_.close_wanted) raise(PyExc_ValueError, "the buffer is closed");
  ++ring_.users;
  outer_ = std::exchange(innermost_, this);
}

CallGuard::~CallGuard() {
  innermost_ = outer_;
  if (--ring_.users == 0 && ring_.close_wanted) ring_.release_store();
}

double beta_of(PyObject* given) {
  const double beta = given != nullptr ? PyFloat_AsDouble(given) : 0.4;
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw PythonError();
    PyErr_Clear();
    raise(PyExc_TypeError, "beta must be a number, got %R", given);
  }
  if (!(beta >= 0) || !std::isfinite(beta))
    raise(PyExc_ValueError, "beta must be finite and not negative, got %R",
          Ref(checked(PyFloat_FromDouble(beta))).get());
  return beta;
}

RecentBatches* recent_batches(Ring& ring) { return ring.batch_through_python ? nullptr : &ring.recent; }

PyObject* for_batch(const Ring& ring, PyObject* out) {
  if (out != nullptr && out != Py_None && ring.batch_through_python)
    raise(PyExc_TypeError,
          "out must be None for a buffer with fields of Python objects, and for a class that overrides _encode_sample");
  return out;
}

PyObject* finished(PyObject* self, Batch& batch, const std::vector<std::size_t>* slots) {
  if (!ring_of(self).batch_through_python) [[likely]]
    return batch.give();
  const Ref columns(batch.give());
  if (slots == nullptr) return PyObject_CallMethod(self, "_batch_through", "O", columns.get());
  npy_intp rows = static_cast<npy_intp>(slots->size());
  const Ref indexes(checked(PyArray_SimpleNew(1, &rows, NPY_INT64)));
  std::copy(slots->begin(), slots->end(), static_cast<npy_int64*>(PyArray_DATA(indexes.array())));
  return PyObject_CallMethod(self, "_batch_through", "OO", columns.get(), indexes.get());
}

void sort_arguments(const char* function, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                    std::initializer_list<const char*> known, PyObject** values) {
  const auto most = static_cast<Py_ssize_t>(known.size());
  if (nargs > most) raise(PyExc_TypeError, "%s() takes at most %zd arguments, got %zd", function, most, nargs);
  for (Py_ssize_t i = 0; i < most; ++i) values[i] = i < nargs ? args[i] : nullptr;
  for (Py_ssize_t k = 0; k < (names ? PyTuple_GET_SIZE(names) : 0); ++k) {
    PyObject* name = PyTuple_GET_ITEM(names, k);
    const auto* at = std::find_if(known.begin(), known.end(), [name](const char* each) {
      return PyUnicode_CompareWithASCIIString(name, each) == 0;
    });
    if (at == known.end()) raise(PyExc_TypeError, "%s() has no argument '%U'", function, name);
    PyObject*& value = values[at - known.begin()];
    if (value != nullptr) raise(PyExc_TypeError, "%s() got multiple values for argument '%U'", function, name);
    value = args[nargs + k];
  }
}

npy_intp batch_size(PyObject* value) {
  if (value == nullptr) raise(PyExc_TypeError, "sample() needs a batch_size");
  const npy_intp rows = PyNumber_AsSsize_t(value, PyExc_OverflowError);
  if (rows == -1 && PyErr_Occurred()) {
    if (PyIndex_Check(value)) throw PythonError();
    PyErr_Clear();
    raise(PyExc_TypeError, "batch_size must be an int, got %R", value);
  }
  if (rows < 0) raise(PyExc_ValueError, "batch_size must not be negative, got %zd", rows);
  return rows;
}

}  // namespace rb
