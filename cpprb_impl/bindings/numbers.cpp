#include "numbers.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace rb {
namespace {

constexpr std::size_t kDeepest = 32;  // the most dimensions of an array

// npy_bool is an unsigned char like npy_ubyte.
struct Truth {};

template <class T>
bool put_number(PyObject* value, T& number) {
  if constexpr (std::is_floating_point_v<T>) {
    if (PyFloat_CheckExact(value) || PyArray_IsScalar(value, Double)) {  // NumPy's double is a subclass of float
      number = static_cast<T>(PyFloat_AS_DOUBLE(value));
      if constexpr (sizeof(T) < sizeof(double))
        if (std::abs(number) > std::numeric_limits<T>::max()) [[unlikely]]
          return false;
      return true;
    }
    if (PyBool_Check(value)) {
      number = static_cast<T>(value == Py_True);
      return true;
    }
  }
  if (!PyLong_CheckExact(value)) return false;
  int overflow = 0;
  const long long whole = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow != 0) return false;
  if constexpr (std::is_integral_v<T>) {
    if (!std::in_range<T>(whole)) return false;
    number = static_cast<T>(whole);
  } else {
    number = static_cast<T>(static_cast<double>(whole));  // like NumPy, which rounds twice beyond 2^53
  }
  return true;
}

bool put_truth(PyObject* value, npy_bool& truth) {
  if (PyBool_Check(value)) {
    truth = value == Py_True;
    return true;
  }
  long long whole = 0;
  const bool put = put_number(value, whole);
  truth = whole != 0;
  return put && (whole == 0 || whole == 1);
}

template <class T>
bool put_all(PyObject* const* items, Py_ssize_t count, char* to) {
  using Element = std::conditional_t<std::is_same_v<T, Truth>, npy_bool, T>;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Element element{};
    bool put;
    if constexpr (std::is_same_v<T, Truth>)
      put = put_truth(items[i], element);
    else
      put = put_number(items[i], element);
    if (!put) return false;
    std::memcpy(to + static_cast<std::size_t>(i) * sizeof element, &element, sizeof element);
  }
  return true;
}

bool is_list(PyObject* object) { return PyList_CheckExact(object) || PyTuple_CheckExact(object); }

bool is_regular(PyObject* list, const npy_intp* dims, std::size_t depth) {
  if (!is_list(list) || PySequence_Fast_GET_SIZE(list) != dims[0]) return false;
  PyObject* const* items = PySequence_Fast_ITEMS(list);
  for (npy_intp i = 0; depth > 1 && i < dims[0]; ++i)
    if (!is_regular(items[i], dims + 1, depth - 1)) return false;
  return true;
}

// `bytes` is the size of all elements of `list`.
bool read_level(PyObject* list, PutNumbers put, const npy_intp* dims, std::size_t depth, std::size_t bytes, char* to) {
  PyObject* const* items = PySequence_Fast_ITEMS(list);
  if (depth == 1) return put(items, dims[0], to);
  const std::size_t step = bytes / static_cast<std::size_t>(dims[0]);
  for (npy_intp i = 0; i < dims[0]; ++i, to += step)
    if (!read_level(items[i], put, dims + 1, depth - 1, step, to)) return false;
  return true;
}

}  // namespace

PutNumbers put_numbers_for(PyArray_Descr* dtype) {
  if (PyDataType_ISBYTESWAPPED(dtype)) return nullptr;
  switch (dtype->type_num) {
    case NPY_FLOAT: return put_all<npy_float>;
    case NPY_DOUBLE: return put_all<npy_double>;
    case NPY_BOOL: return put_all<Truth>;
    case NPY_BYTE: return put_all<npy_byte>;
    case NPY_UBYTE: return put_all<npy_ubyte>;
    case NPY_SHORT: return put_all<npy_short>;
    case NPY_USHORT: return put_all<npy_ushort>;
    case NPY_INT: return put_all<npy_int>;
    case NPY_UINT: return put_all<npy_uint>;
    case NPY_LONG: return put_all<npy_long>;
    case NPY_ULONG: return put_all<npy_ulong>;
    default: return nullptr;
  }
}

bool read_nested(PyObject* list, PutNumbers put, std::size_t size, std::vector<npy_intp>& dims, std::vector<char>& to) {
  dims.clear();
  std::size_t elements = 1;
  for (PyObject* level = list; is_list(level);) {
    const npy_intp length = PySequence_Fast_GET_SIZE(level);
    if (dims.size() == kDeepest || __builtin_mul_overflow(elements, static_cast<std::size_t>(length), &elements))
      return false;
    dims.push_back(length);
    if (length == 0) return false;
    level = PySequence_Fast_ITEMS(level)[0];
  }
  // Checked before memory is allocated: the first items alone may imply a far larger array than the list holds.
  if (dims.empty() || !is_regular(list, dims.data(), dims.size())) return false;
  std::size_t bytes;
  if (__builtin_mul_overflow(elements, size, &bytes)) throw std::bad_alloc();
  to.resize(bytes);
  return read_level(list, put, dims.data(), dims.size(), bytes, to.data());
}

}  // namespace rb
