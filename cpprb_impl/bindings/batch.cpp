#include "batch.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

namespace rb {
namespace {

constexpr std::size_t kAlignment = 64;  // JAX copies arrays with a smaller alignment
constexpr npy_intp kLarge = npy_intp{1} << 16;
constexpr std::size_t kPage = 4096, kHugePages = std::size_t{4} << 20;

using Shape = std::vector<npy_intp>;

// As NumPy does for its own arrays of this size: otherwise, a batch of images takes up to a third longer to write.
// Linux may ignore this.
void ask_for_huge_pages(char* data, std::size_t bytes) {
  if (bytes < kHugePages) return;
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(data) % kPage;
  madvise(data + before, (bytes - before) / kPage * kPage, MADV_HUGEPAGE);
}

PyObject* new_array(PyArray_Descr* dtype, npy_intp rows, const Shape& shape, npy_intp row_bytes) {
  npy_intp dims[33] = {rows}, bytes;
  std::copy(shape.begin(), shape.end(), dims + 1);
  const int dimensions = static_cast<int>(shape.size()) + 1;
  void* data = nullptr;
  Ref owner;
  const bool is_too_large = __builtin_mul_overflow(rows, row_bytes, &bytes);
  if (is_too_large || bytes >= kLarge) {
    const std::size_t blocks = (static_cast<std::size_t>(bytes) + kAlignment - 1) / kAlignment;
    if (!is_too_large) data = std::aligned_alloc(kAlignment, blocks * kAlignment);
    if (data == nullptr)
      raise(PyExc_MemoryError,
            "a batch of %zd rows does not fit into memory: one of its columns needs %zd bytes per row", rows,
            row_bytes);
    ask_for_huge_pages(static_cast<char*>(data), blocks * kAlignment);
    owner = Ref(PyCapsule_New(data, nullptr, [](PyObject* it) { std::free(PyCapsule_GetPointer(it, nullptr)); }));
    if (!owner) {
      std::free(data);
      throw PythonError();
    }
  }
  Py_INCREF(dtype);  // PyArray_NewFromDescr steals a reference
  Ref array(checked(PyArray_NewFromDescr(&PyArray_Type, dtype, dimensions, dims, nullptr, data,
                                         data ? NPY_ARRAY_CARRAY : 0, nullptr)));
  if (owner && PyArray_SetBaseObject(array.array(), owner.give()) < 0) throw PythonError();
  return array.give();
}

// The array itself, or an array that shares a PyTorch tensor's memory; empty for any other object. That includes a
// tensor outside the CPU's memory or one that requires gradients, since its `numpy` raises.
Ref as_array(PyObject* object) {
  if (PyArray_Check(object)) return Ref::borrow(object);
  Ref array(PyObject_CallMethod(object, "numpy", nullptr));
  const Ref address(array ? PyObject_CallMethod(object, "data_ptr", nullptr) : nullptr);
  // Not a copy, which the tensor would not see.
  const bool is_shared = address && PyLong_Check(address.get()) && PyArray_Check(array.get()) &&
                         PyLong_AsVoidPtr(address.get()) == PyArray_DATA(array.array());
  if (is_shared) return array;
  PyErr_Clear();
  return {};
}

void check_given(PyObject* name, PyArrayObject* array, PyArray_Descr* dtype, npy_intp rows, const Shape& shape) {
  if (!PyArray_EquivTypes(PyArray_DESCR(array), dtype))
    raise(PyExc_ValueError, "out[%R] must have dtype %S, got %S", name, dtype, PyArray_DESCR(array));
  const npy_intp* dims = PyArray_DIMS(array);
  if (PyArray_NDIM(array) != static_cast<int>(shape.size()) + 1 || dims[0] != rows ||
      !std::equal(shape.begin(), shape.end(), dims + 1)) {
    auto* object = reinterpret_cast<PyObject*>(array);
    const Ref got(checked(PyObject_GetAttrString(object, "shape"))), fresh(new_array(dtype, rows, shape, 0));
    const Ref wanted(checked(PyObject_GetAttrString(fresh.get(), "shape")));
    raise(PyExc_ValueError, "out[%R] must have shape %R, got %R", name, wanted.get(), got.get());
  }
  if (!PyArray_IS_C_CONTIGUOUS(array) || !PyArray_ISWRITEABLE(array))
    raise(PyExc_ValueError, "out[%R] must be writeable and in C order", name);
}

Ref given_object(PyObject* out, PyObject* name) {
  PyObject* object = PyDict_GetItemWithError(out, name);
  if (object == nullptr) {
    if (PyErr_Occurred()) throw PythonError();
    raise(PyExc_KeyError, "out must have an array or tensor for each column, but has none for %R", name);
  }
  return Ref::borrow(object);  // the dict may be changed while this thread waits
}

bool as_made(PyArrayObject* array, const char* data, npy_intp rows, const Shape& shape) {
  const npy_intp* dims = PyArray_DIMS(array);
  return PyArray_BYTES(array) == data && PyArray_NDIM(array) == static_cast<int>(shape.size()) + 1 && dims[0] == rows &&
         std::equal(shape.begin(), shape.end(), dims + 1) && PyArray_ISCARRAY(array);
}

// Whether the array has weak references, which do not keep it alive but can still be used to reach it.
bool has_weak_references(PyObject* array) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(array) + Py_TYPE(array)->tp_weaklistoffset) != nullptr;
}

