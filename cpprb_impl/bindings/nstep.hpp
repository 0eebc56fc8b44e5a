// N-step transitions, formed before rows reach a ring's store: parses the options, and holds the window.
#pragma once

#include <memory>
#include <vector>

#include "../core/steps/nstep.hpp"
#include "fields.hpp"
#include "one_call.hpp"
#include "python.hpp"

namespace rb {

struct Ring;

struct Nstep {
  Nstep(std::vector<Field> step_fields, std::vector<std::size_t> field_columns, bool prioritized, NstepWindow steps);

  // As add() reads them: rewards in the precision in which they are summed, and no discounts.
  std::vector<Field> fields;
  std::vector<std::size_t> columns;  // of the window, by field
  Keywords keywords;
  // The window's columns are the fields and, for a prioritized ring, priorities (double, NaN if not given) and leaves.
  NstepWindow window;
  // A window per environment, once an add() has passed steps of only some environments; `window` is then empty.
  std::vector<NstepWindow> windows;
  std::size_t waiting() const;
  void clear();
  // Moves the pending steps to a window for each environment.
  void divide(std::size_t environments);
  std::vector<const char*> values;  // of the steps being added, by column of the window
  std::vector<float> leaves;        // of the transitions being stored
  bool taken = false;               // by a call (OneCall)
};

// Parses a dict of "size", "gamma", "rew", "next", "truncated" and "discount"; None becomes null. Raises KeyError,
// TypeError, ValueError.
std::unique_ptr<Nstep> parse_nstep(PyObject* options, const std::vector<Field>& fields, std::size_t environments,
                                   bool prioritized);

// The parts of streams.hpp for a ring with a window. Steps cycle through all environments, unless `environments` names
// an environment for each step.
PyObject* add_steps(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                    const std::vector<npy_int64>* environments = nullptr);
void flush_steps(PyObject* self);
PyObject* waiting_steps(const Ring& ring);

}  // namespace rb
