// The methods with which a buffer's state goes out and in: see state.cpp.
#pragma once

#include "ring.hpp"

namespace rb {

// Once the type is ready; returns -1 with an exception set.
int add_state_methods(PyTypeObject& type);

}  // namespace rb
