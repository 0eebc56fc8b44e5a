#include "conversions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "fields.hpp"

namespace rb {

namespace {

using Kind = NumberType::Kind;

constexpr const char* kFractions =
    "%U: fractions are cut off, since its dtype is %S, got %S: scale the values before they are added, or give the "
    "field a floating dtype";

// Returns `array`, or a copy, as C-ordered numbers of that type in native byte order.
Ref in_order(const Ref& array, int type) {
  if (PyArray_TYPE(array.array()) == type && PyArray_ISCARRAY_RO(array.array())) return Ref::borrow(array.get());
  return Ref(checked(PyArray_FROMANY(array.get(), type, 0, 0, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST)));
}

// Calls `convert`, returns its result, and adds the field's name to NumPy's errors.
template <class Convert>
Ref naming(const Field& field, Convert&& convert) {
  try {
    return convert();
  } catch (const PythonError&) {
    raise_naming(field.name.get());
  }
}

// Returns `value` as a C-ordered array of that dtype, converted by NumPy.
Ref as_dtype(PyObject* value, PyArray_Descr* dtype) {
  Py_INCREF(dtype);  // PyArray_FromAny steals a reference
  return Ref(checked(PyArray_FromAny(value, dtype, 0, 0, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST, nullptr)));
}

Ref with_dtype(const Ref& array, const Field& field) { return as_dtype(array.get(), field.descr()); }

bool is_number(PyObject* object) {
  return PyLong_Check(object) || PyFloat_Check(object) || PyArray_IsScalar(object, Number) ||
         PyArray_IsScalar(object, Bool);
}

// Returns an object as a long double, which holds every 64-bit integer; a larger integer becomes a number outside every
// range. As in NumPy, None is NaN, a bool field holds an object's truth value, and integers may be text.
long double number_of(PyObject* object, Kind wanted) {
  const bool is_text = wanted != Kind::real && (PyUnicode_Check(object) || PyBytes_Check(object));
  if (wanted == Kind::truth && !is_text && !is_number(object)) {
    const int truth = PyObject_IsTrue(object);
    if (truth < 0) throw PythonError();
    return truth;
  }
  if (object == Py_None) return std::numeric_limits<long double>::quiet_NaN();
  if (!is_text && !PyLong_Check(object) && !PyArray_IsScalar(object, Integer)) {
    const Ref number(checked(PyNumber_Float(object)));
    return PyFloat_AS_DOUBLE(number.get());
  }
  const Ref whole(checked(is_text ? PyNumber_Long(object) : PyNumber_Index(object)));
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(whole.get(), &overflow);
  if (overflow == 0) return number;
  const unsigned long long larger = overflow > 0 ? PyLong_AsUnsignedLongLong(whole.get()) : 0;
  if (overflow > 0 && !PyErr_Occurred()) return larger;
  PyErr_Clear();
  if (wanted != Kind::real) return overflow * 0x1p64L;
  const double rounded = PyLong_AsDouble(whole.get());
  if (PyErr_Occurred()) throw PythonError();
  return rounded;
}

// Converts an array of objects or text to long doubles. Raises TypeError or ValueError for an element that is not a
// number.
Ref numbers_of_objects(const Ref& objects, Kind wanted) {
  // A copy, since the objects' methods may change the array.
  const Ref items(checked(PyArray_FROM_OTF(objects.get(), NPY_OBJECT, NPY_ARRAY_CARRAY | NPY_ARRAY_ENSURECOPY)));
  Ref numbers(checked(PyArray_SimpleNew(PyArray_NDIM(items.array()), PyArray_DIMS(items.array()), NPY_LONGDOUBLE)));
  auto* const* item = static_cast<PyObject**>(PyArray_DATA(items.array()));
  auto* number = static_cast<long double*>(PyArray_DATA(numbers.array()));
  for (npy_intp i = 0; i < PyArray_SIZE(items.array()); ++i)
    number[i] = number_of(item[i] == nullptr ? Py_None : item[i], wanted);
  return numbers;
}

// Returns the number at a flat position, as Python shows it.
Ref item_at(const Ref& array, npy_intp place) {
  return Ref(checked(PyObject_CallMethod(array.get(), "item", "n", place)));
}

// Returns the position of the first number that `found` reports, in an array of long doubles.
npy_intp first_of(const Ref& wide, npy_intp count, const Field& field, unsigned found) {
  const NumberType& type = *field.numbers;
  const bool is_half = field.descr()->type_num == NPY_HALF;
  const auto* numbers = static_cast<const long double*>(PyArray_DATA(wide.array()));
  const auto is_it = [&](long double number) {
    if (type.kind == Kind::truth) return found & kRefused ? !is_finite(number) : number != 0 && number != 1;
    if (type.kind == Kind::integer && (found & kRefused))
      return !(number >= type.least && number < static_cast<long double>(type.most) + 1);
    if (type.kind == Kind::integer) return number != std::trunc(number);
    const long double size = std::abs(number);
    if (!is_finite(number)) return false;
    if (is_half) return size >= kRoundsToInfiniteHalf;
    return type.computed == NPY_FLOAT ? !is_finite(static_cast<float>(number))
                                      : !is_finite(static_cast<double>(number));
  };
  return std::find_if(numbers, numbers + count, is_it) - numbers;
}

// Warns of changed numbers, or raises an error for refused ones. `parts` are the converted numbers.
void judge(const Field& field, const Ref& given, const Ref& parts, npy_intp count, unsigned found,
           ChangeWarnings& warnings) {
  if (!(found & kRefused) && warnings.has(field)) return;
  const Kind kind = field.numbers->kind;
  const Ref wide = in_order(parts, kind == Kind::complex ? NPY_CLONGDOUBLE : NPY_LONGDOUBLE);
  const npy_intp place = first_of(wide, count, field, found);
  const Ref number = item_at(given, kind == Kind::complex ? place / 2 : place);
  PyObject *name = field.name.get(), *dtype = field.dtype.get();
  if (found & kRefused) {
    if (!is_finite(static_cast<const long double*>(PyArray_DATA(wide.array()))[place]))
      raise(PyExc_ValueError, "%U must be finite, since its dtype is %S, got %S", name, dtype, number.get());
    raise(PyExc_OverflowError, "%U must be from %lld to %llu, since its dtype is %S, got %S", name,
          field.numbers->least, field.numbers->most, dtype, number.get());
  }
  const char* what = kBecomeInfinite;
  if (kind == Kind::truth)
    what =
        "%U: numbers other than 0 and 1 become True, since its dtype is %S, got %S: give the field a dtype of numbers";
  if (kind == Kind::integer) what = kFractions;
  warnings.warn(field, what, number.get());
}

// Returns whether any imaginary part is not 0, after warning of it.
bool has_imaginary_parts(const Ref& given, const Field& field, ChangeWarnings& warnings) {
  const Ref wide = in_order(given, NPY_CLONGDOUBLE);
  const auto* parts = static_cast<const long double*>(PyArray_DATA(wide.array()));
  npy_intp i = 0;
  while (i < PyArray_SIZE(wide.array()) && parts[2 * i + 1] == 0) ++i;
  if (i == PyArray_SIZE(wide.array())) return false;
  warnings.warn(field, "%U: imaginary parts are dropped, since its dtype is %S, got %S: give the field a complex dtype",
                item_at(wide, i).get());
  return true;
}

// The complex type that holds these numbers exactly.
int complex_type_for(int type) {
  return type == NPY_FLOAT || type == NPY_HALF || type == NPY_BOOL ? NPY_CFLOAT
         : type == NPY_DOUBLE                                      ? NPY_CDOUBLE
                                                                   : NPY_CLONGDOUBLE;
}

// Returns the numbers in C order with a type that has loops, or an empty Ref if NumPy must convert them.
Ref numbers_for(const Ref& given, const Field& field) {
  const Kind kind = field.numbers->kind;
  const bool complex = kind == Kind::complex;
  const int type = PyArray_TYPE(given.array());
  if (PyTypeNum_ISNUMBER(type)) {
    const int other = complex && !PyTypeNum_ISCOMPLEX(type) ? complex_type_for(type) : type;
    return in_order(given, other == NPY_HALF ? NPY_FLOAT : other);
  }
  if (PyTypeNum_ISUSERDEF(type) || type == NPY_VOID || (complex && type == NPY_OBJECT))
    return in_order(given, complex ? NPY_CLONGDOUBLE : NPY_LONGDOUBLE);
  if (PyTypeNum_ISDATETIME(type)) {
    Ref counts = in_order(given, NPY_INT64);
    const auto* first = static_cast<const npy_int64*>(PyArray_DATA(counts.array()));
    if (std::count(first, first + PyArray_SIZE(counts.array()), NPY_DATETIME_NAT) != 0)
      raise(PyExc_ValueError, "NaT cannot be converted to %S", field.dtype.get());
    return complex ? in_order(counts, NPY_CLONGDOUBLE) : std::move(counts);
  }
  if (type != NPY_OBJECT && !PyTypeNum_ISSTRING(type)) return {};
  // NumPy parses text exactly for the widest type, and has its own rules for the truth of text.
  if (field.descr()->type_num == NPY_LONGDOUBLE || (type != NPY_OBJECT && (complex || kind == Kind::truth))) return {};
  return numbers_of_objects(given, kind);
}

int part_of(int type) {
  return type == NPY_CFLOAT        ? NPY_FLOAT
         : type == NPY_CDOUBLE     ? NPY_DOUBLE
         : type == NPY_CLONGDOUBLE ? NPY_LONGDOUBLE
                                   : type;
}

[[noreturn]] void raise_changed(const Field& field, const Ref& given, npy_intp place,
                                PyObject* error = PyExc_ValueError) {
  raise(error, "%U must fit its dtype, %S, without loss, got %S", field.name.get(), field.dtype.get(),
        item_at(given, place).get());
}

// Returns `value` as an array of `type`, with a size or unit that holds it. Empty if NumPy does not find one.
Ref at_full_size(PyObject* value, int type) {
  const Ref dtype(checked(reinterpret_cast<PyObject*>(PyArray_DescrFromType(type))));
  try {
    return as_dtype(value, reinterpret_cast<PyArray_Descr*>(dtype.get()));
  } catch (const PythonError&) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) throw;
    PyErr_Clear();
    return type == NPY_VOID ? at_full_size(value, NPY_STRING) : Ref();  // for bytes of several lengths
  }
}

