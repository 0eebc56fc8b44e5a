// Converts arrays of numbers to a field's dtype, and finds values that the dtype cannot hold.
#pragma once

#include <vector>

#include "python.hpp"

namespace rb {

struct Field;

// For ChangeWarnings::warn.
inline constexpr char kBecomeInfinite[] =
    "%U: numbers too large for its dtype, %S, become infinite, got %S: give the field a wider dtype";

// The fields of a buffer whose values were changed; each is named in one warning.
class ChangeWarnings {
 public:
  // Issues a UserWarning, at most one per field. `what` contains %U for the field's name, %S for its dtype and %S for
  // `value`. Raises the warning if the user has turned it into an error.
  void warn(const Field& field, const char* what, PyObject* value);
  bool has(const Field& field) const;
  // Suppresses warnings about fields of which `other` has warned.
  void follow(const ChangeWarnings& other);

 private:
  std::vector<Ref> warned_;  // names, which are interned
};

// Converted numbers: in `array`, or else in the bytes that the caller passed.
struct Converted {
  Ref array;
  std::vector<npy_intp> shape;  // only without an array
};

// Converts array_like `value` to a field's dtype, which may run Python code. Raises OverflowError for a number outside
// an integer dtype's range, ValueError if it is not finite, and TypeError for a value that is not a number. Warns, once
// per field, if fractions or imaginary parts are dropped, if finite numbers become infinite, or if numbers other than 0
// and 1 become True. Rounding to a floating dtype does not count as a change. Raises ValueError if text, raw bytes,
// dates or durations would change. The same holds for the members of structs.
Converted convert(PyObject* value, const Field& field, ChangeWarnings& warnings, std::vector<char>& bytes);

}  // namespace rb
