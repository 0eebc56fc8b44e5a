// The memory of a stream with compressed frames.
//
// Frames are appended at one end and released at the other, so their blocks are contiguous within chunks, and blocks of
// different sizes leave no gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "lz4.hpp"

namespace rb {

class CompressedFrames {
 public:
  using Number = std::uint64_t;                                // number of a frame, as in FrameStream
  using MoreMemory = std::function<char*(std::size_t bytes)>;  // returns memory for one chunk

  // Throws std::runtime_error without LZ4's library, std::bad_alloc.
  CompressedFrames(std::size_t frame_bytes, std::size_t chunk_bytes, MoreMemory more_memory);

  // Appends a frame. Its number follows the previous frame's, if there is one. Throws std::bad_alloc; nothing
  // has changed then.
  void append(Number number, const char* frame);
  // Copies a frame to `frame`.
  void read(Number number, char* frame) const;
  // Removes the frames from `end` on.
  void back_to(Number end);
  // Releases the frames before `first`.
  void forget_before(Number first);
  void clear();
  // Bytes in use besides the chunks.
  std::size_t bytes() const { return blocks_.size() * sizeof blocks_[0]; }

 private:
  struct Chunk {
    char* memory;
    Number first;      // number of the chunk's first frame
    std::size_t used;  // bytes
  };
  const char*& block(Number number) { return blocks_[number & (blocks_.size() - 1)]; }
  const char* block(Number number) const { return blocks_[number & (blocks_.size() - 1)]; }
  void make_room(Number next, std::size_t bytes);

  const Lz4& lz4_;
  std::size_t frame_bytes_, chunk_bytes_;
  MoreMemory more_memory_;
  std::vector<const char*> blocks_;  // a ring indexed by frame number; its length is a power of two
  Number first_ = 0, end_ = 0;       // live frames: [first_, end_)
  std::deque<Chunk> chunks_;
  std::vector<char*> spare_;
  std::unique_ptr<char[]> compressed_;  // a block under construction
};

}  // namespace rb
