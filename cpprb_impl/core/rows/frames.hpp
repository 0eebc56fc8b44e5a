// Frames: parts of observations, stored once even if several transitions contain them.
//
// A stack of k frames is k consecutive frames of a stream, identified by the number of its newest one. A value that
// continues the previous value (unchanged, or advanced by fewer frames than it has) shares frames with it. Any other
// value, such as the first of an episode, is stored whole. Reading therefore returns exactly what was added, whatever
// the order of the calls: sharing is detected in the data, never assumed. A stream may compress its frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "compressed_frames.hpp"
#include "stacks.hpp"

namespace rb {

class FrameStream {
 public:
  using Number = CompressedFrames::Number;  // number of a frame, never reused

  // Returns memory for one chunk, which stays valid until the stream's owner releases it.
  using MoreMemory = CompressedFrames::MoreMemory;

  // The number of chunks needed in the worst case, when no stack continues another, and the bytes per chunk.
  struct Need {
    std::uint64_t chunks, chunk_bytes;
  };
  // For `capacity` transitions with `stacks` values each, one or two. Throws TooLarge.
  static Need need(const StackShape& shape, std::size_t stacks, std::uint64_t capacity);

  // `capacity` is the number of transitions that the stream must hold; it determines the size of a chunk. Throws
  // std::runtime_error if frames are to be compressed, but LZ4's library is missing.
  FrameStream(const StackShape& shape, std::uint64_t capacity, MoreMemory more_memory, bool compressed = false);

  const StackShape& shape() const { return shape_; }
  std::uint64_t first() const { return low_; }
  std::uint64_t end() const { return high_; }
  // Copies a frame to `to`.
  void read_frame(Number number, char* to) const;

  // Returns the number of the newest frame of `stack`. Throws std::bad_alloc.
  Number append(const char* stack);
  // Like append(), for a stack known to follow directly after the last one appended, as next_obs follows obs. If a
  // stack has only one frame, it always gets the next number.
  Number append_next(const char* stack);

  // The memory that read() needs; several calls may use it in sequence.
  struct Scratch {
    std::vector<const char*> frames;
    std::unique_ptr<char[]> memory;
  };
  Scratch scratch() const;
  // Copies the stack whose newest frame is `newest` to `stack` and, if `next_stack` is not null, the one at `next`.
  void read(Number newest, char* stack, Number next, char* next_stack, Scratch& scratch) const;

  // Removes what was appended since end() was `end`.
  void back_to(std::uint64_t end);
  // Releases the stacks before the one whose newest frame is `newest`.
  void forget_before(Number newest);
  void clear();
  std::size_t bytes_beside_chunks() const { return compressed_ ? compressed_->bytes() : 0; }

 private:
  Number append_frames(const char* stack, std::size_t count);
  void append_frame(const char* stack, std::size_t nth);
  const char* place(Number number) const {
    return chunks_[(number >> shift_) & (chunks_.size() - 1)] + (number & mask_) * shape_.frame_bytes();
  }
  // Whether a stack's frames are contiguous.
  bool is_whole() const { return !detail::is_interleaved(shape_); }
  void read_compressed(Number newest, char* stack, Number next, char* next_stack, Scratch& scratch) const;
  void open_chunk();
  void close_chunks(std::uint64_t first, std::uint64_t end);

  StackShape shape_;
  unsigned shift_;  // 2^shift_ frames per chunk
  std::uint64_t mask_;
  MoreMemory more_memory_;
  std::vector<char*> chunks_;  // a ring indexed by chunk number, null where there is none; its length is a power of two
  std::vector<char*> spare_;
  std::uint64_t low_ = 0, high_ = 0;              // live frames: [low_, high_)
  LastStack last_;                                // ends at high_
  std::unique_ptr<CompressedFrames> compressed_;  // null, or the holder of the frames in place of chunks_
  std::unique_ptr<char[]> frame_;                 // a frame to be compressed
};

}  // namespace rb
