// The types of numbers, and loops that convert between them and find numbers that the target type cannot hold.
#pragma once

#include <array>
#include <cmath>
#include <limits>

#include "../core/steps/nstep.hpp"
#include "python.hpp"

namespace rb {

// The C types that loops convert from. Numbers of other types are first converted to one of these that holds them
// exactly: loops for every pair of types would be three times the code.
enum Wide { kInt, kLongLong, kULongLong, kDouble, kLongDouble, kWideTypes };

// What a loop found. A number is changed if a warning suffices, and refused if it requires an error.
constexpr unsigned kChanged = 1, kRefused = 2;
using NumberLoop = unsigned (*)(const void* from, npy_intp count, void* to);

struct NumberType {
  enum class Kind { truth, integer, real, complex } kind;
  int computed;    // C type that the loops write; of a complex number's parts
  npy_intp bytes;  // of a number of that type
  std::array<NumberLoop, kWideTypes> loops;
  long long least = 0;  // of integers
  unsigned long long most = 0;
};

// Returns how numbers are converted to `dtype`; null if NumPy must do it, because the dtype is not numeric.
const NumberType* number_type_of(PyArray_Descr* dtype);

// Converts `count` numbers of a C type to to_type.computed. Returns what the loops found.
unsigned convert_numbers(const NumberType& to_type, int type, const char* from, npy_intp count, char* to);

template <class Real>
bool is_finite(Real number) {
  return std::abs(number) <= std::numeric_limits<Real>::max();
}

}  // namespace rb