// Converts text or raw bytes, `whole` at full size. Raises ValueError if NumPy would cut off bytes other than 0.
Ref convert_text(PyObject* value, const Ref& whole, const Field& field) {
  const npy_intp kept = field.bytes / field.elements, size = PyArray_ITEMSIZE(whole.array());
  const npy_intp count = size > kept ? PyArray_SIZE(whole.array()) : 0;
  for (npy_intp i = 0; i < count; ++i) {
    const char* item = PyArray_BYTES(whole.array()) + i * size;
    if (std::any_of(item + kept, item + size, [](char byte) { return byte != 0; })) raise_changed(field, whole, i);
  }
  return naming(field, [&] { return as_dtype(value, field.descr()); });
}

// Converts dates or durations. Raises ValueError for values that are not multiples of the field's unit.
Ref convert_dates(PyObject* value, const Ref& whole, const Field& field) {
  Ref dates = naming(field, [&] { return as_dtype(value, field.descr()); });
  const Ref back = as_dtype(dates.get(), PyArray_DESCR(whole.array()));
  const auto* wanted = static_cast<const npy_int64*>(PyArray_DATA(whole.array()));
  const auto* kept = static_cast<const npy_int64*>(PyArray_DATA(back.array()));
  const npy_intp size = PyArray_SIZE(whole.array()), place = std::mismatch(wanted, wanted + size, kept).first - wanted;
  if (place != size) raise_changed(field, whole, place);
  return dates;
}

