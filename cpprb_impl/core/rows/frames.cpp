#include "frames.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "../base/sizes.hpp"

namespace rb {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 18;

// Returns log2 of the frames per chunk: as many as fit in kChunkBytes, but only a small part of the ring, because two
// chunks are never full.
unsigned frames_a_chunk_log2(std::size_t frame_bytes, std::uint64_t capacity) {
  const std::uint64_t wanted =
      std::max<std::uint64_t>(std::min<std::uint64_t>(kChunkBytes / frame_bytes, capacity / 128), 1);
  return static_cast<unsigned>(std::bit_width(wanted) - 1);
}

}  // namespace

FrameStream::Need FrameStream::need(const StackShape& shape, std::size_t stacks, std::uint64_t capacity) {
  const unsigned shift = frames_a_chunk_log2(shape.frame_bytes(), capacity);
  // A call of add() may pass as many transitions as the ring holds, and the stored ones are removed only once the call
  // has succeeded. The oldest transition's stack may begin with frames of earlier transitions.
  const std::uint64_t alive = plus(times(times(2, capacity), times(stacks, shape.frames)), shape.frames);
  // The first and the last chunk are not full.
  return {plus(divided_up(alive, std::uint64_t{1} << shift), 1), times(shape.frame_bytes(), std::uint64_t{1} << shift)};
}

FrameStream::FrameStream(const StackShape& shape, std::uint64_t capacity, MoreMemory more_memory, bool compressed)
    : shape_(shape),
      shift_(frames_a_chunk_log2(shape.frame_bytes(), capacity)),
      mask_((std::uint64_t{1} << shift_) - 1),
      chunks_(2),
      last_(shape) {
  if (!compressed) {
    more_memory_ = std::move(more_memory);
    return;
  }
  const std::size_t bytes = shape.frame_bytes();
  compressed_ = std::make_unique<CompressedFrames>(bytes, bytes << shift_, std::move(more_memory));
  frame_ = std::make_unique_for_overwrite<char[]>(bytes);
}

FrameStream::Number FrameStream::append(const char* stack) { return append_frames(stack, last_.new_frames(stack)); }

FrameStream::Number FrameStream::append_next(const char* stack) {
  return append_frames(stack, last_.new_frames_of_next(stack));
}

FrameStream::Number FrameStream::append_frames(const char* stack, std::size_t count) {
  for (std::size_t nth = shape_.frames - count; nth < shape_.frames; ++nth) append_frame(stack, nth);
  if (count != 0) last_.remember(stack);
  return high_ - 1;
}

void FrameStream::append_frame(const char* stack, std::size_t nth) {
  if (compressed_) {
    take_frame(shape_, stack, nth, frame_.get());
    compressed_->append(high_, frame_.get());
  } else {
    if ((high_ & mask_) == 0) open_chunk();
    take_frame(shape_, stack, nth, const_cast<char*>(place(high_)));
  }
  ++high_;
}

void FrameStream::read_frame(Number number, char* to) const {
  if (compressed_) return compressed_->read(number, to);
  std::memcpy(to, place(number), shape_.frame_bytes());
}

FrameStream::Scratch FrameStream::scratch() const {
  Scratch all{std::vector<const char*>(2 * shape_.frames), nullptr};
  if (compressed_ && !is_whole()) all.memory = std::make_unique_for_overwrite<char[]>(2 * shape_.bytes());
  return all;
}

void FrameStream::read(Number newest, char* stack, Number next, char* next_stack, Scratch& scratch) const {
  if (compressed_) return read_compressed(newest, stack, next, next_stack, scratch);
  const auto put = [&](Number last, char* to) {
    for (std::size_t j = 0; j < shape_.frames; ++j) scratch.frames[j] = place(last + 1 - shape_.frames + j);
    put_frames(shape_, scratch.frames.data(), to);
  };
  put(newest, stack);
  if (next_stack != nullptr) put(next, next_stack);
}

// Each frame is decompressed once, even if both stacks contain it; directly into the stack if the stack consists of
// whole frames.
void FrameStream::read_compressed(Number newest, char* stack, Number next, char* next_stack, Scratch& scratch) const {
  const std::size_t count = shape_.frames, bytes = shape_.frame_bytes();
  const bool whole = is_whole();
  const Number oldest = newest + 1 - count;
  const char** const frames = scratch.frames.data();
  for (std::size_t j = 0; j < count; ++j) {
    char* const to = (whole ? stack : scratch.memory.get()) + j * bytes;
    compressed_->read(oldest + j, to);
    frames[j] = to;
  }
  if (!whole) put_frames(shape_, frames, stack);
  if (next_stack == nullptr) return;
  const char** const next_frames = frames + count;
  for (std::size_t j = 0; j < count; ++j) {
    const Number number = next + 1 - count + j;
    char* const to = whole ? next_stack + j * bytes : scratch.memory.get() + (count + j) * bytes;
    const bool known = number >= oldest && number <= newest;
    next_frames[j] = known ? frames[number - oldest] : to;
    if (!known) compressed_->read(number, to);
    if (known && whole) std::memcpy(to, next_frames[j], bytes);
  }
  if (!whole) put_frames(shape_, next_frames, next_stack);
}

void FrameStream::back_to(std::uint64_t end) {
  const std::uint64_t before = std::exchange(high_, end);
  last_.forget();
  if (compressed_) return compressed_->back_to(end);
  close_chunks((end + mask_) >> shift_, (before + mask_) >> shift_);
}

void FrameStream::forget_before(Number newest) {
  const std::uint64_t oldest = newest + 1 - shape_.frames;
  const std::uint64_t before = std::exchange(low_, oldest);
  if (compressed_) return compressed_->forget_before(oldest);
  close_chunks(before >> shift_, oldest >> shift_);
}

void FrameStream::clear() {
  if (compressed_)
    compressed_->clear();
  else
    close_chunks(low_ >> shift_, (high_ + mask_) >> shift_);
  high_ = (high_ + mask_) & ~mask_;  // the next frame starts a new chunk
  low_ = high_;
  last_.forget();
}

void FrameStream::open_chunk() {
  const std::uint64_t chunk = high_ >> shift_, oldest = low_ >> shift_;
  if (chunk - oldest == chunks_.size()) {
    std::vector<char*> longer(2 * chunks_.size());
    for (std::uint64_t c = oldest; c < chunk; ++c) longer[c & (longer.size() - 1)] = chunks_[c & (chunks_.size() - 1)];
    chunks_.swap(longer);
  }
  char*& place = chunks_[chunk & (chunks_.size() - 1)];
  if (spare_.empty()) {
    spare_.reserve(chunks_.size() + 1);  // close_chunks() must not fail
    place = more_memory_(shape_.frame_bytes() << shift_);
  } else {
    place = spare_.back();
    spare_.pop_back();
  }
}

void FrameStream::close_chunks(std::uint64_t first, std::uint64_t end) {
  for (std::uint64_t c = first; c < end; ++c)
    spare_.push_back(std::exchange(chunks_[c & (chunks_.size() - 1)], nullptr));
}

}  // namespace rb
