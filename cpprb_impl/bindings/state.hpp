// Methods that read and restore a buffer's state: see state.cpp.
#pragma once

#include "ring.hpp"

namespace rb {

// Adds `methods`, which end with one without a name, to `type`, which must be ready. Returns -1 with an exception set
// on failure.
int add_methods(PyTypeObject& type, PyMethodDef* methods);
int add_state_methods(PyTypeObject& type);

}  // namespace rb
