// Methods that read and restore a buffer's state: see state.cpp.
#pragma once

#include <algorithm>
#include <vector>

#include "ring.hpp"

namespace rb {

template <class Number>
PyObject* int64_array(const std::vector<Number>& numbers) {
  auto count = static_cast<npy_intp>(numbers.size());
  Ref array(checked(PyArray_SimpleNew(1, &count, NPY_INT64)));
  std::copy(numbers.begin(), numbers.end(), static_cast<npy_int64*>(PyArray_DATA(array.array())));
  return array.give();
}

// Raises TypeError or ValueError, which names `what`, unless the value is a number from 0 to 2^64 - 1.
std::uint64_t unsigned_number(PyObject* value, const char* what);

// Adds `methods`, which end with one without a name, to `type`, which must be ready. Returns -1 with an exception set
// on failure.
int add_methods(PyTypeObject& type, PyMethodDef* methods);
int add_state_methods(PyTypeObject& type);

}  // namespace rb
