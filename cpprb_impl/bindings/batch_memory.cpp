#include "batch_memory.hpp"

#include <algorithm>
#include <cstdlib>

namespace rb {

constexpr std::size_t kAlignment = 64;  // JAX copies what is aligned less

// What an array in recycled memory stands on: its end is the block's way back.
struct BatchMemory::Lease {
  std::shared_ptr<BatchMemory> home;
  Block block;

  static void end(PyObject* capsule) {
    auto* lease = static_cast<Lease*>(PyCapsule_GetPointer(capsule, nullptr));
    lease->home->put_back(lease->block);
    delete lease;
  }
};

BatchMemory::~BatchMemory() {
  for (const auto& block : spare_) std::free(block.data);
}

PyObject* BatchMemory::new_array(PyArray_Descr* dtype, int dimensions, const npy_intp* dims, std::size_t bytes) {
  auto lease = std::make_unique<Lease>(Lease{shared_from_this(), {take(bytes), bytes}});
  void* data = lease->block.data;
  Ref capsule(PyCapsule_New(lease.get(), nullptr, Lease::end));
  if (!capsule) {
    put_back(lease->block);
    throw PythonError();
  }
  lease.release();
  Py_INCREF(dtype);  // PyArray_NewFromDescr takes it
  Ref array(
      checked(PyArray_NewFromDescr(&PyArray_Type, dtype, dimensions, dims, nullptr, data, NPY_ARRAY_CARRAY, nullptr)));
  if (PyArray_SetBaseObject(array.array(), capsule.give()) < 0) throw PythonError();
  return array.give();
}

void* BatchMemory::take(std::size_t bytes) {
  const auto fits = std::find_if(spare_.begin(), spare_.end(), [bytes](const Block& b) { return b.bytes == bytes; });
  if (fits == spare_.end()) {
    spare_.reserve(blocks_ + 1);  // put_back() must not fail
    void* data = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (data == nullptr) throw std::bad_alloc();
    ++blocks_;
    return data;
  }
  void* data = fits->data;
  kept_ -= bytes;
  spare_.erase(fits);
  return data;
}

void BatchMemory::put_back(Block block) {
  spare_.push_back(block);
  kept_ += block.bytes;
  auto oldest = spare_.begin();
  for (; kept_ > most_kept_; ++oldest) {
    kept_ -= oldest->bytes;
    std::free(oldest->data);
    --blocks_;
  }
  spare_.erase(spare_.begin(), oldest);
}

}  // namespace rb
