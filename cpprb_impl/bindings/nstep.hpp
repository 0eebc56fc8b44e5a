// N-step transitions, which are formed before rows reach a ring's store. Parses the options and guards access to the
// window.
#pragma once

#include <memory>
#include <vector>

#include "../core/nstep.hpp"
#include "fields.hpp"
#include "python.hpp"

namespace rb {

struct Nstep {
  Nstep(std::vector<Field> step_fields, bool prioritized, NstepWindow steps);

  std::vector<Field> fields;  // as add() reads them: rewards in the precision in which they are summed
  Keywords keywords;
  // Its columns are the fields and, for a prioritized ring, priorities (double, NaN where none was given) and leaves.
  NstepWindow window;
  std::vector<float> leaves;  // of the transitions being stored
  bool taken = false;         // guarded by the interpreter's lock

  // Exclusive access to the window for one call: while a store waits, other threads may run.
  class Guard {
   public:
    Guard(Nstep& nstep, Waiting& waiting);  // throws Interrupted
    ~Guard() { nstep_.taken = false; }
    Guard(const Guard&) = delete;

   private:
    Nstep& nstep_;
  };
};

// Parses a dict of "size", "gamma", "rew" and "next"; None becomes null. Raises KeyError, TypeError, ValueError.
std::unique_ptr<Nstep> parse_nstep(PyObject* options, const std::vector<Field>& fields, bool prioritized);

// Returns the pending steps: a dict of new arrays (steps, *shape), with "priorities" if prioritized.
PyObject* waiting_steps(const Nstep& nstep, bool prioritized);

// add(), on_episode_end() and clear() of a ring with a window.
PyObject* add_steps(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names);
void flush_steps(PyObject* self);
void clear_steps(PyObject* self);

}  // namespace rb
