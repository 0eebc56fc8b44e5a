// Stacks of k frames in the user's layout, along any of its axes. Frame j of a value consists of every k-th piece,
// starting with piece j; a piece spans the axes after the stacked one. Along the first axis, a frame is one piece.
// Along the last axis, a piece is one element.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "columns.hpp"

namespace rb {

struct StackShape {
  std::size_t frames;       // frames per stack
  std::size_t pieces;       // contiguous pieces per frame
  std::size_t piece_bytes;  // bytes per piece

  std::size_t frame_bytes() const { return pieces * piece_bytes; }
  std::size_t bytes() const { return frames * pieces * piece_bytes; }
};

namespace detail {

// Whether the pieces of all frames at a position are adjacent, rather than the pieces of one frame.
inline bool is_interleaved(const StackShape& shape) { return shape.frames > 1 && shape.pieces > 1; }

// Whether the adjacent pieces are four bytes, as in DQN's Atari, and therefore one word.
inline bool in_words(const StackShape& shape) {
  return std::endian::native == std::endian::little && is_interleaved(shape) && shape.frames == 4 &&
         shape.piece_bytes == 1;
}

inline std::uint32_t word(const char* stack, std::size_t place) {
  std::uint32_t value;  // a caller's array may have any address
  std::memcpy(&value, stack + 4 * place, 4);
  return value;
}

// Interleaves the bytes first, first + 1, ..., first + count - 1 of four frames.
inline void put_four(const char* const* frames, std::size_t first, std::size_t count, char* stack) {
  const char *a = frames[0] + first, *b = frames[1] + first, *c = frames[2] + first, *d = frames[3] + first;
  char* __restrict to = stack;
  for (std::size_t i = 0; i < count; ++i) {
    to[4 * i] = a[i];
    to[4 * i + 1] = b[i];
    to[4 * i + 2] = c[i];
    to[4 * i + 3] = d[i];
  }
}

// Interleaves more than four frames of bytes: four at a time, which become words, and in blocks that stay in the L1
// cache. That is several times as fast as one pass per frame.
inline void put_bytes(const StackShape& shape, const char* const* frames, char* stack) {
  constexpr std::size_t kBlock = 256;
  const std::size_t count = shape.frames, in_fours = count / 4 * 4;
  char four[4 * kBlock];
  for (std::size_t at = 0; at < shape.pieces; at += kBlock) {
    const std::size_t block = std::min(kBlock, shape.pieces - at);
    char* const to = stack + at * count;
    for (std::size_t j = 0; j < in_fours; j += 4) {
      put_four(frames + j, at, block, four);
      for (std::size_t i = 0; i < block; ++i) std::memcpy(to + i * count + j, four + 4 * i, 4);
    }
    for (std::size_t j = in_fours; j < count; ++j)
      for (std::size_t i = 0; i < block; ++i) to[i * count + j] = frames[j][at + i];
  }
}

}  // namespace detail

// Whether `later` is `earlier` advanced by one frame: all its frames but the oldest, followed by any new frame.
inline bool is_next_stack(const StackShape& shape, const char* earlier, const char* later) {
  const std::size_t pieces = shape.pieces;
  if (shape.frames == 1) return true;
  if (!detail::is_interleaved(shape))
    return std::memcmp(earlier + shape.frame_bytes(), later, shape.bytes() - shape.frame_bytes()) == 0;
  if (detail::in_words(shape)) {
    constexpr std::size_t kBlock =
        1024;  // positions compared without a branch; most differences are in the first block
    for (std::size_t at = 0; at < pieces; at += kBlock) {
      std::uint32_t different = 0;
      const std::size_t end = std::min(at + kBlock, pieces);
      for (std::size_t i = at; i < end; ++i)
        different |= (detail::word(earlier, i) >> 8) ^ (detail::word(later, i) & 0xffffff);
      if (different != 0) return false;
    }
    return true;
  }
  const std::size_t place = shape.frames * shape.piece_bytes;
  const std::size_t kept = place - shape.piece_bytes;
  for (std::size_t i = 0; i < pieces; ++i)
    if (std::memcmp(earlier + i * place + shape.piece_bytes, later + i * place, kept) != 0) return false;
  return true;
}

// The same for an advance by `by` frames, at least one but not all. Slower, since it is only called for stacks that
// have not advanced by one frame: stacks of colour images, whose channels are frames, and the first stack of an
// episode.
inline bool is_advanced(const StackShape& shape, const char* earlier, const char* later, std::size_t by) {
  const std::size_t place = shape.frames * shape.piece_bytes, left = by * shape.piece_bytes, kept = place - left;
  for (std::size_t i = 0; i < shape.pieces; ++i)
    if (std::memcmp(earlier + i * place + left, later + i * place, kept) != 0) return false;
  return true;
}

// Copies frame `nth` of `stack` to `frame`.
inline void take_frame(const StackShape& shape, const char* stack, std::size_t nth, char* frame) {
  const std::size_t pieces = shape.pieces, bytes = shape.piece_bytes, place = shape.frames * bytes;
  if (!detail::is_interleaved(shape)) {
    std::memcpy(frame, stack + nth * shape.frame_bytes(), shape.frame_bytes());
  } else if (detail::in_words(shape)) {
    char* __restrict to = frame;  // otherwise it might alias `shape`, and the loop would not be vectorised
    const int shift = static_cast<int>(8 * nth);
    for (std::size_t i = 0; i < pieces; ++i) to[i] = static_cast<char>(detail::word(stack, i) >> shift);
  } else {
    detail::with_width(bytes, [=](auto width) {
      for (std::size_t i = 0; i < pieces; ++i) std::memcpy(frame + i * width, stack + i * place + nth * width, width);
    });
  }
}

// Combines frames[0] .. frames[shape.frames - 1], oldest first, into `stack`.
inline void put_frames(const StackShape& shape, const char* const* frames, char* stack) {
  const std::size_t pieces = shape.pieces, bytes = shape.piece_bytes, place = shape.frames * bytes;
  if (!detail::is_interleaved(shape)) {
    for (std::size_t j = 0; j < shape.frames; ++j)
      std::memcpy(stack + j * shape.frame_bytes(), frames[j], shape.frame_bytes());
  } else if (shape.frames == 4 && bytes == 1) {
    detail::put_four(frames, 0, pieces, stack);
  } else if (shape.frames > 4 && bytes == 1) {
    detail::put_bytes(shape, frames, stack);
  } else {
    for (std::size_t j = 0; j < shape.frames; ++j)
      detail::with_width(bytes, [=](auto width) {
        for (std::size_t i = 0; i < pieces; ++i)
          std::memcpy(stack + i * place + j * width, frames[j] + i * width, width);
      });
  }
}

// The last stack that was stored, to which the next one is compared.
class LastStack {
 public:
  explicit LastStack(const StackShape& shape) : shape_(shape), stack_(shape.bytes()) {}

