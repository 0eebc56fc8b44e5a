#include <algorithm>
#include <bit>
#include <cfloat>
#include <functional>
#include <numeric>
#include <utility>

#include "fields.hpp"

namespace rb {
namespace {

Field parse_field(PyObject* entry) {
  PyObject *name, *dtype, *shape;
  if (!PyArg_ParseTuple(entry, "UOO!", &name, &dtype, &PyTuple_Type, &shape)) throw PythonError();
  Field field;
  Py_INCREF(name);
  PyUnicode_InternInPlace(&name);
  field.name = Ref(name);
  PyArray_Descr* descr = nullptr;
  if (!PyArray_DescrConverter(dtype, &descr)) throw PythonError();
  field.dtype = Ref(reinterpret_cast<PyObject*>(descr));
  if (PyDataType_REFCHK(descr))
    raise(PyExc_TypeError, "%U: dtype %R holds Python objects, which can't be stored as bytes", name, dtype);
  if (PyDataType_HASSUBARRAY(descr))
    raise(PyExc_TypeError, "%U: dtype %R must not contain a shape; use \"shape\" for it", name, dtype);
  field.elements = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i) {
    const npy_intp length = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
    if (length == -1 && PyErr_Occurred()) throw PythonError();
    if (length <= 0) raise(PyExc_ValueError, "%U: shape %R must be positive in every dimension", name, shape);
    field.shape.push_back(length);
    if (__builtin_mul_overflow(field.elements, length, &field.elements))
      raise(PyExc_ValueError, "%U: shape %R is too large", name, shape);
  }
  if (field.shape.size() + 1 > 32) raise(PyExc_ValueError, "%U: shape %R has too many dimensions", name, shape);
  Ref itemsize(checked(PyObject_GetAttrString(field.dtype.get(), "itemsize")));
  const npy_intp size = PyLong_AsSsize_t(itemsize.get());
  if (size <= 0) raise(PyExc_ValueError, "%U: dtype %R must have a size above 0", name, dtype);
  if (__builtin_mul_overflow(field.elements, size, &field.bytes))
    raise(PyExc_ValueError, "%U: shape %R is too large", name, shape);
  field.put_numbers = put_numbers_for(descr);
  field.numbers = number_type_of(descr);
  return field;
}

// Returns an axis of `field`, counted from the first one. Raises ValueError.
std::size_t parse_axis(const Field& field, PyObject* axis) {
  const auto axes = static_cast<Py_ssize_t>(std::max<std::size_t>(field.shape.size(), 1));
  const Py_ssize_t given = PyLong_AsSsize_t(axis);
  if (given == -1 && PyErr_Occurred()) throw PythonError();
  if (given < -axes || given >= axes)
    raise(PyExc_ValueError, "stack_compress[%R] must be an axis of the field, from %zd to %zd, got %zd",
          field.name.get(), -axes, axes - 1, given);
  return static_cast<std::size_t>(given < 0 ? given + axes : given);
}

}  // namespace

Field like(const Field& field) {
  Field other;
  other.name = Ref::borrow(field.name.get());
  other.dtype = Ref::borrow(field.dtype.get());
  other.shape = field.shape;
  other.elements = field.elements;
  other.bytes = field.bytes;
  other.put_numbers = field.put_numbers;
  other.numbers = field.numbers;
  return other;
}

std::vector<std::size_t> find_fields(const std::vector<Field>& fields, PyObject* names, const char* option) {
  std::vector<std::size_t> found;
  if (names == nullptr || names == Py_None) return found;
  Ref sequence(checked(PySequence_Fast(names, "names of fields must be a sequence")));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
    PyObject* name = PySequence_Fast_GET_ITEM(sequence.get(), i);
    const auto at = std::find_if(fields.begin(), fields.end(), [name](const Field& field) {
      return PyUnicode_Check(name) && PyUnicode_Compare(name, field.name.get()) == 0;
    });
    if (at == fields.end()) raise(PyExc_KeyError, "%s: there is no field %R", option, name);
    found.push_back(static_cast<std::size_t>(at - fields.begin()));
  }
  return found;
}

