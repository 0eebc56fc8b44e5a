// Batches: the arrays in which transitions are returned.
#pragma once

#include <vector>

#include "../core/rows.hpp"
#include "fields.hpp"
#include "python.hpp"

namespace rb {

// The arrays of a batch beside its fields: importance weights and indexes.
struct ExtraColumn {
  PyObject* name;  // interned
  int type;
};

// A batch's dict and arrays, (rows, *shape) each, which the caller may or may not hold.
struct BatchArrays {
  npy_intp rows = 0;
  Ref dict;
  std::vector<Ref> arrays;   // of the fields, then the further ones
  std::vector<char*> data;   // theirs
  std::uint64_t sample = 0;  // number of the sample in them
  std::size_t indexes = 0;   // which array has its indexes

  // Whether we hold the only references, and the arrays are as they were made, with these `extra` ones.
  bool is_reusable(const std::vector<Field>& fields, const std::vector<ExtraColumn>& extra) const;
};

// The last batches, recycled once the caller has released every part of them: making five arrays costs more than
// filling them, and the first touch of large memory fresh from the system ten times as much.
class RecentBatches {
 public:
  BatchArrays take(const std::vector<Field>& fields, npy_intp rows, const std::vector<ExtraColumn>& extra);
  void keep(BatchArrays batch);
  // Remembers that the array `indexes` belongs to that sample, for as long as the array lives.
  void note(PyObject* indexes, std::uint64_t sample);
  // The number of the newest sample whose indexes were written to the memory at `indexes`, if the array that owned it
  // then still exists; else 0.
  std::uint64_t sample_in(const char* indexes) const;
  int traverse(visitproc visit, void* arg);
  void clear();

 private:
  // A learner may hold some, in a queue say, while it asks for the next. Released batches take memory.
  static constexpr std::size_t kMost = 10;
  static constexpr std::ptrdiff_t kMostLetGo = 2;
  std::vector<BatchArrays> kept_;  // the longest kept first

  // Arrays of indexes that belong to no kept batch.
  struct Noted {
    Ref array;  // a weak reference
    std::uint64_t sample;
  };
  static constexpr std::size_t kMostNoted = 16;  // a store remembers no more samples
  std::vector<Noted> noted_;                     // the longest noted first
};

// One batch in the making.
class Batch {
 public:
  // In new arrays; or in those of `recent`, if any is free; or in those of the dict `out`: raises KeyError,
  // TypeError or ValueError naming the one that does not fit.
  Batch(const std::vector<Field>& fields, npy_intp rows, const std::vector<ExtraColumn>& extra = {},
        PyObject* out = nullptr, RecentBatches* recent = nullptr);

  // By field: where its values go.
  char* const* places() { return batch_.data.data(); }
  // Only the first `rows` are there. In new arrays only.
  void shorten(npy_intp rows);
  // The memory of the nth extra array.
  void* extra(std::size_t nth) { return batch_.data[fields_ + nth]; }
  // Marks it as the sample of that number, whose indexes are the nth extra array.
  void is_sample(std::uint64_t number, std::size_t nth, RecentBatches& recent);
  PyObject* give();

 private:
  std::size_t fields_;
  RecentBatches* recent_;
  BatchArrays batch_;
};

}  // namespace rb
