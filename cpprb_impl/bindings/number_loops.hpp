// The types of numbers, and loops that convert numbers between them and find those that the other type cannot hold.
#pragma once

#include <array>
#include <cmath>
#include <limits>

#include "../core/steps/nstep.hpp"
#include "python.hpp"

namespace rb {

// The types of C that loops convert from. Numbers of the others become one of these first, which holds them exactly:
// loops for each pair of types would be three times the code.
enum Wide { kInt, kLongLong, kULongLong, kDouble, kLongDouble, kWideTypes };

// What a loop found. A number is changed if a warning is enough, and refused if it needs an error.
constexpr unsigned kChanged = 1, kRefused = 2;
using NumberLoop = unsigned (*)(const void* from, npy_intp count, void* to);

struct NumberType {
  enum class Kind { truth, integer, real, complex } kind;
  int computed;    // type of C that the loops write; of a complex number's parts
  npy_intp bytes;  // of a number of that type
  std::array<NumberLoop, kWideTypes> loops;
  long long least = 0;  // of integers
  unsigned long long most = 0;
};

// Returns how numbers are converted to `dtype`; null if NumPy must do it, because the dtype holds no numbers.
const NumberType* number_type_of(PyArray_Descr* dtype);

// Converts `count` numbers of a type of C to to_type.computed. Returns what the loops found.
unsigned convert_numbers(const NumberType& to_type, int type, const char* from, npy_intp count, char* to);

template <class Real>
bool is_finite(Real number) {
  return std::abs(number) <= std::numeric_limits<Real>::max();
}

}  // namespace rb
