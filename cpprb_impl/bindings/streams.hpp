// State that this process keeps, from one call of add() to the next, for the streams of steps that it adds, one per
// environment. Calls, files and forks access this state only through these functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "nstep.hpp"
#include "order.hpp"
#include "python.hpp"
#include "sequences.hpp"

namespace rb {

struct Streams {
  explicit Streams(std::unique_ptr<Nstep> its_nstep) : nstep(std::move(its_nstep)) {}

  const std::unique_ptr<Nstep> nstep;    // the pending steps; null if each step is a transition
  std::unique_ptr<Order> order;          // what the next row should continue; null if it is not watched
  std::unique_ptr<Sequences> sequences;  // which rows continue which; null without the option
  std::optional<StreamLinks> closed;     // the links of a shared ring's streams, once it is closed
  std::uint64_t episode_rows = 0;        // transitions since the last end of an episode

  // Called in a forked child. It has no other threads, and continues a private buffer's streams; a shared buffer's
  // streams belong to the parent.
  void begin_in_child(bool is_shared);
};

// add() while the order of rows is watched, or for rows of only some environments: one environment per row.
PyObject* add_watched(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                      const std::vector<npy_int64>* environments = nullptr);
// on_episode_end(): stores the transitions formed by the pending steps, and restarts all streams.
void end_episodes(PyObject* self);
// Forgets the streams of a buffer that was cleared.
void clear_streams(PyObject* self);
// Returns the pending steps: a dict of new arrays (steps, *shape), with "priorities" (NaN where none was given) if
// prioritized, and with "env_ids" if each environment has its own window. Empty without n-step transitions.
PyObject* pending_steps(Ring& ring);

}  // namespace rb
