// Converts Python numbers, alone or in nested lists, directly to a field's type. NumPy would first traverse them to
// find their type, which the field already determines.
#pragma once

#include <vector>

#include "python.hpp"

namespace rb {

// Writes `count` Python floats, ints or bools contiguously. Returns false if NumPy, and thus `convert`, must read them,
// such as numbers that the elements cannot hold. Runs no Python code.
using PutNumbers = bool (*)(PyObject* const* items, Py_ssize_t count, char* to);

// Returns the converter for elements of `dtype`; null if NumPy must convert them.
PutNumbers put_numbers_for(PyArray_Descr* dtype);

// Reads a list or tuple of numbers, nested to any depth. Stores its dimensions in `dims` and its elements, `size` bytes
// each, in `to`. Returns false if it is ragged or contains anything else.
bool read_nested(PyObject* list, PutNumbers put, std::size_t size, std::vector<npy_intp>& dims, std::vector<char>& to);

}  // namespace rb