// The array that `weak` refers to; empty if the array is gone.
Ref referent(PyObject* weak) {
#if PY_VERSION_HEX >= 0x030d0000
  PyObject* object = nullptr;
  if (PyWeakref_GetRef(weak, &object) < 0) throw PythonError();
  return Ref(object);
#else
  PyObject* object = PyWeakref_GetObject(weak);
  return object == Py_None ? Ref() : Ref::borrow(object);
#endif
}

}  // namespace

bool BatchArrays::is_reusable(const std::vector<Field>& fields, const std::vector<ExtraColumn>& extra) const {
  if (arrays.size() != fields.size() + extra.size() || Py_REFCNT(dict.get()) != 1 ||
      PyDict_GET_SIZE(dict.get()) != static_cast<Py_ssize_t>(arrays.size()))
    return false;
  static const Shape kNone;
  PyObject *name, *value;
  Py_ssize_t at = 0;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    // The only references to an array are this one and the dict's, so not even a view of it exists.
    if (!PyDict_Next(dict.get(), &at, &name, &value) || value != arrays[i].get() || Py_REFCNT(value) != 2) return false;
    const bool is_field = i < fields.size();
    const ExtraColumn* column = is_field ? nullptr : &extra[i - fields.size()];
    if (name != (is_field ? fields[i].name.get() : column->name) || has_weak_references(value)) return false;
    const npy_intp its_rows = is_field && fields[i].rows != 0 ? fields[i].rows : rows;
    if (!as_made(arrays[i].array(), data[i], its_rows, is_field ? fields[i].shape : kNone)) return false;
    const PyArray_Descr* dtype = PyArray_DESCR(arrays[i].array());
    if (is_field ? dtype != fields[i].descr() : dtype->type_num != column->type) return false;
  }
  return true;
}

BatchArrays RecentBatches::take(const std::vector<Field>& fields, npy_intp rows,
                                const std::vector<ExtraColumn>& extra) {
  for (auto batch = kept_.begin(); batch != kept_.end(); ++batch) {
    if (batch->rows != rows || !batch->is_reusable(fields, extra)) continue;
    BatchArrays taken = std::move(*batch);
    kept_.erase(batch);
    return taken;
  }
  return {};
}

void RecentBatches::keep(BatchArrays batch) {
  std::vector<BatchArrays> dropped;  // released last, since a finalizer may run Python code
  const auto is_released = [](const BatchArrays& each) {
    const auto& all = each.arrays;
    return Py_REFCNT(each.dict.get()) == 1 &&
           std::all_of(all.begin(), all.end(), [](const Ref& array) { return Py_REFCNT(array.get()) <= 2; });
  };
  while (true) {
    const bool many = std::count_if(kept_.begin(), kept_.end(), is_released) >= kMostReleased;
    if (!many && kept_.size() < kMost) break;
    const auto excess = many ? std::find_if(kept_.begin(), kept_.end(), is_released) : kept_.begin();
    dropped.push_back(std::move(*excess));
    kept_.erase(excess);
  }
  kept_.push_back(std::move(batch));
  for (const auto& each : dropped)
    if (each.sample != 0 && !is_released(each))
      note(each.arrays[each.indexes].get(), each.data[each.indexes], each.sample);
}

