// Batches: the arrays that sampled transitions are given back in.
#include <algorithm>

#include "ring.hpp"

namespace rb {
namespace {

PyObject* new_array(PyArray_Descr* dtype, npy_intp rows, const std::vector<npy_intp>& shape,
                    BatchMemory* memory = nullptr, std::size_t bytes = 0) {
  npy_intp dims[33] = {rows};
  std::copy(shape.begin(), shape.end(), dims + 1);
  if (memory != nullptr) return memory->new_array(dtype, static_cast<int>(shape.size()) + 1, dims, bytes);
  Py_INCREF(dtype);  // PyArray_NewFromDescr takes it
  return checked(PyArray_NewFromDescr(&PyArray_Type, dtype, static_cast<int>(shape.size()) + 1, dims, nullptr, nullptr,
                                      0, nullptr));
}

void check_given(PyObject* name, PyObject* object, PyArray_Descr* dtype, npy_intp rows,
                 const std::vector<npy_intp>& shape) {
  if (!PyArray_Check(object)) raise(PyExc_TypeError, "out[%R] must be an array, not %R", name, object);
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  if (!PyArray_EquivTypes(PyArray_DESCR(array), dtype))
    raise(PyExc_ValueError, "out[%R]: dtype %S, but the field has %S", name, PyArray_DESCR(array), dtype);
  const npy_intp* dims = PyArray_DIMS(array);
  if (PyArray_NDIM(array) != static_cast<int>(shape.size()) + 1 || dims[0] != rows ||
      !std::equal(shape.begin(), shape.end(), dims + 1)) {
    const Ref got(checked(PyObject_GetAttrString(object, "shape"))), fresh(new_array(dtype, rows, shape));
    const Ref wanted(checked(PyObject_GetAttrString(fresh.get(), "shape")));
    raise(PyExc_ValueError, "out[%R]: shape %R, but the batch has %R", name, got.get(), wanted.get());
  }
  if (!PyArray_IS_C_CONTIGUOUS(array) || !PyArray_ISWRITEABLE(array))
    raise(PyExc_ValueError, "out[%R] must be writeable and in C order", name);
}

}  // namespace

Batch::Batch(const Ring& ring, npy_intp rows, PyObject* out, BatchMemory* memory)
    : rows_(rows), given_(out != nullptr && out != Py_None), memory_(memory) {
  if (given_ && !PyDict_Check(out)) raise(PyExc_TypeError, "out must be a dict of arrays, not %R", out);
  if (given_ && ring.batch_through_python)
    raise(PyExc_TypeError, "out can't be given to a buffer with fields of Python objects");
  dict_ = given_ ? Ref::borrow(out) : Ref(checked(PyDict_New()));
  columns_.reserve(ring.fields.size());
  std::size_t large = 0;
  for (const auto& field : ring.fields) {
    npy_intp bytes;
    const bool recycle = memory_ != nullptr && !given_ && !__builtin_mul_overflow(rows, field.bytes, &bytes) &&
                         static_cast<std::size_t>(bytes) >= BatchMemory::kSmallest;
    if (recycle) large += static_cast<std::size_t>(bytes);
    PyObject* array = column(field.name.get(), field.descr(), field.shape, recycle ? bytes : 0);
    columns_.push_back(PyArray_BYTES(reinterpret_cast<PyArrayObject*>(array)));
  }
  if (large != 0) memory_->batch_takes(large);
}

void* Batch::add_column(PyObject* name, int type) {
  const Ref dtype(reinterpret_cast<PyObject*>(PyArray_DescrFromType(type)));
  PyObject* array = column(name, reinterpret_cast<PyArray_Descr*>(dtype.get()), {}, 0);
  return PyArray_DATA(reinterpret_cast<PyArrayObject*>(array));
}

// The batch's array for `name`, borrowed.
PyObject* Batch::column(PyObject* name, PyArray_Descr* dtype, const std::vector<npy_intp>& shape, npy_intp recycled) {
  if (!given_) {
    const Ref array(
        new_array(dtype, rows_, shape, recycled != 0 ? memory_ : nullptr, static_cast<std::size_t>(recycled)));
    if (PyDict_SetItem(dict_.get(), name, array.get()) < 0) throw PythonError();
    return array.get();
  }
  PyObject* array = PyDict_GetItemWithError(dict_.get(), name);
  if (array == nullptr) {
    if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, name);
    throw PythonError();
  }
  arrays_.push_back(Ref::borrow(array));
  check_given(name, array, dtype, rows_, shape);
  return array;
}

}  // namespace rb
