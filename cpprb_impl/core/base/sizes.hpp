// Sizes of memory: sums and products that throw instead of wrapping around. Every size derived from a caller's request
// (a capacity, a field's shape, a batch size) is computed with these.
#pragma once

#include <cstdint>
#include <new>

namespace rb {

// Thrown for a size larger than any address space.
class TooLarge : public std::bad_alloc {
 public:
  const char* what() const noexcept override {
    return "more than 2^62 bytes are needed, which is beyond any address space";
  }
};

// Small enough for off_t, ptrdiff_t and npy_intp, so that offsets may be cast to them.
inline constexpr std::uint64_t kLargestSize = std::uint64_t{1} << 62;

constexpr std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum) || sum > kLargestSize) throw TooLarge();
  return sum;
}

constexpr std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product;
  if (__builtin_mul_overflow(a, b, &product) || product > kLargestSize) throw TooLarge();
  return product;
}

constexpr std::uint64_t divided_up(std::uint64_t n, std::uint64_t by) { return n / by + (n % by != 0); }

constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t unit) { return times(divided_up(n, unit), unit); }

}  // namespace rb
