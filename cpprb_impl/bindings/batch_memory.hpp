// Memory for the large arrays of batches, used again once the caller has let go of a batch: the first
// touch of memory fresh from the system costs up to ten times what copying a batch into it does.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "python.hpp"

namespace rb {

class BatchMemory : public std::enable_shared_from_this<BatchMemory> {
 public:
  // Smaller ones are malloc's business, which doesn't give them back to the system at once.
  static constexpr std::size_t kSmallest = std::size_t{1} << 16;

  ~BatchMemory();

  // An array in recycled memory, if there is any of that size.
  PyObject* new_array(PyArray_Descr* dtype, int dimensions, const npy_intp* dims, std::size_t bytes);
  // Two batches' worth is kept: one is held by a learner that asks for the next one.
  void batch_takes(std::size_t bytes) { most_kept_ = 2 * bytes; }

 private:
  struct Block {
    void* data;
    std::size_t bytes;
  };
  struct Lease;

  void* take(std::size_t bytes);
  void put_back(Block block);

  std::vector<Block> spare_;  // the longest unused first
  std::size_t kept_ = 0, most_kept_ = 0;
  std::size_t blocks_ = 0;  // lent and spare
};

}  // namespace rb