// Warns of numbers that a third-party type has changed, or raises an error for numbers outside its range.
template <class Real>
void judge_user_type(const Ref& given, const Ref& results, bool is_integer, const Field& field,
                     ChangeWarnings& warnings) {
  const int type = sizeof(Real) == sizeof(float) ? NPY_FLOAT : NPY_DOUBLE;
  const Ref wide = naming(field, [&] {
    const Ref numbers = PyArray_ISOBJECT(given.array()) ? numbers_of_objects(given, Kind::real) : Ref();
    return in_order(numbers ? numbers : given, type);
  });
  const Ref wide_results = in_order(results, type);
  const auto* number = static_cast<const Real*>(PyArray_DATA(wide.array()));
  const auto* result = static_cast<const Real*>(PyArray_DATA(wide_results.array()));
  const npy_intp count = PyArray_SIZE(wide.array());
  for (npy_intp i = 0; i < count; ++i) {
    // Rounding to the nearest changes a number by at most half of the result, unless that is 0.
    const bool rounds = std::abs(number[i] - result[i]) <= std::abs(result[i]) / 2 && is_finite(result[i]);
    if (!is_integer && (rounds || result[i] == 0)) continue;
    if (number[i] == result[i] || (std::isnan(number[i]) && std::isnan(result[i]))) continue;
    if (is_integer && std::trunc(number[i]) != result[i])
      raise_changed(field, given, i, is_finite(number[i]) ? PyExc_OverflowError : PyExc_ValueError);
    if (!warnings.has(field)) warnings.warn(field, is_integer ? kFractions : kBecomeInfinite, item_at(given, i).get());
  }
}

