// Every memory order stronger than relaxed has a line in tests/weak_memory/orders, which `make orders` checks.
#include "frame_pool.hpp"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "../base/failpoints.hpp"
#include "../base/sizes.hpp"

namespace rb {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto acquire_release = std::memory_order_acq_rel;

constexpr std::uint64_t kPage = 4096, kMostChunkBytes = 1 << 20;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 46;  // address space

// All frames of a stack are in one chunk, so each chunk begins with a whole stack. On the other hand, about two chunks
// per explorer are not full. The square root minimises the sum of the two costs.
std::uint64_t frames_a_chunk(const StackShape& shape, std::uint64_t frame_bytes, std::uint64_t capacity) {
  const double root = std::sqrt(static_cast<double>(shape.frames) * static_cast<double>(capacity));
  return std::max<std::uint64_t>(std::min(static_cast<std::uint64_t>(root), kMostChunkBytes / frame_bytes),
                                 2 * shape.frames);
}

}  // namespace

FramePool::Layout FramePool::layout(const StackShape& shape, std::size_t stacks, std::uint64_t capacity) {
  const std::uint64_t frame_bytes = round_up(shape.frame_bytes(), 8);
  Layout all{};
  all.frames_a_chunk = frames_a_chunk(shape, frame_bytes, capacity);
  all.chunk_bytes = round_up(times(all.frames_a_chunk, frame_bytes), kPage);
  // In the worst case, no stack continues another, and every row has its own frames. The same number of frames is
  // needed for rows that are being added. Each registration also has an open chunk, and a chunk that is kept only for
  // its newest row.
  const std::uint64_t frames_of_the_ring = times(capacity, times(stacks, shape.frames));
  const std::uint64_t of_the_ring = divided_up(frames_of_the_ring, all.frames_a_chunk - shape.frames + 1);
  all.chunks = plus(times(2, of_the_ring), 2 * kRegistrations);
  if (times(all.chunks, all.chunk_bytes) > kMostBytes) throw TooLarge();
  all.table_bytes = round_up(plus(sizeof(Table), times(all.chunks, sizeof(Atomic))), alignof(Table));
  return all;
}

FramePool::FramePool(const StackShape& shape, const Layout& layout, char* table, char* chunks, RowExpiry expiry,
                     Allocate allocate)
    : shape_(shape),
      frame_bytes_(round_up(shape.frame_bytes(), 8)),
      layout_(layout),
      table_(reinterpret_cast<Table*>(table)),
      chunks_(chunks),
      expiry_(expiry),
      allocate_(std::move(allocate)),
      last_(shape),
      frame_(std::make_unique<char[]>(frame_bytes_)) {}

// F2. Returns a chunk whose rows have expired, or otherwise an unused one.
std::uint64_t FramePool::take_chunk(std::size_t registration) {
  const std::uint64_t ours = SlotWord::writing(0, registration).bits;
  const std::uint64_t used = table_->fresh.load(acquire), hint = table_->hint.load(relaxed);
  for (std::uint64_t i = 0; i < used; ++i) {
    const std::uint64_t chunk = (hint + i) % used;
    SlotWord found{word(chunk).load(acquire)};
    if (!found.is_written() || (found.row() != 0 && !expiry_.is_expired(found.row() - 1))) continue;
    RB_FAILPOINT(F2);
    if (!word(chunk).compare_exchange_strong(found.bits, ours, acquire_release, relaxed)) continue;
    table_->hint.store(chunk + 1, relaxed);
    return chunk;
  }
  for (std::uint64_t chunk = used; chunk < layout_.chunks; ++chunk) {
    std::uint64_t fresh = word(chunk).load(acquire);
    if (fresh == 0) {
      // Done before a registration owns the chunk, so that a chunk in use has memory even if a process dies.
      allocate_(chunk * layout_.chunk_bytes, layout_.chunk_bytes);
      RB_FAILPOINT(F2);
      word(chunk).compare_exchange_strong(fresh, ours, acquire_release, relaxed);
    }
    std::uint64_t known = table_->fresh.load(relaxed);
    while (known <= chunk && !table_->fresh.compare_exchange_weak(known, chunk + 1, release, relaxed)) {
    }
    if (fresh == 0) return chunk;
  }
  throw std::bad_alloc();  // only possible if many calls of add() pass more rows than the ring holds
}

FramePool::Scratch FramePool::scratch() const {
  const std::size_t most = 2 * shape_.frames;
  Scratch all{std::make_unique_for_overwrite<char[]>(most * frame_bytes_), std::vector<const char*>(most)};
  for (std::size_t j = 0; j < most; ++j) all.frames[j] = all.memory.get() + j * frame_bytes_;
  return all;
}

