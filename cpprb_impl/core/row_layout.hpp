// Row layout: where each field of a transition lies inside its row.
//
// A row is one contiguous piece, so that a sampled row costs one or two cache lines instead of one
// for each field. Rows are a multiple of 8 bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

namespace rb {

struct RowField {
  std::size_t offset;  // bytes from the row's start
  std::size_t bytes;   // bytes a row
};

class RowLayout {
 public:
  RowLayout() = default;

  // bytes[i]: size of field i in one row; alignment[i]: what its element type wants.
  RowLayout(const std::vector<std::size_t>& bytes, const std::vector<std::size_t>& alignment) {
    // Widest alignment first: no padding between fields whose sizes are multiples of their alignment.
    std::vector<std::size_t> order(bytes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return alignment[a] > alignment[b]; });
    fields_.resize(bytes.size());
    std::size_t offset = 0;
    for (const auto i : order) {
      offset = round_up(offset, alignment[i]);
      fields_[i] = {offset, bytes[i]};
      offset += bytes[i];
    }
    stride_ = std::max<std::size_t>(round_up(offset, 8), 8);
  }

  const std::vector<RowField>& fields() const { return fields_; }
  std::size_t stride() const { return stride_; }  // bytes from one row to the next

  static std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

 private:
  std::vector<RowField> fields_;
  std::size_t stride_ = 8;
};

// memcpy whose common small sizes become one or two moves instead of a call.
inline void copy_field(char* to, const char* from, std::size_t bytes) {
  switch (bytes) {
    case 1: std::memcpy(to, from, 1); return;
    case 2: std::memcpy(to, from, 2); return;
    case 4: std::memcpy(to, from, 4); return;
    case 8: std::memcpy(to, from, 8); return;
    case 12: std::memcpy(to, from, 12); return;
    case 16: std::memcpy(to, from, 16); return;
    case 32: std::memcpy(to, from, 32); return;
    default: std::memcpy(to, from, bytes);
  }
}

}  // namespace rb
