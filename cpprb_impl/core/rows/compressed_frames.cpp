#include "compressed_frames.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rb {
namespace {

// A block begins with its size, or with 0 if it holds the frame itself, because LZ4 could not make it smaller.
using Size = std::uint32_t;

}  // namespace

CompressedFrames::CompressedFrames(std::size_t frame_bytes, std::size_t chunk_bytes, MoreMemory more_memory)
    : lz4_(Lz4::library()),
      frame_bytes_(frame_bytes),
      chunk_bytes_(std::max(chunk_bytes, sizeof(Size) + frame_bytes)),
      more_memory_(std::move(more_memory)),
      blocks_(2),
      compressed_(std::make_unique_for_overwrite<char[]>(frame_bytes)) {}

void CompressedFrames::append(Number number, const char* frame) {
  const auto size = static_cast<Size>(lz4_.compress(frame, frame_bytes_, compressed_.get(), frame_bytes_ - 1));
  const std::size_t bytes = size != 0 ? size : frame_bytes_;
  if (chunks_.empty()) first_ = number;
  make_room(number, sizeof size + bytes);
  Chunk& chunk = chunks_.back();
  char* const to = chunk.memory + chunk.used;
  std::memcpy(to, &size, sizeof size);
  std::memcpy(to + sizeof size, size != 0 ? compressed_.get() : frame, bytes);
  block(number) = to;
  chunk.used += sizeof size + bytes;
  end_ = number + 1;
}

// Ensures that the last chunk has that many free bytes, and the ring a place for one more block.
void CompressedFrames::make_room(Number next, std::size_t bytes) {
  if (next - first_ == blocks_.size()) {
    std::vector<const char*> longer(2 * blocks_.size());
    for (Number number = first_; number < next; ++number) longer[number & (longer.size() - 1)] = block(number);
    blocks_.swap(longer);
  }
  if (!chunks_.empty() && chunks_.back().used + bytes <= chunk_bytes_) return;
  if (spare_.empty()) {
    spare_.reserve(chunks_.size() + 1);  // releasing a chunk must not fail
    spare_.push_back(more_memory_(chunk_bytes_));
  }
  chunks_.push_back({spare_.back(), next, 0});
  spare_.pop_back();
}

void CompressedFrames::read(Number number, char* frame) const {
  const char* const from = block(number);
  Size size;
  std::memcpy(&size, from, sizeof size);
  if (size != 0)
    lz4_.decompress(from + sizeof size, size, frame, frame_bytes_);
  else
    std::memcpy(frame, from + sizeof size, frame_bytes_);
}

void CompressedFrames::back_to(Number end) {
  if (end == end_) return;
  end_ = end;
  for (; !chunks_.empty() && chunks_.back().first >= end; chunks_.pop_back()) spare_.push_back(chunks_.back().memory);
  if (chunks_.empty()) return;
  // The first block to remove is in the last chunk, unless it was the first block in a released chunk.
  Chunk& last = chunks_.back();
  if (block(end) >= last.memory && block(end) < last.memory + last.used)
    last.used = static_cast<std::size_t>(block(end) - last.memory);
}

void CompressedFrames::forget_before(Number first) {
  first_ = first;
  for (; chunks_.size() > 1 && chunks_[1].first <= first; chunks_.pop_front()) spare_.push_back(chunks_.front().memory);
}

void CompressedFrames::clear() {
  for (; !chunks_.empty(); chunks_.pop_back()) spare_.push_back(chunks_.back().memory);
}

}  // namespace rb