// No bounds are checked. A reference is one word, so it is never torn. It is written only after its chunk has memory,
// and chunks never move.
void FramePool::read(Ref ref, char* stack, Ref next, char* next_stack, Scratch& scratch) const {
  const std::size_t stack_bytes = shape_.frames * frame_bytes_;
  const auto bring = [&](Ref newest, std::size_t bytes) {
    BesideOthers::out(scratch.memory.get(), chunks_ + (newest - 1) + frame_bytes_ - bytes, bytes);
  };
  // Usually the two stacks share frames, and one copy fetches both. The next stack cannot be that close if it is in a
  // different chunk, which begins with a whole stack.
  const std::size_t ahead = next - ref;
  const bool overlap = next_stack != nullptr && ref != 0 && ahead < stack_bytes;
  if (ref != 0) {
    bring(overlap ? next : ref, stack_bytes + (overlap ? ahead : 0));
    put_frames(shape_, scratch.frames.data(), stack);
  }
  if (next_stack == nullptr || next == 0) return;
  if (!overlap) bring(next, stack_bytes);
  put_frames(shape_, scratch.frames.data() + (overlap ? ahead / frame_bytes_ : 0), next_stack);
}

// Step B0.
void FramePool::reclaim(std::size_t registration) {
  Cursor& cursor = table_->cursors[registration];
  if (cursor.filling.load(acquire) == 0) return;
  const std::uint64_t theirs = SlotWord::writing(0, registration).bits, end = expiry_.end();
  for (std::uint64_t chunk = 0; chunk < layout_.chunks; ++chunk) {
    if (word(chunk).load(acquire) != theirs) continue;
    RB_FAILPOINT(B0);
    word(chunk).store(SlotWord::written(end).bits, release);
  }
  cursor.chunk.store(0, relaxed);
  cursor.appended.fetch_add(1, relaxed);  // so that the next stack does not continue the last one
  cursor.filling.store(0, release);
}

FramePool::Appender::Appender(FramePool& pool, std::size_t registration)
    : pool_(pool),
      registration_(registration),
      cursor_(pool.table_->cursors[registration]),
      used_(cursor_.used.load(relaxed)),
      appended_(cursor_.appended.load(relaxed)) {
  if (const std::uint64_t chunk = cursor_.chunk.load(relaxed); chunk != 0) chunks_.push_back(chunk - 1);
  had_ = chunks_.size();
  RB_FAILPOINT(F1);
  cursor_.filling.store(1, release);
}

FramePool::Ref FramePool::Appender::append(const char* stack) {
  FramePool& pool = pool_;
  const StackShape& shape = pool.shape_;
  const bool follows = pool.last_registration_ == registration_ && pool.last_appended_ == appended_;
  std::size_t count = follows ? pool.last_.new_frames(stack) : shape.frames;
  if (count == 0) return pool.last_ref_;
  if (chunks_.empty() || used_ + count > pool.layout_.frames_a_chunk) {
    if (chunks_.size() == chunks_.capacity())
      chunks_.reserve(2 * chunks_.size() + 2);  // may fail, so it is done before a chunk is taken
    chunks_.push_back(pool.take_chunk(registration_));
    used_ = 0;
    count = shape.frames;
  }
  const std::uint64_t first = chunks_.back() * pool.layout_.chunk_bytes;
  RB_FAILPOINT(F3);
  for (std::size_t nth = shape.frames - count; nth < shape.frames; ++nth, ++used_, ++appended_) {
    take_frame(shape, stack, nth, pool.frame_.get());
    BesideOthers::in(pool.chunks_ + first + used_ * pool.frame_bytes_, pool.frame_.get(), pool.frame_bytes_);
  }
  pool.last_.remember(stack);
  pool.last_registration_ = registration_;
  pool.last_appended_ = appended_;
  return pool.last_ref_ = 1 + first + (used_ - 1) * pool.frame_bytes_;
}

void FramePool::Appender::undo() {
  pool_.last_.forget();
  for (; chunks_.size() > had_; chunks_.pop_back())
    pool_.word(chunks_.back()).store(SlotWord::written(0).bits, release);
  used_ = cursor_.used.load(relaxed);
  appended_ = cursor_.appended.load(relaxed);
}

// F4, F5. All rows that refer to the chunks being closed were claimed before this point, by this call or earlier calls
// with this registration.
FramePool::Appender::~Appender() {
  if (!chunks_.empty()) {
    const std::uint64_t open = chunks_.back(), end = pool_.expiry_.end();
    chunks_.pop_back();
    for (const std::uint64_t full : chunks_) {
      RB_FAILPOINT(F4);
      pool_.word(full).store(SlotWord::written(end).bits, release);
    }
    cursor_.chunk.store(open + 1, relaxed);
  }
  cursor_.used.store(used_, relaxed);
  cursor_.appended.store(appended_, relaxed);
  RB_FAILPOINT(F5);
  cursor_.filling.store(0, release);
}

}  // namespace rb
