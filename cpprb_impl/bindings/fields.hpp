// The fields of a transition as Python sees them, and what add() makes of its keyword arguments.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "../core/row_layout.hpp"
#include "python.hpp"

namespace rb {

struct Field {
  Ref name;   // interned str
  Ref dtype;  // PyArray_Descr
  std::vector<npy_intp> shape;
  npy_intp elements;  // in one row
  npy_intp bytes;     // in one row

  PyArray_Descr* descr() const { return reinterpret_cast<PyArray_Descr*>(dtype.get()); }
  const char* text() const { return PyUnicode_AsUTF8(name.get()); }
};

// From a sequence of (name, dtype, shape); raises ValueError, TypeError.
std::vector<Field> parse_fields(PyObject* sequence);
RowLayout layout_of(const std::vector<Field>& fields);

// The rows of one field in one call of add(): a view of the caller's array, or a converted copy.
struct Source {
  const char* data = nullptr;
  npy_intp rows = 0;
  Ref owner;                             // the converted copy, if there is one
  alignas(16) std::array<char, 32> own;  // the value of a scalar; wide enough for clongdouble
};

// Which field each keyword of a call fills. Calls from one place in the code pass the same names in
// the same order, so the answer is kept from call to call.
class Keywords {
 public:
  static constexpr int kIgnored = -1, kPriorities = -2;

  explicit Keywords(bool takes_priorities) : takes_priorities_(takes_priorities) {}

  // meaning()[i] is for keyword i: a field's number, kIgnored or kPriorities. Raises KeyError when a
  // field is missing.
  const std::vector<int>& meaning(PyObject* names, const std::vector<Field>& fields);

 private:
  bool matches(PyObject* names) const;

  bool takes_priorities_;
  std::vector<Ref> names_;
  std::vector<int> meaning_;
};

// Reads every value, converting where needed; returns the number of rows, the same for all fields.
// Raises ValueError, TypeError or OverflowError naming the field. Nothing of the buffer is touched,
// and no Python code runs between the last conversion and the return.
npy_intp read_sources(const std::vector<Field>& fields, PyObject* const* values, std::vector<Source>& sources);

// `object` as a C-ordered double array (priorities); raises TypeError, ValueError.
Ref as_doubles(PyObject* object, const char* what);
// A copy of the indexes in `object`; raises TypeError, ValueError.
std::vector<npy_int64> read_indexes(PyObject* object);

}  // namespace rb
