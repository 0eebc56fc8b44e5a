// Columns (one field of many rows), and functions that copy between a column and contiguous arrays.
//
// The width of small fields is a compile-time constant inside each loop, so that copying a value takes one or two move
// instructions instead of a function call. For rows of 41 bytes in five fields, that is five times faster than one
// memcpy per field.
// Every memory order stronger than relaxed has a line in tests/weak_memory/orders, which `make orders` checks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace rb {

// How values are copied out of a ring and into it.
//
// Alone: for use when no other thread writes at the same time.
struct Alone {
  template <class Width>
  static void out(char* to, const char* from, Width width) {
    std::memcpy(to, from, width);
  }
  template <class Width>
  static void in(char* to, const char* from, Width width) {
    std::memcpy(to, from, width);
  }
};

// PastCaches: like Alone, for a ring that no cache can hold. A large value is written without first reading the cache
// lines that it replaces, and bypasses the caches: adding images is then 1.5 times as fast (AMD Zen 4).
struct PastCaches : Alone {
  static constexpr std::size_t kLarge = 4096;

  template <class Width>
  static void in(char* to, const char* from, Width width) {
    if (width <= kLarge) return Alone::in(to, from, width);
#ifdef __SSE2__
    constexpr std::size_t word = sizeof(__m128i), line = 4 * word;
    const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % line, end = head + (width - head) / line * line;
    std::memcpy(to, from, head);
    for (std::size_t at = head; at < end; at += word)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
    std::memcpy(to + end, from + end, width - end);
    _mm_sfence();  // otherwise another thread that sees a later store might not see these
#else
    Alone::in(to, from, width);
#endif
  }
};

// BesideOthers: for use while other processes may write what is being read. Copies whole words, each loaded with
// acquire and stored with release (steps E5 and L2 of docs/protocol.md). This costs nothing on x86-64, where all loads
// and stores behave that way.
struct BesideOthers {
  // The alignment that a value of this many bytes must have in the ring.
  static constexpr std::size_t unit(std::size_t bytes) {
    return bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1;
  }

  template <class Width>
  static void out(char* to, const char* from, Width width) {
    in_words(from, width, [=](auto word, std::size_t first, auto bytes) {
      copy_out<decltype(word)>(to + first, from + first, bytes);
    });
  }
  template <class Width>
  static void in(char* to, const char* from, Width width) {
    in_words(to, width, [=](auto word, std::size_t first, auto bytes) {
      copy_in<decltype(word)>(to + first, from + first, bytes);
    });
  }

 private:
  static constexpr std::size_t kManyBytes = 64;

  // Calls copy(word, first, bytes) for words that match the alignment of `place` in the ring.
  template <class Width, class Copy>
  static void in_words(const char* place, Width width, Copy&& copy) {
    switch (unit(width)) {
      case 8: return copy(std::uint64_t(), 0, width);
      case 4: return width > kManyBytes ? in_pieces(place, width, copy) : copy(std::uint32_t(), 0, width);
      case 2: return width > kManyBytes ? in_pieces(place, width, copy) : copy(std::uint16_t(), 0, width);
      default: return width > kManyBytes ? in_pieces(place, width, copy) : copy(std::uint8_t(), 0, width);
    }
  }
  // Copies eight bytes at a time, and only the unaligned ends byte by byte.
  template <class Copy>
  static void in_pieces(const char* place, std::size_t width, Copy&& copy) {
    const std::size_t head = -reinterpret_cast<std::uintptr_t>(place) % 8, words = (width - head) / 8 * 8;
    copy(std::uint8_t(), 0, head);
    copy(std::uint64_t(), head, words);
    copy(std::uint8_t(), head + words, width - head - words);
  }
  // The loop is unrolled if the width is not a constant: with a branch after every word, it is a third slower whenever
  // the branch happens to cross a 32-byte boundary.
  template <class Width, class Copy>
  static void for_each_word(std::size_t word, Width width, Copy&& copy) {
    if constexpr (std::is_same_v<Width, std::size_t>) {
#pragma GCC unroll 8
      for (std::size_t at = 0; at < width; at += word) copy(at);
    } else {
      for (std::size_t at = 0; at < width; at += word) copy(at);
    }
  }
  template <class Word, class Width>
  static void copy_out(char* to, const char* from, Width width) {
    for_each_word(sizeof(Word), width, [=](std::size_t at) { load_word<Word>(to + at, from + at); });
  }
  template <class Word, class Width>
  static void copy_in(char* to, const char* from, Width width) {
    for_each_word(sizeof(Word), width, [=](std::size_t at) { store_word<Word>(to + at, from + at); });
  }
  template <class Word>
  static void load_word(char* to, const char* from) {
    const Word word = __atomic_load_n(&shared<Word>(from), __ATOMIC_ACQUIRE);
    std::memcpy(to, &word, sizeof word);
  }
  template <class Word>
  static void store_word(char* to, const char* from) {
    Word word;
    std::memcpy(&word, from, sizeof word);
    __atomic_store_n(&shared<Word>(to), word, __ATOMIC_RELEASE);
  }
  template <class Word>
  using Aliased __attribute__((may_alias)) = Word;
  // Takes a reference because UndefinedBehaviorSanitizer checks the alignment of references.
  template <class Word>
  static Aliased<Word>& shared(const char* at) {
    return *reinterpret_cast<Aliased<Word>*>(const_cast<char*>(at));
  }
};

