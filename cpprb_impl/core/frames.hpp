// Frames: observations stored once, although several transitions show them.
//
// A stack of k frames is k neighbouring frames of a stream, named by the number of its newest one. A
// value that continues the one before it (the same again, or moved on by one frame) shares its frames;
// any other one, at the start of an episode say, is written whole. So what comes back is what went
// in, whatever the order of the calls: sharing is found in the data, never assumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "stacks.hpp"

namespace rb {

class FrameStream {
 public:
  using Number = std::uint64_t;  // of a frame; never used again

  // Returns memory for one chunk, which stays valid until the stream's owner releases it.
  using MoreMemory = std::function<char*(std::size_t bytes)>;

  // Chunks for the most frames that can be alive at once, which is where no stack continues another; bytes per chunk.
  struct Need {
    std::uint64_t chunks, chunk_bytes;
  };
  // For `capacity` transitions with `stacks` values each, one or two. Throws TooLarge.
  static Need need(const StackShape& shape, std::size_t stacks, std::uint64_t capacity);

  // `capacity` is the number of transitions that the stream is for: it sets the size of a chunk.
  FrameStream(const StackShape& shape, std::uint64_t capacity, MoreMemory more_memory);

  const StackShape& shape() const { return shape_; }
  std::uint64_t first() const { return low_; }
  std::uint64_t end() const { return high_; }
  const char* frame(std::uint64_t number) const {
    return chunks_[(number >> shift_) & (chunks_.size() - 1)] + (number & mask_) * shape_.frame_bytes();
  }

  // The number of the newest frame of `stack`. Throws std::bad_alloc.
  Number append(const char* stack);
  // The same for a stack that is known to come right after the one appended last, as next_obs comes after obs.
  // Where a stack is one frame, it always gets the next number.
  Number append_next(const char* stack);
  // The stack whose newest frame is `newest`.
  void read(Number newest, char* stack) const;

  // Takes back what was appended since end() was `end`.
  void back_to(std::uint64_t end);
  // The stacks before the one named `newest` are not wanted any more.
  void forget_before(Number newest);
  void clear();

 private:
  Number append_frames(const char* stack, std::size_t count);
  void append_frame(const char* stack, std::size_t nth);
  void open_chunk();
  void close_chunks(std::uint64_t first, std::uint64_t end);

  StackShape shape_;
  unsigned shift_;  // 2^shift_ frames a chunk
  std::uint64_t mask_;
  MoreMemory more_memory_;
  std::vector<char*> chunks_;  // a ring by chunk number, its length a power of two; null where there is none
  std::vector<char*> spare_;
  std::uint64_t low_ = 0, high_ = 0;  // frames alive: [low_, high_)
  LastStack last_;                    // ends at high_
};

}  // namespace rb
