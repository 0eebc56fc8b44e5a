#include "fields.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rb {
namespace {

// Whether `value` is an array of the field's own type in C order, whose bytes can be copied directly.
bool usable_as_is(const Field& field, PyObject* value) {
  if (!PyArray_Check(value)) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(value);
  if (!PyArray_IS_C_CONTIGUOUS(array)) return false;
  return PyArray_DESCR(array) == field.descr() || PyArray_EquivTypes(PyArray_DESCR(array), field.descr());
}

// Whether `object` is an array whose numbers can be read in place.
bool is_plain(PyObject* object, int type) {
  if (!PyArray_CheckExact(object)) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  return PyArray_TYPE(array) == type && PyArray_ISCARRAY_RO(array);
}

// Whether these axes are a row's, in order; consecutive axes may be merged. A row with several axes can thus be flat,
// but an image (84, 84, 3) is not a row of (3, 84, 84). A row with one axis has no order that could differ.
bool merges_axes(const Field& field, const npy_intp* dims, int dimensions) {
  const auto wanted = static_cast<int>(field.shape.size());
  if (wanted < 2 || field.elements == 1) return true;
  if (dimensions >= wanted) return false;
  auto length = field.shape.begin();
  for (int d = 0; d < dimensions; ++d) {
    npy_intp merged = 1;
    while (merged < dims[d] && length != field.shape.end()) merged *= *length++;
    if (merged != dims[d]) return false;
  }
  return true;
}

// Implements `count_rows` for rows that do not have the field's shape.
[[gnu::noinline]] npy_intp count_other_rows(const Field& field, const npy_intp* dims, int dimensions) {
  const auto& shape = field.shape;
  const int wanted = static_cast<int>(shape.size()), more = dimensions - wanted;
  if (field.elements == 1 && dimensions == 1) return dims[0];
  npy_intp size = 1;
  for (int d = 0; d < dimensions; ++d) size *= dims[d];
  if (more > 0 && std::equal(shape.begin(), shape.end(), dims + more)) return size / field.elements;
  if (size == field.elements && (dimensions == 1 || merges_axes(field, dims, dimensions))) return 1;
  if (size % field.elements == 0) {
    if (dimensions == 1 || field.elements == 1) return size / field.elements;
    if (dims[0] == size / field.elements && merges_axes(field, dims + 1, dimensions - 1)) return dims[0];
  }
  const auto tuple = [](const npy_intp* lengths, int count) {
    Ref all(checked(PyTuple_New(count)));
    for (int d = 0; d < count; ++d) PyTuple_SET_ITEM(all.get(), d, checked(PyLong_FromSsize_t(lengths[d])));
    return all;
  };
  raise(PyExc_ValueError, "%U: shape %R does not hold rows of shape %R", field.name.get(),
        tuple(dims, dimensions).get(), tuple(shape.data(), wanted).get());
}

// Returns how many rows an array holds. A single row may lack its leading axis, and flat data is split into rows.
// Anything else, such as (2, 6) for rows of (4,), is the caller's mistake.
npy_intp count_rows(const Field& field, const npy_intp* dims, int dimensions) {
  const auto& shape = field.shape;
  const int more = dimensions - static_cast<int>(shape.size());
  if ((more == 0 || more == 1) && std::equal(shape.begin(), shape.end(), dims + more)) [[likely]]
    return more == 0 ? 1 : dims[0];
  return count_other_rows(field, dims, dimensions);
}

// Reads numbers and lists of them without NumPy. Returns false if NumPy must read them.
bool read_python_numbers(const Field& field, PyObject* value, Source& source) {
  if (field.put_numbers == nullptr) return false;
  bool put = false;
  if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) {
    std::vector<npy_intp> dims;
    const auto size = static_cast<std::size_t>(field.bytes / field.elements);
    put = read_nested(value, field.put_numbers, size, dims, source.converted);
    if (put) {
      source.rows = count_rows(field, dims.data(), static_cast<int>(dims.size()));
      source.data = source.converted.data();
    }
  } else if (field.elements == 1) {
    put = field.put_numbers(&value, 1, source.own.data());
    source.rows = 1;
    source.data = source.own.data();
  }
  if (!put) source.data = nullptr;
  return put;
}

// Reads anything through an array, which may run Python code.
void read_converted(const Field& field, PyObject* value, ChangeWarnings& warnings, Source& source) {
  Converted converted = convert(value, field, warnings, source.converted);
  source.owner = std::move(converted.array);
  if (source.owner) return;
  source.rows = count_rows(field, converted.shape.data(), static_cast<int>(converted.shape.size()));
  source.data = source.converted.data();
}

