// Python numbers, alone or in nested lists, straight into a field's type: NumPy would first walk
// through them to find out what they are, which the field says already.
#pragma once

#include <vector>

#include "python.hpp"

namespace rb {

enum class Put { done, left_to_numpy, too_large };

// Writes `count` Python floats, ints or bools, one behind the other. Runs no Python code.
using PutNumbers = Put (*)(PyObject* const* items, Py_ssize_t count, char* to);

// For elements of `dtype`; null where NumPy must do it.
PutNumbers put_numbers_for(PyArray_Descr* dtype);

// Reads a list or tuple, nested to any depth, of numbers: its dimensions to `dims`, its elements, `size`
// bytes each, to `to`. left_to_numpy: ragged, or something else is in it.
Put read_nested(PyObject* list, PutNumbers put, std::size_t size, std::vector<npy_intp>& dims, std::vector<char>& to);

}  // namespace rb
