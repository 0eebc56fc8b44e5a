// The fields of a transition as seen from Python, and how add() reads its keyword arguments.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "../core/rows/rows.hpp"
#include "../core/steps/episode_end.hpp"
#include "conversions.hpp"
#include "number_loops.hpp"
#include "numbers.hpp"
#include "python.hpp"

namespace rb {

struct Field {
  Ref name;   // interned str
  Ref dtype;  // PyArray_Descr
  std::vector<npy_intp> shape;
  npy_intp elements;                          // in one row
  npy_intp bytes;                             // in one row
  PutNumbers put_numbers = nullptr;           // converts Python numbers to its elements
  const NumberType* numbers = nullptr;        // how arrays of numbers are converted; null if the field holds none
  bool stacked = false;                       // one of its axes is a sliding window of frames:
  std::size_t stack_axis = 0;                 // this one
  std::size_t next_of = FieldStorage::kNone;  // the field whose next value this field holds
  npy_intp rows = 0;                          // in a batch: the length of its array; 0: as many rows as the batch has

  PyArray_Descr* descr() const { return reinterpret_cast<PyArray_Descr*>(dtype.get()); }
};

// Parses a sequence of (name, dtype, shape). For each name in `next_of`, a field next_NAME is appended; the fields in
// `stacked`, a dict, are stacks of frames along an axis, which may be negative. Raises ValueError, TypeError, KeyError.
std::vector<Field> parse_fields(PyObject* sequence, PyObject* next_of, PyObject* stacked);
// Returns a field with the same name, dtype and shape.
Field like(const Field& field);
// Returns the positions of the fields in `names` (a sequence of str); raises KeyError if one does not exist.
std::vector<std::size_t> find_fields(const std::vector<Field>& fields, PyObject* names, const char* option);
// Returns a mask of the bits that are all 0 if and only if a field's value is zero. It excludes a floating-point
// number's sign bit.
std::string mask_of(const Field& field);
// Returns how the fields in `names` mark the last step of an episode; raises KeyError if one does not exist.
std::vector<EpisodeEnd> episode_ends(const std::vector<Field>& fields, PyObject* names, const char* option);
// Returns how each field is stored: in files {prefix}_{name}.dat unless `prefix` is empty.
std::vector<FieldStorage> storage_of(const std::vector<Field>& fields, const std::string& prefix);
// Converts a str to the bytes of a file name; None becomes empty. Raises a ValueError that begins with `what` if it is
// not a valid file name, TypeError for any other type.
std::string path_of(PyObject* text, const char* what);

// Raises the pending exception again, with the field's name prepended and the original as its cause.
[[noreturn]] void raise_naming(PyObject* name);

// The rows of one field in one call of add(): a view of the caller's array, or a converted copy.
struct Source {
  const char* data = nullptr;
  npy_intp rows = 0;
  Ref owner;                             // NumPy's converted copy, if any
  alignas(16) std::array<char, 32> own;  // the value of a scalar; wide enough for clongdouble
  std::vector<char> converted;           // the elements of a list, or of an array of a different dtype

  // Releases large memory instead of keeping it for the next call.
  void release() {
    owner = Ref();
    if (converted.capacity() > (std::size_t{1} << 20)) converted = {};
  }
};

// Thrown if add() was passed the keyword env_ids, which Python code handles. Other methods do not take it.
struct EnvironmentsGiven : std::exception {
  const char* what() const noexcept override { return "env_ids must be passed to add()"; }
};

// Maps the keywords of a call to fields. Calls from one place in the code pass the same names in the same order, so the
// result is cached between calls.
class Keywords {
 public:
  static constexpr int kIgnored = -1, kPriorities = -2;

  explicit Keywords(bool takes_priorities) : takes_priorities_(takes_priorities) {}

  // meaning()[i] is the field of keyword i, or kIgnored or kPriorities. Raises KeyError if a field is missing. Issues a
  // UserWarning when a name is ignored for the first time.
  const std::vector<int>& meaning(PyObject* names, const std::vector<Field>& fields);

 private:
  bool matches(PyObject* names) const;
  void warn_of(const std::vector<PyObject*>& ignored, const std::vector<Field>& fields);

  bool takes_priorities_;
  std::vector<Ref> names_;
  std::vector<int> meaning_;
  std::vector<Ref> warned_;  // ignored names
};

// Reads every value, converting it if needed. Returns the number of rows, which is the same for all fields. Raises
// ValueError, TypeError or OverflowError naming the field; see `convert` for cases that cause only a warning. The
// buffer is not changed, and no Python code runs between the last conversion and the return.
npy_intp read_sources(const std::vector<Field>& fields, PyObject* const* values, ChangeWarnings& warnings,
                      std::vector<Source>& sources);

// Whether numbers of `type` can be read in place.
bool has_plain_numbers(const Ref& array, int type);

// Numbers passed by a caller (priorities): one Python float, or a C-ordered array of double or float.
struct Numbers {
  Ref array;              // empty: a single number
  int type = NPY_DOUBLE;  // of the array
  double one = 0;

  // Raises TypeError or ValueError naming `what`.
  Numbers() = default;
  Numbers(PyObject* object, const char* what);

  // Whether Python code has changed the array since it was read.
  bool changed() const { return array && !has_plain_numbers(array, type); }
  npy_intp size() const { return array ? PyArray_SIZE(array.array()) : 1; }
  bool is_scalar() const { return !array || PyArray_NDIM(array.array()) == 0; }
  // Calls read(first) with a pointer to the first number.
  template <class Read>
  auto read(Read&& read) const {
    if (!array) return read(&one);
    const void* data = PyArray_DATA(array.array());
    return type == NPY_FLOAT ? read(static_cast<const float*>(data)) : read(static_cast<const double*>(data));
  }
};

// Returns `object` as a C-ordered array of int64, without copying if it already is such an array. Floats must be whole
// numbers. Raises TypeError (for bools, too), ValueError, or IndexError for a number that int64 cannot hold.
Ref as_indexes(PyObject* object);

}  // namespace rb