std::vector<Field> parse_fields(PyObject* sequence, PyObject* next_of, PyObject* stacked) {
  Ref entries(checked(PySequence_Fast(sequence, "fields must be a sequence")));
  std::vector<Field> fields;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(entries.get()); ++i)
    fields.push_back(parse_field(PySequence_Fast_GET_ITEM(entries.get(), i)));
  // Adds the next fields first, so that `stacked` may refer to next_x as well.
  for (const auto of : find_fields(fields, next_of, "next_of")) {
    Field next = like(fields[of]);
    PyObject* name = checked(PyUnicode_FromFormat("next_%U", fields[of].name.get()));
    PyUnicode_InternInPlace(&name);
    next.name = Ref(name);
    next.next_of = of;
    fields.push_back(std::move(next));
  }
  if (stacked == nullptr || stacked == Py_None) return fields;
  if (!PyDict_Check(stacked)) raise(PyExc_TypeError, "stack_compress must be a dict of axes, got %R", stacked);
  const Ref names(checked(PyDict_Keys(stacked))), axes(checked(PyDict_Values(stacked)));
  Py_ssize_t nth = 0;
  for (const auto f : find_fields(fields, names.get(), "stack_compress")) {
    Field& field = fields[fields[f].next_of == FieldStorage::kNone ? f : fields[f].next_of];
    field.stacked = !field.shape.empty();  // a scalar has no frames
    field.stack_axis = parse_axis(field, PyList_GET_ITEM(axes.get(), nth++));
  }
  return fields;
}

std::string mask_of(const Field& field) {
  const int type = field.descr()->type_num;
  const auto bytes = static_cast<std::size_t>(field.bytes);
  if (!PyTypeNum_ISFLOAT(type) && !PyTypeNum_ISCOMPLEX(type)) return std::string(bytes, '\xff');
  std::string number(PyTypeNum_ISCOMPLEX(type) ? bytes / 2 : bytes, '\0');
  const bool extended = type == NPY_LONGDOUBLE || type == NPY_CLONGDOUBLE;
  const std::size_t used = extended && LDBL_MANT_DIG == 64 ? 10 : number.size();  // x86's long doubles are padded
  std::fill_n(number.begin(), used, '\xff');
  number[used - 1] = '\x7f';
  if (PyDataType_ISBYTESWAPPED(field.descr()) == (std::endian::native == std::endian::little))
    std::reverse(number.begin(), number.end());
  return PyTypeNum_ISCOMPLEX(type) ? number + number : number;
}

std::vector<EpisodeEnd> episode_ends(const std::vector<Field>& fields, PyObject* names, const char* option) {
  std::vector<EpisodeEnd> ends;
  for (const auto f : find_fields(fields, names, option)) ends.push_back({f, mask_of(fields[f])});
  return ends;
}

std::string path_of(PyObject* text, const char* what) {
  if (text == nullptr || text == Py_None) return {};
  if (!PyUnicode_Check(text)) raise(PyExc_TypeError, "%s must be a str, got %R", what, text);
  PyObject* bytes = nullptr;
  if (!PyUnicode_FSConverter(text, &bytes)) {
    if (!PyErr_ExceptionMatches(PyExc_ValueError)) throw PythonError();
    PyErr_Clear();
    raise(PyExc_ValueError, "%s must be valid as part of a file name, got %R", what, text);
  }
  const Ref all(bytes);
  return {PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))};
}

std::vector<FieldStorage> storage_of(const std::vector<Field>& fields, const std::string& prefix) {
  constexpr npy_intp kMostBytes = npy_intp{1} << 46;  // beyond any address space, and sums cannot overflow
  npy_intp total = 0;
  std::vector<FieldStorage> storage;
  for (const auto& field : fields) {
    total += std::min<npy_intp>(field.bytes, kMostBytes);
    if (total >= kMostBytes)
      raise(PyExc_ValueError, "%U: a transition must have fewer than 2^46 bytes", field.name.get());
    Ref align(checked(PyObject_GetAttrString(field.dtype.get(), "alignment")));
    // Rows start at multiples of 8, so no field can rely on a larger alignment.
    const auto alignment = std::min<std::size_t>(static_cast<std::size_t>(PyLong_AsSsize_t(align.get())), 8);
    FieldStorage kept{static_cast<std::size_t>(field.bytes), alignment};
    if (!prefix.empty()) {
      const std::string name = path_of(field.name.get(), "mmap_prefix: a field's name");
      kept.file.append(prefix).append("_").append(name).append(".dat");
    }
    storage.push_back(std::move(kept));
  }
  const auto share_frames = [&](std::size_t f, bool stacked) {
    storage[f].framed = true;
    storage[f].shape = {1, 1, storage[f].bytes};
    if (!stacked) return;
    const auto axis = fields[f].shape.begin() + static_cast<std::ptrdiff_t>(fields[f].stack_axis);
    const auto frames = static_cast<std::size_t>(*axis);
    const auto pieces = static_cast<std::size_t>(
        std::accumulate(fields[f].shape.begin(), axis, npy_intp{1}, std::multiplies<npy_intp>()));
    storage[f].shape = {frames, pieces, storage[f].bytes / pieces / frames};
  };
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const std::size_t of = fields[f].next_of;
    if (fields[f].stacked) share_frames(f, true);
    if (of == FieldStorage::kNone) continue;
    if (!storage[of].framed) share_frames(of, false);
    storage[f].next_of = of;
    storage[f].framed = true;
    storage[f].shape = storage[of].shape;
  }
  return storage;
}

}  // namespace rb
