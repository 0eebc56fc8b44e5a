// Methods that read and restore a buffer's state: see state.cpp.
#pragma once

#include "ring.hpp"

namespace rb {

// Adds them to the type once it is ready. Returns -1 with an exception set on failure.
int add_state_methods(PyTypeObject& type);

}  // namespace rb