// The value of row `slot` is at base + slot * stride.
struct Column {
  char* base = nullptr;
  std::size_t stride = 0;  // bytes from one row to the next
  std::size_t bytes = 0;   // size of a value

  char* at(std::size_t slot) const { return base + slot * stride; }
};

namespace detail {

// Takes everything by value: through a reference, each byte written could change the loop's own variables.
template <class Copy, class Width>
void gather(const char* base, std::size_t stride, Width width, const std::size_t* slots, std::size_t count, char* to) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < count; ++i) Copy::out(to + i * width, base + slots[i] * stride, width);
}

template <class Copy, class Width>
void scatter(char* to, std::size_t stride, Width width, std::size_t count, const char* from) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < count; ++i) Copy::in(to + i * stride, from + i * width, width);
}

// Calls copy(width) with a compile-time constant if `bytes` is a common width, otherwise with `bytes` itself.
template <std::size_t N>
using Width = std::integral_constant<std::size_t, N>;

template <class Copy>
void with_width(std::size_t bytes, Copy&& copy) {
  switch (bytes) {
    case 1: return copy(Width<1>());
    case 2: return copy(Width<2>());
    case 4: return copy(Width<4>());
    case 8: return copy(Width<8>());
    case 12: return copy(Width<12>());
    case 16: return copy(Width<16>());
    case 24: return copy(Width<24>());
    case 32: return copy(Width<32>());
    case 64: return copy(Width<64>());
    default: return copy(bytes);
  }
}

}  // namespace detail

// Copies the values of rows `slots` to `to`, contiguously.
template <class Copy>
void gather(const Column& column, const std::size_t* slots, std::size_t count, char* to) {
  detail::with_width(column.bytes,
                     [&](auto width) { detail::gather<Copy>(column.base, column.stride, width, slots, count, to); });
}

// Copies the value at `from` into row `slot`.
template <class Copy>
void put(const Column& column, std::size_t slot, const char* from) {
  detail::with_width(column.bytes, [&](auto width) { Copy::in(column.at(slot), from, width); });
}

// Copies `count` contiguous values at `from` into consecutive rows starting at `slot`, without wrapping around.
template <class Copy>
void scatter(const Column& column, std::size_t slot, std::size_t count, const char* from) {
  if (!std::is_same_v<Copy, BesideOthers> && column.stride == column.bytes)
    Copy::in(column.at(slot), from, count * column.bytes);
  else
    detail::with_width(column.bytes,
                       [&](auto width) { detail::scatter<Copy>(column.at(slot), column.stride, width, count, from); });
}

}  // namespace rb
