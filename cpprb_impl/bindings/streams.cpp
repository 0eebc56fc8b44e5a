#include "streams.hpp"

#include "ring.hpp"

namespace rb {

void Streams::begin_in_child(bool is_shared) {
  if (nstep) nstep->taken = false;
  if (!is_shared) return;
  if (sequences) {
    sequences->shared->links.begin_episodes();
    sequences->shared->links.taken = false;
  }
  if (nstep) nstep->clear();
  if (order) order->watch.forget();
  episode_rows = 0;
}

PyObject* add_watched(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                      const std::vector<npy_int64>* environments) {
  Ring& ring = ring_of(self);
  return watched(ring, [&] {
    return ring.streams.nstep ? add_steps(self, args, nargs, names, environments)
                              : add_watched_rows(self, args, nargs, names, environments);
  });
}

void end_episodes(PyObject* self) {
  Streams& streams = ring_of(self).streams;
  if (streams.sequences) {
    CallGuard call(self);
    end_sequences(call.ring());
  }
  if (streams.nstep) flush_steps(self);
  if (streams.order) streams.order->watch.forget();
  streams.episode_rows = 0;
}

void clear_streams(PyObject* self) {
  CallGuard call(self);
  Streams& streams = call.ring().streams;
  if (streams.order) streams.order->watch.forget();
  streams.episode_rows = 0;
  PythonWaiting waiting(call);
  if (streams.sequences) restart_sequences(call.ring(), waiting);
  if (!streams.nstep) return;
  const OneCall guard(streams.nstep->taken, waiting);
  streams.nstep->clear();
}

PyObject* pending_steps(Ring& ring) {
  if (!ring.streams.nstep) return checked(PyDict_New());
  notice_fork(ring);
  return waiting_steps(ring);
}

}  // namespace rb