[[noreturn]] void raise_converting(const char* what) { raise_naming(Ref(checked(PyUnicode_FromString(what))).get()); }

Ref c_array_of(const Ref& array, int type, const char* what) {
  Ref converted(PyArray_FROMANY(array.get(), type, 0, 0, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST));
  if (!converted) raise_converting(what);
  return converted;
}

bool has_masked(PyObject* array) {
  const Ref module(checked(PyImport_ImportModule("numpy.ma")));
  const Ref masked(checked(PyObject_CallMethod(module.get(), "is_masked", "O", array)));
  return PyObject_IsTrue(masked.get()) == 1;
}

// Converts a PyTorch tensor that NumPy cannot read, such as a bfloat16 tensor or one that requires gradients, to an
// array of doubles. Empty for any other object, with no error set.
Ref doubles_of_tensor(PyObject* object) {
  Ref value = Ref::borrow(object);
  for (const char* method : {"detach", "cpu", "double", "numpy"}) {
    value = Ref(PyObject_CallMethod(value.get(), method, nullptr));
    if (!value) {
      PyErr_Clear();
      return {};
    }
  }
  return PyArray_Check(value.get()) ? std::move(value) : Ref();
}

// Returns `object` as an array of real numbers of any type. Rejects values that NumPy would convert although they are
// not numbers. Raises TypeError, or ValueError for text (even "4") and masked numbers.
Ref real_numbers(PyObject* object, const char* what) {
  if (PyArray_Check(object) && !PyArray_CheckExact(object) && has_masked(object))
    raise(PyExc_ValueError, "%s must not be masked, got %R", what, object);
  Ref array(PyArray_FROM_O(object));
  if (!array) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    array = doubles_of_tensor(object);
    Ref first_type(type), first(value), first_trace(trace);
    if (!array) {
      PyErr_Restore(first_type.give(), first.give(), first_trace.give());
      raise_converting(what);
    }
  }
  const int type = PyArray_TYPE(array.array());
  bool text = PyTypeNum_ISFLEXIBLE(type);
  if (type == NPY_OBJECT) {
    array = c_array_of(array, NPY_OBJECT, what);
    auto* const* item = static_cast<PyObject**>(PyArray_DATA(array.array()));
    for (npy_intp i = 0; i < PyArray_SIZE(array.array()); ++i)
      text |= item[i] == nullptr || PyUnicode_Check(item[i]) || PyBytes_Check(item[i]);
  }
  if (text || PyTypeNum_ISCOMPLEX(type) || PyTypeNum_ISDATETIME(type))
    raise(text ? PyExc_ValueError : PyExc_TypeError, "%s must be numbers, got %R", what, object);
  return array;
}

[[noreturn]] void raise_no_slot(npy_intp place, PyObject* index) {
  const Ref whole(checked(index));
  raise(PyExc_IndexError, "indexes[%zd] is %S, where no transition is stored", place, whole.get());
}

// Raises ValueError unless `index` is a whole number, IndexError unless it fits in int64.
void check_index(npy_intp place, double index) {
  if (!std::isfinite(index) || index != std::trunc(index))
    raise(PyExc_ValueError, "indexes[%zd] must be a whole number, got %R", place,
          Ref(checked(PyFloat_FromDouble(index))).get());
  if (!(std::abs(index) < 0x1p63)) raise_no_slot(place, PyLong_FromDouble(index));
}

void check_index(npy_intp place, npy_uint64 index) {
  if (!std::in_range<npy_int64>(index)) raise_no_slot(place, PyLong_FromUnsignedLongLong(index));
}

// A mask would be read as the indexes 0 and 1.
[[noreturn]] void raise_mask(PyObject* given) {
  raise(PyExc_TypeError, "indexes must be numbers, got %R: pass np.flatnonzero(mask) for a mask of bools", given);
}

void check_index(npy_intp place, PyObject* index) {
  if (PyBool_Check(index) || PyArray_IsScalar(index, Bool)) raise_mask(index);
  int overflow = 0;
  if (PyLong_Check(index)) PyLong_AsLongLongAndOverflow(index, &overflow);
  if (overflow != 0) raise_no_slot(place, Py_NewRef(index));
  if (PyFloat_Check(index)) check_index(place, PyFloat_AS_DOUBLE(index));
}

