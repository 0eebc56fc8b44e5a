// What every call of a ring goes through: its arguments sorted, the ring ready for this process and thread,
// and what is given back.
#include <algorithm>
#include <new>
#include <utility>

#include "ring.hpp"

namespace rb {
namespace {

std::uint64_t forks = 0;  // only ever changed by a forked child, while it has one thread

}  // namespace

void count_fork() { ++forks; }

std::uint64_t process_number() { return forks; }

Ring::Ring(std::vector<Field> all_fields, bool has_priorities)
    : fields(std::move(all_fields)), prioritized(has_priorities), keywords(has_priorities) {}

void Ring::let_copy_end() {
  while (copying) {
    PyThreadState* state = PyEval_SaveThread();
    {
      const std::lock_guard wait(end_of_copy);
    }
    take_interpreter(state);
    if (is_ending()) copying = false;  // who copied never comes back to say so
  }
}

void Ring::read_into(Batch& batch, const std::vector<std::size_t>& from) {
  // Whoever gets the interpreter's lock meanwhile may keep it for milliseconds: a short copy is not worth that.
  constexpr std::size_t kLongCopy = std::size_t{1} << 24;
  std::size_t row_bytes = 0;
  for (const auto& field : fields) row_bytes += static_cast<std::size_t>(field.bytes);
  if (from.size() * row_bytes < kLongCopy || !store->name().empty()) return batch.fill(*rows, from.data(), from.size());
  copying = true;
  PyThreadState* state;
  {
    const std::lock_guard until_done(end_of_copy);
    state = PyEval_SaveThread();
    batch.fill(*rows, from.data(), from.size());
  }
  take_interpreter(state);  // after the lock: it may never come back
  copying = false;
}

Ring& ring_of(PyObject* self) {
  Ring* ring = reinterpret_cast<RingObject*>(self)->ring;
  if (ring == nullptr) raise(PyExc_RuntimeError, "the buffer's __init__ was never called");
  return *ring;
}

Use::Use(PyObject* self) : ring_(ring_of(self)) {
  if (ring_.signalled != 0 && ring_.signalled == PyThread_get_thread_ident())
    raise(PyExc_RuntimeError, "a signal handler can't use a buffer that its own thread is waiting for");
  const bool forked = ring_.process != process_number();
  if (forked) {
    ring_.process = process_number();
    ring_.seat.reset();
    ring_.random.reseed(entropy());
    // By a thread that this process has not; one that only waited may have the lock, too.
    ring_.copying = false;
    ring_.end_of_copy.~mutex();
    new (&ring_.end_of_copy) std::mutex;
  }
  ring_.let_copy_end();
  // Only now: while this thread waited, another one may have closed it.
  if (ring_.close_wanted) raise(PyExc_ValueError, "the buffer is closed");
  if (forked) ring_.store->forked();
  ++ring_.users;
}

Use::~Use() {
  if (--ring_.users == 0 && ring_.close_wanted) ring_.give_back();
}

std::size_t Use::seat() {
  if (!ring_.seat) ring_.seat = ring_.store->take_new_seat();
  return *ring_.seat;
}

RecentBatches* recent_batches(Ring& ring) { return ring.batch_through_python ? nullptr : &ring.recent; }

PyObject* for_batch(const Ring& ring, PyObject* out) {
  if (out != nullptr && out != Py_None && ring.batch_through_python)
    raise(PyExc_TypeError, "out can't be given to a buffer with fields of Python objects");
  return out;
}

PyObject* finished(PyObject* self, Batch& batch) {
  if (!ring_of(self).batch_through_python) [[likely]]
    return batch.give();
  const Ref columns(batch.give());
  return PyObject_CallMethod(self, "_batch_through", "O", columns.get());
}

void sort_arguments(const char* function, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                    std::initializer_list<const char*> known, PyObject** values) {
  const auto most = static_cast<Py_ssize_t>(known.size());
  if (nargs > most) raise(PyExc_TypeError, "%s() takes at most %zd arguments, not %zd", function, most, nargs);
  for (Py_ssize_t i = 0; i < most; ++i) values[i] = i < nargs ? args[i] : nullptr;
  for (Py_ssize_t k = 0; k < (names ? PyTuple_GET_SIZE(names) : 0); ++k) {
    PyObject* name = PyTuple_GET_ITEM(names, k);
    const auto* at = std::find_if(known.begin(), known.end(), [name](const char* each) {
      return PyUnicode_CompareWithASCIIString(name, each) == 0;
    });
    if (at == known.end()) raise(PyExc_TypeError, "%s() has no argument '%U'", function, name);
    PyObject*& value = values[at - known.begin()];
    if (value != nullptr) raise(PyExc_TypeError, "%s() was given '%U' twice", function, name);
    value = args[nargs + k];
  }
}

npy_intp batch_size(PyObject* value) {
  if (value == nullptr) raise(PyExc_TypeError, "sample() needs a batch_size");
  const npy_intp rows = PyNumber_AsSsize_t(value, PyExc_OverflowError);
  if (rows == -1 && PyErr_Occurred()) throw PythonError();
  if (rows < 0) raise(PyExc_ValueError, "batch_size must not be negative, but is %zd", rows);
  return rows;
}

}  // namespace rb