// Converts to a third-party type, such as ml_dtypes' int4. NumPy does not know what the type can hold, so the results
// are compared with the given numbers.
Ref convert_to_user_type(PyObject* value, const Field& field, ChangeWarnings& warnings) {
  Ref given = naming(field, [&] { return Ref(checked(PyArray_FROM_O(value))); });
  if (PyArray_ISCOMPLEX(given.array())) {
    has_imaginary_parts(given, field, warnings);
    given = Ref(checked(PyObject_GetAttrString(given.get(), "real")));
  }
  Ref results = naming(field, [&] { return with_dtype(given, field); });
  const Ref half(checked(PyFloat_FromDouble(0.5))), truncated = in_order(with_dtype(half, field), NPY_DOUBLE);
  const bool is_integer = *static_cast<const double*>(PyArray_DATA(truncated.array())) == 0;
  const bool is_float = PyArray_TYPE(given.array()) == NPY_FLOAT;
  (is_float ? judge_user_type<float> : judge_user_type<double>)(given, results, is_integer, field, warnings);
  return results;
}

// Converts structs, checking each member like a separate field.
Ref convert_structs(PyObject* value, const Field& field, ChangeWarnings& warnings) {
  const Ref members = naming(field, [&] {
    const Ref module(checked(PyImport_ImportModule("cpprb_impl.layout.arrays")));
    return Ref(checked(PyObject_CallMethod(module.get(), "members_of", "OO", value, field.dtype.get())));
  });
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(members.get()); ++i) {
    PyObject *values, *dtype;
    Field member;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(members.get(), i), "OOn", &values, &dtype, &member.bytes))
      throw PythonError();
    member.name = Ref::borrow(field.name.get());
    member.dtype = Ref::borrow(dtype);
    member.elements = 1;
    member.numbers = number_type_of(member.descr());
    std::vector<char> bytes;
    convert(values, member, warnings, bytes);
  }
  return naming(field, [&] { return as_dtype(value, field.descr()); });
}

bool are_numbers(PyObject* value) {
  const Ref array(PyArray_FROM_O(value));
  if (!array) PyErr_Clear();
  return array && PyTypeNum_ISNUMBER(PyArray_TYPE(array.array()));
}

// Converts values of a field that does not hold C numbers.
Converted convert_others(PyObject* value, const Field& field, ChangeWarnings& warnings, std::vector<char>& bytes) {
  const int type = field.descr()->type_num;
  const bool is_date = PyTypeNum_ISDATETIME(type);
  auto* array = reinterpret_cast<PyArrayObject*>(value);
  if (!PyArray_Check(value) || !PyArray_EquivTypes(PyArray_DESCR(array), field.descr())) {
    if (PyDataType_HASFIELDS(field.descr())) return {convert_structs(value, field, warnings), {}};
    if (PyTypeNum_ISUSERDEF(type)) return {convert_to_user_type(value, field, warnings), {}};
    if (is_date && are_numbers(value)) {
      Field counts = like(field);
      const Ref dtype(checked(reinterpret_cast<PyObject*>(PyArray_DescrFromType(NPY_INT64))));
      counts.numbers = number_type_of(reinterpret_cast<PyArray_Descr*>(dtype.get()));
      return convert(value, counts, warnings, bytes);
    }
    if (const Ref whole = at_full_size(value, type))
      return {is_date ? convert_dates(value, whole, field) : convert_text(value, whole, field), {}};
  }
  return {naming(field, [&] { return as_dtype(value, field.descr()); }), {}};
}

}  // namespace

