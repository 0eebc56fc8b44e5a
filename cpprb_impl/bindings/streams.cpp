#include "streams.hpp"

#include "ring.hpp"

namespace rb {

void Streams::begin_in_child(bool is_shared) {
  if (nstep) nstep->taken = false;
  if (!is_shared) return;
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
    PythonWaiting waiting(call);
    Sequences& sequences = *streams.sequences;
    Ring& ring = call.ring();
    const float leaf = ring.prioritized ? ring.leaf_of_max_priority() : 0;
    sequences.links.end_episodes(call.store().head() - call.store().stored(), [&](std::uint64_t row) {
      sequences.sampler.ended(row, leaf);
      sequences.episodes.ended(row, 0);
    });
  }
  if (streams.nstep) flush_steps(self);
  if (streams.order) streams.order->watch.forget();
  streams.episode_rows = 0;
}

void clear_streams(PyObject* self) {
  CallGuard call(self);
  Streams& streams = call.ring().streams;
  if (streams.order) streams.order->watch.forget();
  if (streams.sequences) streams.sequences->links.restart();
  streams.episode_rows = 0;
  if (!streams.nstep) return;
  PythonWaiting waiting(call);
  const Nstep::Guard guard(*streams.nstep, waiting);
  streams.nstep->clear();
}

PyObject* pending_steps(Ring& ring) {
  if (!ring.streams.nstep) return checked(PyDict_New());
  notice_fork(ring);
  return waiting_steps(ring);
}

}  // namespace rb
