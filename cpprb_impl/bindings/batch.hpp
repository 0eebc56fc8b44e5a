// Batches: the arrays in which transitions are returned.
#pragma once

#include <vector>

#include "../core/rows/rows.hpp"
#include "fields.hpp"
#include "python.hpp"

namespace rb {

// The arrays of a batch other than its fields: importance weights and indexes.
struct ExtraColumn {
  PyObject* name;  // interned
  int type;
};

// A batch's dict and its arrays, (rows, *shape) each. The caller may hold references to them.
struct BatchArrays {
  npy_intp rows = 0;
  Ref dict;
  std::vector<Ref> arrays;   // of the fields, then the extra ones; may be tensors if the caller passed a dict
  std::vector<char*> data;   // the memory of these arrays
  std::uint64_t sample = 0;  // number of the sample in these arrays
  std::size_t indexes = 0;   // position of the array with the sample's indexes

  // Returns whether the arrays can be reused for a batch with these `extra` columns: we must hold the only references
  // to them, and the caller must not have modified them.
  bool is_reusable(const std::vector<Field>& fields, const std::vector<ExtraColumn>& extra) const;
};

// The last batches, recycled once the caller has released every array: creating five arrays costs more than filling
// them, and the first access to large, newly allocated memory costs ten times as much.
class RecentBatches {
 public:
  BatchArrays take(const std::vector<Field>& fields, npy_intp rows, const std::vector<ExtraColumn>& extra);
  void keep(BatchArrays batch);
  // Remembers, for as long as the array or tensor `indexes` with this memory lives, that it belongs to this sample.
  void note(PyObject* indexes, const char* data, std::uint64_t sample);
  // The number of the newest sample whose indexes were written to the memory at `indexes`, if the array that owned the
  // memory then still exists; otherwise 0.
  std::uint64_t sample_in(const char* indexes) const;
  int traverse(visitproc visit, void* arg);
  void clear();

 private:
  // A learner may hold several batches, for example in a queue, while it requests the next one. No more are kept,
  // because released batches take up memory.
  static constexpr std::size_t kMost = 10;
  static constexpr std::ptrdiff_t kMostReleased = 2;
  std::vector<BatchArrays> kept_;  // oldest first

  // Arrays and tensors of indexes that do not belong to a kept batch.
  struct Noted {
    Ref indexes;       // a weak reference
    const char* data;  // memory of a tensor: requesting it again could run Python code
    std::uint64_t sample;
  };
  static constexpr std::size_t kMostNoted = 16;  // a store remembers no more samples than this
  std::vector<Noted> noted_;                     // oldest first
};

// Disables the garbage collector. No other thread may run while this object lives, since it may need the collector.
class CollectorOff {
 public:
  CollectorOff() = default;
  ~CollectorOff() {
    if (was_on_) PyGC_Enable();
  }
  CollectorOff(const CollectorOff&) = delete;

 private:
  const bool was_on_ = PyGC_Disable() != 0;
};

// A batch under construction.
class Batch {
 public:
  // Uses new arrays, a free batch of `recent`, or the arrays of the dict `out`. Raises KeyError, TypeError or
  // ValueError naming the array that does not fit.
  Batch(const std::vector<Field>& fields, npy_intp rows, const std::vector<ExtraColumn>& extra = {},
        PyObject* out = nullptr, RecentBatches* recent = nullptr);

  // The destination of each field's values.
  char* const* places() { return batch_.data.data(); }
  // Truncates the batch to `rows` rows. Only for new arrays.
  void shorten(npy_intp rows);
  // The memory of extra array `nth`.
  void* extra(std::size_t nth) { return batch_.data[fields_ + nth]; }
  // Marks the batch as the sample with that number, whose indexes are in extra array `nth`.
  void is_sample(std::uint64_t number, std::size_t nth, RecentBatches& recent);
  PyObject* give();

 private:
  std::size_t fields_;
  RecentBatches* recent_;
  BatchArrays batch_;
};

}  // namespace rb
