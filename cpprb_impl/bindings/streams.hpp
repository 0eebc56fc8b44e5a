// What this process keeps, from one call of add() to the next, of the streams of steps that it adds: one for each
// environment. Calls, files and forks know it only through these functions.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nstep.hpp"
#include "order.hpp"
#include "python.hpp"

namespace rb {

struct Streams {
  explicit Streams(std::unique_ptr<Nstep> its_nstep) : nstep(std::move(its_nstep)) {}

  const std::unique_ptr<Nstep> nstep;  // the steps that wait for those that follow; null if each step is a transition
  std::unique_ptr<Order> order;        // what the next row should continue; null if it is not watched
  std::uint64_t episode_rows = 0;      // transitions since the last end of an episode

  // Called in a forked child. It has no other threads, and goes on with the streams of a private buffer; those of a
  // shared one belong to the parent.
  void begin_in_child(bool is_shared);
};

// add() while the order of rows is watched, or for rows of some environments: one for each row.
PyObject* add_watched(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                      const std::vector<npy_int64>* environments = nullptr);
// on_episode_end(): stores what the pending steps make up, and begins all streams anew.
void end_episodes(PyObject* self);
// Forgets the streams of a buffer that was cleared.
void clear_streams(PyObject* self);
// Returns the pending steps: a dict of new arrays (steps, *shape), with "priorities" (NaN where none was given) if
// prioritized, and with "env_ids" if each environment has a window of its own. It is empty without n-step transitions.
PyObject* pending_steps(Ring& ring);

}  // namespace rb
