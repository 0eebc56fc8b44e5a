// Converts arrays of numbers to a field's dtype, and finds the values that the dtype cannot hold.
#pragma once

#include <vector>

#include "python.hpp"

namespace rb {

struct Field;

// For ChangeWarnings::warn.
inline constexpr char kBecomeInfinite[] =
    "%U: numbers too large for its dtype, %S, become infinite, got %S: give the field a wider dtype";

// The fields of one buffer whose values were changed, each of which is named in one warning.
class ChangeWarnings {
 public:
  // Issues a UserWarning unless the field has had one. `what` contains %U for its name, %S for its dtype and %S for
  // `value`. Raises the warning if the user has made it an error.
  void warn(const Field& field, const char* what, PyObject* value);
  bool has(const Field& field) const;
  // Warns of no field of which `other` has warned.
  void follow(const ChangeWarnings& other);

 private:
  std::vector<Ref> warned_;  // names, which are interned
};

// Numbers that were converted: in `array`, or else in the bytes that the caller gave.
struct Converted {
  Ref array;
  std::vector<npy_intp> shape;  // only without an array
};

// Converts array_like `value` to a field's dtype, which may run Python code. Raises OverflowError for a number outside
// the range of an integer dtype, ValueError for one that is not finite, and TypeError for what is no number. Warns,
// once per field, if fractions or imaginary parts are dropped, if finite numbers become infinite, or if other numbers
// than 0 and 1 become True. Rounding to a floating dtype is no change. Raises ValueError if text, raw bytes, dates or
// durations would change. The same holds for the members of structs.
Converted convert(PyObject* value, const Field& field, ChangeWarnings& warnings, std::vector<char>& bytes);

}  // namespace rb