bool ChangeWarnings::has(const Field& field) const {
  return std::ranges::any_of(warned_, [&](const Ref& name) { return name.get() == field.name.get(); });
}

void ChangeWarnings::warn(const Field& field, const char* what, PyObject* value) {
  if (has(field)) return;
  warned_.push_back(Ref::borrow(field.name.get()));  // first, because a warning may run code that calls add() again
  if (warn_caller(what, field.name.get(), field.dtype.get(), value) == 0) return;
  std::erase_if(warned_, [&](const Ref& name) { return name.get() == field.name.get(); });
  throw PythonError();  // a filter turned the warning into an error, which the next call raises again
}

void ChangeWarnings::follow(const ChangeWarnings& other) {
  for (const auto& name : other.warned_) warned_.push_back(Ref::borrow(name.get()));
}

Converted convert(PyObject* value, const Field& field, ChangeWarnings& warnings, std::vector<char>& bytes) {
  if (field.numbers == nullptr) return convert_others(value, field, warnings, bytes);
  const NumberType& type = *field.numbers;
  const bool complex = type.kind == Kind::complex;
  const bool is_list = PyList_Check(value) || PyTuple_Check(value);
  Ref given = naming(field, [&] {
    if (PyArray_CheckExact(value)) return Ref::borrow(value);
    Ref array(checked(PyArray_FromAny(value, nullptr, 0, 0, NPY_ARRAY_ENSUREARRAY, nullptr)));
    // NumPy has converted integers of several types to floats if no integer type holds all of them.
    if (is_list && PyArray_TYPE(array.array()) == NPY_DOUBLE && type.kind == Kind::integer)
      return Ref(checked(PyArray_FROM_OTF(value, NPY_OBJECT, NPY_ARRAY_ENSUREARRAY)));
    return array;
  });
  if (PyArray_ISCOMPLEX(given.array()) && !complex) {
    if (is_list || PyComplex_CheckExact(value))
      raise(PyExc_TypeError, "%U must be real, since its dtype is %S, got %S", field.name.get(), field.dtype.get(),
            value);
    const bool changes = has_imaginary_parts(given, field, warnings);
    if (changes && type.kind == Kind::truth) return {naming(field, [&] { return with_dtype(given, field); }), {}};
    given = Ref(checked(PyObject_GetAttrString(given.get(), "real")));
  }
  const npy_intp size = PyArray_SIZE(given.array());
  const bool is_converted = size != 0 && PyArray_TYPE(given.array()) != field.descr()->type_num;
  Ref numbers = naming(field, [&] { return is_converted ? numbers_for(given, field) : Ref(); });
  if (!numbers) {
    // NumPy reads text differently if it knows the dtype from the beginning.
    const bool is_text = PyTypeNum_ISSTRING(PyArray_TYPE(given.array()));
    return {naming(field, [&] { return with_dtype(is_text ? Ref::borrow(value) : std::move(given), field); }), {}};
  }

  const npy_intp count = complex ? 2 * size : size;
  const int dimensions = PyArray_NDIM(numbers.array());
  npy_intp* dims = PyArray_DIMS(numbers.array());
  const auto convert_to = [&](char* to) {
    return convert_numbers(type, part_of(PyArray_TYPE(numbers.array())), PyArray_BYTES(numbers.array()), count, to);
  };
  unsigned found;
  Converted converted;
  if (!PyDataType_ISBYTESWAPPED(field.descr()) && field.descr()->type_num != NPY_HALF) {
    bytes.resize(static_cast<std::size_t>(size) * static_cast<std::size_t>(field.bytes / field.elements));
    found = convert_to(bytes.data());
    converted.shape.assign(dims, dims + dimensions);
  } else {  // NumPy only changes the layout of the results, not their values
    const Ref results(checked(PyArray_SimpleNew(dimensions, dims, complex ? field.descr()->type_num : type.computed)));
    found = convert_to(PyArray_BYTES(results.array()));
    converted.array = with_dtype(results, field);
  }
  if (found != 0) [[unlikely]]
    judge(field, given, numbers, count, found, warnings);
  return converted;
}

}  // namespace rb