// Joins the names as 'a', 'b'.
Ref quoted(const std::vector<PyObject*>& names) {
  const Ref all(checked(PyList_New(0))), comma(checked(PyUnicode_FromString(", ")));
  for (PyObject* name : names)
    if (PyList_Append(all.get(), Ref(checked(PyObject_Repr(name))).get()) < 0) throw PythonError();
  return Ref(checked(PyUnicode_Join(comma.get(), all.get())));
}

[[noreturn]] void raise_missing(const std::vector<Field>& fields, const std::vector<bool>& given, PyObject* names) {
  std::vector<PyObject*> missing, passed;
  for (std::size_t f = 0; f < fields.size(); ++f)
    if (!given[f]) missing.push_back(fields[f].name.get());
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i)
    passed.push_back(PyTuple_GET_ITEM(names, i));
  const Ref lacks = quoted(missing), got = quoted(passed);
  raise(PyExc_KeyError, "add() must be given every field: %U missing, got %U", lacks.get(),
        passed.empty() ? Ref(checked(PyUnicode_FromString("none"))).get() : got.get());
}

// Whether `name` appears in prioritized samples or in add() of prioritized buffers. Code for either kind of buffer may
// pass it to both.
bool is_of_priorities(PyObject* name) {
  return std::ranges::any_of(std::array{"priorities", "weights", "indexes"},
                             [name](const char* known) { return PyUnicode_CompareWithASCIIString(name, known) == 0; });
}

// Returns `indexes` in C order, after checking that each can be converted to int64 exactly.
template <class Index>
Ref checked_indexes(const Ref& indexes, int type) {
  Ref array = c_array_of(indexes, type, "indexes");
  const auto* index = static_cast<const Index*>(PyArray_DATA(array.array()));
  for (npy_intp i = 0; i < PyArray_SIZE(array.array()); ++i) check_index(i, index[i]);
  return array;
}

}  // namespace

void raise_naming(PyObject* name) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  Ref first(value), first_type(type), first_trace(trace);
  const bool an_error =
      PyErr_GivenExceptionMatches(type, PyExc_Exception) && !PyErr_GivenExceptionMatches(type, PyExc_MemoryError);
  if (!an_error) {
    PyErr_Restore(first_type.give(), first.give(), first_trace.give());
    throw PythonError();
  }
  PyObject* kind = PyErr_GivenExceptionMatches(type, PyExc_TypeError)       ? PyExc_TypeError
                   : PyErr_GivenExceptionMatches(type, PyExc_OverflowError) ? PyExc_OverflowError
                                                                            : PyExc_ValueError;
  PyErr_Format(kind, "%U: %S", name, first.get());
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyException_SetCause(value, first.give());
  PyErr_Restore(type, value, trace);
  throw PythonError();
}

bool Keywords::matches(PyObject* names) const {
  const auto count = static_cast<std::size_t>(names ? PyTuple_GET_SIZE(names) : 0);
  if (count != names_.size()) return false;
  for (std::size_t i = 0; i < count; ++i)
    if (PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i)) != names_[i].get()) return false;
  return true;
}

const std::vector<int>& Keywords::meaning(PyObject* names, const std::vector<Field>& fields) {
  if (!meaning_.empty() && matches(names)) return meaning_;
  const Py_ssize_t count = names ? PyTuple_GET_SIZE(names) : 0;
  std::vector<int> meaning;
  std::vector<bool> given(fields.size());
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    // A subclass of str could run its own code when it is compared or destroyed.
    if (!PyUnicode_CheckExact(name))
      raise(PyExc_TypeError, "keyword names must be of type str, not of a subclass, got %R", name);
    int found = kIgnored;
    for (std::size_t f = 0; f < fields.size() && found == kIgnored; ++f)
      if (PyUnicode_Compare(name, fields[f].name.get()) == 0) found = static_cast<int>(f);
    if (found >= 0) given[static_cast<std::size_t>(found)] = true;
    if (found == kIgnored && takes_priorities_ && PyUnicode_CompareWithASCIIString(name, "priorities") == 0)
      found = kPriorities;
    if (found == kIgnored && PyUnicode_CompareWithASCIIString(name, "env_ids") == 0) throw EnvironmentsGiven();
    meaning.push_back(found);
  }
  if (std::ranges::find(given, false) != given.end()) raise_missing(fields, given, names);
  std::vector<PyObject*> ignored;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (PyObject* name = PyTuple_GET_ITEM(names, i); meaning[static_cast<std::size_t>(i)] == kIgnored)
      ignored.push_back(name);
  warn_of(ignored, fields);
  names_.clear();
  for (Py_ssize_t i = 0; i < count; ++i) names_.push_back(Ref::borrow(PyTuple_GET_ITEM(names, i)));
  meaning_ = std::move(meaning);
  return meaning_;
}

