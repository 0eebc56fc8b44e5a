// The fields of a transition as Python sees them, and what add() makes of its keyword arguments.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "../core/rows.hpp"
#include "numbers.hpp"
#include "python.hpp"

namespace rb {

struct Field {
  Ref name;   // interned str
  Ref dtype;  // PyArray_Descr
  std::vector<npy_intp> shape;
  npy_intp elements;                          // in one row
  npy_intp bytes;                             // in one row
  PutNumbers put_numbers = nullptr;           // how Python numbers become its elements
  bool stacked = false;                       // its last dimension is a sliding window of frames
  std::size_t next_of = FieldStorage::kNone;  // the field whose value one step later this is

  PyArray_Descr* descr() const { return reinterpret_cast<PyArray_Descr*>(dtype.get()); }
};

// From a sequence of (name, dtype, shape); for each name in `next_of` a field next_NAME comes behind the
// others, and those in `stacked` are stacks of frames. Raises ValueError, TypeError, KeyError.
std::vector<Field> parse_fields(PyObject* sequence, PyObject* next_of, PyObject* stacked);
// A field of the same name, dtype and shape.
Field like(const Field& field);
// The numbers of the fields that `names` (a sequence of str) names; raises KeyError for one that is not there.
std::vector<std::size_t> find_fields(const std::vector<Field>& fields, PyObject* names, const char* option);
// What is to be kept of each; in files {prefix}_{name}.dat unless `prefix` is empty.
std::vector<FieldStorage> storage_of(const std::vector<Field>& fields, const std::string& prefix);
// A str as the bytes of a file's name; empty for None. Raises a ValueError that begins with `what` if no file can have
// that name, TypeError for anything else.
std::string path_of(PyObject* text, const char* what);

// The rows of one field in one call of add(): a view of the caller's array, or a converted copy.
struct Source {
  const char* data = nullptr;
  npy_intp rows = 0;
  Ref owner;                             // NumPy's converted copy, if there is one
  alignas(16) std::array<char, 32> own;  // the value of a scalar; wide enough for clongdouble
  std::vector<char> converted;           // the elements of a list

  // Large memory is not kept for the next call.
  void let_go() {
    owner = Ref();
    if (converted.capacity() > (std::size_t{1} << 20)) converted = {};
  }
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

// Whether numbers of `type` can be read where they stand.
bool has_plain_numbers(const Ref& array, int type);

// Numbers that a caller gave (priorities): one Python float, or a C-ordered array of double or float.
struct Numbers {
  Ref array;              // empty: the one
  int type = NPY_DOUBLE;  // of the array
  double one = 0;

  // Raises TypeError, ValueError naming `what`.
  Numbers() = default;
  Numbers(PyObject* object, const char* what);

  // Whether it is not what it was: since then Python code ran.
  bool changed() const { return array && !has_plain_numbers(array, type); }
  npy_intp size() const { return array ? PyArray_SIZE(array.array()) : 1; }
  bool is_scalar() const { return !array || PyArray_NDIM(array.array()) == 0; }
  // read(first) with a pointer to the first number.
  template <class Read>
  auto read(Read&& read) const {
    if (!array) return read(&one);
    const void* data = PyArray_DATA(array.array());
    return type == NPY_FLOAT ? read(static_cast<const float*>(data)) : read(static_cast<const double*>(data));
  }
};

// `object` as a C-ordered array of int64; itself if it is one already. Floats must be whole numbers. Raises TypeError,
// ValueError, and IndexError for what int64 can't hold.
Ref as_indexes(PyObject* object);

}  // namespace rb