  // Returns how many frames of `stack` are new: none if it is unchanged, the smallest possible advance, or all.
  std::size_t new_frames(const char* stack) const {
    if (!is_known_) return shape_.frames;
    if (is_unchanged(stack)) return 0;
    return is_next_stack(shape_, data(), stack) ? 1 : new_frames_beyond_one(stack);
  }
  // The same for a stack that is probably the successor of the last one, if that is known. A stack of one frame is
  // always new.
  std::size_t new_frames_of_next(const char* stack) const {
    if (is_next_stack(shape_, data(), stack)) return 1;
    return is_unchanged(stack) ? 0 : new_frames_beyond_one(stack);
  }
  void remember(const char* stack) {
    std::memcpy(stack_.data(), stack, stack_.size());
    is_known_ = true;
  }
  void forget() { is_known_ = false; }

 private:
  const char* data() const { return stack_.data(); }
  bool is_unchanged(const char* stack) const { return std::memcmp(data(), stack, stack_.size()) == 0; }
  std::size_t new_frames_beyond_one(const char* stack) const {
    for (std::size_t by = 2; by < shape_.frames; ++by)
      if (is_advanced(shape_, data(), stack, by)) return by;
    return shape_.frames;
  }

  StackShape shape_;
  std::vector<char> stack_;
  bool is_known_ = false;
};

}  // namespace rb
