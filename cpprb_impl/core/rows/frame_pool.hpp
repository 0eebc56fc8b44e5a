// Frames shared by processes. Each frame of a field is stored once, as frames.hpp does for a single process.
//
// Frames are stored in chunks. A chunk belongs to a registration, and so to one explorer while it is inside add(),
// which appends frames to it. A full chunk is reused by the first explorer that needs one, once all rows that refer to
// it have expired. Implements steps F1 to F5, B0 and L4 of docs/protocol.md.
// Every memory order stronger than relaxed has a line in tests/weak_memory/orders, which `make orders` checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "../protocol/segment_header.hpp"
#include "../protocol/shared_words.hpp"
#include "stacks.hpp"

namespace rb {

// Determines whether a row has expired, from two numbers that only increase.
struct RowExpiry {
  const Atomic* head = nullptr;
  const Atomic* cleared = nullptr;
  std::uint64_t capacity = 0;

  // Returns whether the row was overwritten, is about to be, or was cleared. No reader returns such a row.
  bool is_expired(std::uint64_t row) const {
    return row < cleared->load(std::memory_order_acquire) || row + capacity < head->load(std::memory_order_acquire);
  }
  std::uint64_t end() const { return head->load(std::memory_order_acquire); }  // end of the rows claimed so far
};

class FramePool {
 public:
  // The position of a stack's newest frame: 1 + its offset in bytes from the first chunk. 0 means no stack.
  using Ref = std::uint64_t;

  struct Layout {
    std::uint64_t frames_a_chunk, chunk_bytes, chunks, table_bytes;
    std::uint64_t bytes() const { return chunks * chunk_bytes; }  // address space; memory is allocated on use
  };
  // For rows with `stacks` values of the field each, one or two. Throws TooLarge.
  static Layout layout(const StackShape& shape, std::size_t stacks, std::uint64_t capacity);

  // Allocates `bytes` of memory at the offset `at` from the first chunk; throws std::system_error.
  using Allocate = std::function<void(std::uint64_t at, std::uint64_t bytes)>;
  // The table must initially be all zeros.
  FramePool(const StackShape& shape, const Layout& layout, char* table, char* chunks, RowExpiry expiry,
            Allocate allocate);
  FramePool(const FramePool&) = delete;

  // Reads the stack at `ref` and, if `next_stack` is not null, the one at `next`. The caller must check afterwards
  // whether the row has expired: if so, what was read is invalid. A reference of 0 is skipped.
  struct Scratch {
    std::unique_ptr<char[]> memory;
    std::vector<const char*> frames;
  };
  Scratch scratch() const;
  void read(Ref ref, char* stack, Ref next, char* next_stack, Scratch& scratch) const;

  // Called after the holder of `registration` has died, so that its chunks can be reused once their rows have expired.
  // The caller must hold the registration's lock.
  void reclaim(std::size_t registration);
  void forked() { last_.forget(); }
  std::uint64_t bytes_in_use() const { return table_->fresh.load(std::memory_order_acquire) * layout_.chunk_bytes; }

  class Appender;

 private:
  // Guarded by the registration's lock.
  struct alignas(64) Cursor {
    Atomic filling;   // 1: a call is appending, or died while appending
    Atomic chunk;     // 1 + its number; 0: none
    Atomic used;      // frames used in it
    Atomic appended;  // all frames ever appended by this registration; increases whenever the chunk changes
  };
  struct Table {
    Atomic fresh;  // chunks before this one have been used
    Atomic hint;   // where the search for a reusable chunk starts
    Cursor cursors[kRegistrations];
  };
  // A chunk's word: 0 initially; SlotWord::writing(0, registration) while it belongs to a registration; then
  // SlotWord::written(end), which says that the rows referring to it are before `end`.
  Atomic& word(std::uint64_t chunk) const { return reinterpret_cast<Atomic*>(table_ + 1)[chunk]; }
  std::uint64_t take_chunk(std::size_t registration);

  StackShape shape_;
  std::size_t frame_bytes_;  // bytes per frame in a chunk
  Layout layout_;
  Table* table_;
  char* chunks_;
  RowExpiry expiry_;
  Allocate allocate_;
  // The stack that this process appended last, and how many frames its registration had appended by then.
  LastStack last_;
  std::size_t last_registration_ = 0;
  std::uint64_t last_appended_ = 0;
  Ref last_ref_ = 0;
  std::unique_ptr<char[]> frame_;  // a frame being extracted from a stack
};

// Appends frames during one call, with a registration whose lock it holds. Rows claimed during its lifetime can refer
// to what it appended.
class FramePool::Appender {
 public:
  Appender(FramePool& pool, std::size_t registration);
  ~Appender();
  Appender(const Appender&) = delete;

  // Throws std::bad_alloc, std::system_error.
  Ref append(const char* stack);
  // Reverts everything appended. Nothing may refer to it, now or later.
  void undo();

 private:
  FramePool& pool_;
  std::size_t registration_;
  Cursor& cursor_;
  std::vector<std::uint64_t>
      chunks_;       // the registration's initial chunks, then those taken since; the last one is open
  std::size_t had_;  // number of initial chunks
  std::uint64_t used_, appended_;
};

}  // namespace rb