void Keywords::warn_of(const std::vector<PyObject*>& ignored, const std::vector<Field>& fields) {
  const std::size_t before = warned_.size();
  std::vector<PyObject*> unknown;
  for (PyObject* name : ignored) {
    const auto is_this = [name](const Ref& other) { return PyUnicode_Compare(other.get(), name) == 0; };
    if (is_of_priorities(name) || std::ranges::any_of(warned_, is_this)) continue;
    unknown.push_back(name);
    warned_.push_back(Ref::borrow(name));  // first, because a warning may run code that calls add() again
  }
  if (unknown.empty()) return;
  std::vector<PyObject*> known;
  for (const auto& field : fields) known.push_back(field.name.get());
  const Ref given = quoted(unknown), taken = quoted(known);
  if (warn_caller("add() ignores %U: the fields are %U", given.get(), taken.get()) == 0) return;
  // A filter turned the warning into an error, which the next call raises again.
  warned_.erase(warned_.begin() + static_cast<std::ptrdiff_t>(std::min(before, warned_.size())), warned_.end());
  throw PythonError();
}

npy_intp read_sources(const std::vector<Field>& fields, PyObject* const* values, ChangeWarnings& warnings,
                      std::vector<Source>& sources) {
  sources.resize(fields.size());
  // First do everything that may run Python code (an object's __array__ or __float__), which could change the caller's
  // arrays. Only then check the arrays again and take pointers into them.
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const Field& field = fields[f];
    Source& source = sources[f];
    source.owner = Ref();
    source.data = nullptr;
    if (usable_as_is(field, values[f])) continue;
    if (read_python_numbers(field, values[f], source)) continue;
    read_converted(field, values[f], warnings, source);
  }
  for (std::size_t f = 0; f < fields.size(); ++f) {
    Source& source = sources[f];
    if (source.data != nullptr) continue;
    if (!source.owner && !usable_as_is(fields[f], values[f]))
      raise(PyExc_ValueError, "%U: the array was changed while another field was being converted",
            fields[f].name.get());
    auto* array = source.owner ? source.owner.array() : reinterpret_cast<PyArrayObject*>(values[f]);
    source.rows = count_rows(fields[f], PyArray_DIMS(array), PyArray_NDIM(array));
    source.data = PyArray_BYTES(array);
    if (source.rows == 0) raise(PyExc_ValueError, "%U: no rows", fields[f].name.get());
  }
  for (std::size_t f = 1; f < fields.size(); ++f)
    if (sources[f].rows != sources[0].rows)
      raise(PyExc_ValueError, "%U: %zd rows, but %U has %zd", fields[f].name.get(), sources[f].rows,
            fields[0].name.get(), sources[0].rows);
  return fields.empty() ? 0 : sources[0].rows;
}

bool has_plain_numbers(const Ref& array, int type) {
  // NumPy does not convert between C types with the same machine representation, such as long and long long.
  const int own = PyArray_TYPE(array.array());
  return (own == type || PyArray_EquivTypenums(own, type)) && PyArray_ISCARRAY_RO(array.array());
}

Numbers::Numbers(PyObject* object, const char* what) {
  if (object == nullptr || object == Py_None) raise(PyExc_TypeError, "%s must be numbers, not None", what);
  if (PyFloat_Check(object)) {
    one = PyFloat_AS_DOUBLE(object);
  } else if (PyLong_CheckExact(object)) {
    one = PyLong_AsDouble(object);
    if (PyErr_Occurred()) raise_converting(what);
  } else if (is_plain(object, NPY_DOUBLE) || is_plain(object, NPY_FLOAT)) {
    array = Ref::borrow(object);
    type = PyArray_TYPE(array.array());
  } else {
    array = c_array_of(real_numbers(object, what), NPY_DOUBLE, what);
  }
}

Ref as_indexes(PyObject* object) {
  if (is_plain(object, NPY_INT64)) return Ref::borrow(object);
  Ref array = real_numbers(object, "indexes");
  if (PyArray_ISBOOL(array.array())) raise_mask(object);
  if (PyArray_ISFLOAT(array.array()))
    array = checked_indexes<double>(array, NPY_DOUBLE);
  else if (PyArray_ISOBJECT(array.array()))
    array = checked_indexes<PyObject*>(array, NPY_OBJECT);
  else if (PyArray_ISUNSIGNED(array.array()))
    array = checked_indexes<npy_uint64>(array, NPY_UINT64);
  return c_array_of(array, NPY_INT64, "indexes");
}

}  // namespace rb