void RecentBatches::note(PyObject* indexes, const char* data, std::uint64_t sample) {
  Ref weak(checked(PyWeakref_NewRef(indexes, nullptr)));  // the same object each time, while one exists
  std::erase_if(noted_, [&](const Noted& each) { return each.indexes.get() == weak.get(); });
  if (noted_.size() == kMostNoted) noted_.erase(noted_.begin());
  noted_.push_back({std::move(weak), data, sample});
}

std::uint64_t RecentBatches::sample_in(const char* indexes) const {
  std::uint64_t newest = 0;
  const auto see = [&](const char* data, std::uint64_t sample) {
    if (data == indexes) newest = std::max(newest, sample);
  };
  for (const auto& batch : kept_) see(PyArray_BYTES(batch.arrays[batch.indexes].array()), batch.sample);
  for (const auto& each : noted_) {
    const Ref object = referent(each.indexes.get());
    if (!object) continue;
    see(PyArray_Check(object.get()) ? PyArray_BYTES(object.array()) : each.data, each.sample);
  }
  return newest;
}

int RecentBatches::traverse(visitproc visit, void* arg) {
  for (const auto& batch : kept_) {
    Py_VISIT(batch.dict.get());
    for (const auto& array : batch.arrays) Py_VISIT(array.get());
  }
  for (const auto& each : noted_) Py_VISIT(each.indexes.get());
  return 0;
}

void RecentBatches::clear() {
  const auto all = std::exchange(kept_, {});
  const auto noted = std::exchange(noted_, {});
}

Batch::Batch(const std::vector<Field>& fields, npy_intp rows, const std::vector<ExtraColumn>& extra, PyObject* out,
             RecentBatches* recent)
    : fields_(fields.size()), recent_(recent) {
  const bool given = out != nullptr && out != Py_None;
  if (given) {
    if (!PyDict_Check(out)) raise(PyExc_TypeError, "out must be a dict of arrays or tensors, got %R", out);
    recent_ = nullptr;
  }
  if (recent_ != nullptr) {
    batch_ = recent_->take(fields, rows, extra);
    if (batch_.dict) return;
  }
  batch_.rows = rows;
  batch_.dict = given ? Ref::borrow(out) : Ref(checked(PyDict_New()));
  const std::size_t count = fields.size() + extra.size();
  batch_.arrays.reserve(count);
  batch_.data.reserve(count);
  const auto column = [&](PyObject* name, PyArray_Descr* dtype, npy_intp its_rows, const Shape& shape,
                          npy_intp row_bytes) {
    Ref object = given ? given_object(out, name) : Ref(new_array(dtype, its_rows, shape, row_bytes));
    const Ref array = as_array(object.get());
    if (!array)
      raise(PyExc_TypeError, "out[%R] must be an array, or a tensor in CPU memory, got %R", name, object.get());
    if (given)
      check_given(name, array.array(), dtype, its_rows, shape);
    else if (PyDict_SetItem(batch_.dict.get(), name, array.get()) < 0)
      throw PythonError();
    batch_.data.push_back(PyArray_BYTES(array.array()));
    batch_.arrays.push_back(std::move(object));
  };
  for (const auto& field : fields)
    column(field.name.get(), field.descr(), field.rows != 0 ? field.rows : rows, field.shape, field.bytes);
  for (const auto& each : extra) {
    const Ref dtype(reinterpret_cast<PyObject*>(PyArray_DescrFromType(each.type)));
    column(each.name, reinterpret_cast<PyArray_Descr*>(dtype.get()), rows, {}, 8);
  }
}

void Batch::shorten(npy_intp rows) {
  for (auto& array : batch_.arrays) PyArray_DIMS(array.array())[0] = rows;
}

void Batch::is_sample(std::uint64_t number, std::size_t nth, RecentBatches& recent) {
  batch_.indexes = fields_ + nth;
  batch_.sample = number;
  if (recent_ == nullptr) recent.note(batch_.arrays[batch_.indexes].get(), batch_.data[batch_.indexes], number);
}

PyObject* Batch::give() {
  Ref dict = Ref::borrow(batch_.dict.get());
  if (recent_ != nullptr) recent_->keep(std::move(batch_));
  return dict.give();
}

}  // namespace rb
