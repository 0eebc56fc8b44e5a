// Frames that processes share: those of one field, each stored once, as frames.hpp does for one process.
//
// Frames stand in chunks. A chunk is a registration's, and so an explorer's own while it is inside add(): it appends
// there. A chunk that is full is reused by the first explorer that needs one, once all rows that refer to it have
// expired. Steps F1 to F5, B0 and L4 of docs/protocol.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "segment_header.hpp"
#include "shared_words.hpp"
#include "stacks.hpp"

namespace rb {

// Whether a row has expired follows from two numbers that only rise.
struct RowExpiry {
  const Atomic* head = nullptr;
  const Atomic* cleared = nullptr;
  std::uint64_t capacity = 0;

  // It was overwritten, or is about to be, or was cleared: no reader returns it.
  bool is_expired(std::uint64_t row) const {
    return row < cleared->load(std::memory_order_acquire) || row + capacity < head->load(std::memory_order_acquire);
  }
  std::uint64_t end() const { return head->load(std::memory_order_acquire); }  // of the rows that were claimed so far
};

class FramePool {
 public:
  // Where the newest frame of a stack stands: 1 + its bytes from the first chunk on. 0: nowhere.
  using Ref = std::uint64_t;

  struct Layout {
    std::uint64_t frames_a_chunk, chunk_bytes, chunks, table_bytes;
    std::uint64_t bytes() const { return chunks * chunk_bytes; }  // of address space: memory is taken when used
  };
  // For rows that have `stacks` values of the field each, one or two. Throws TooLarge.
  static Layout layout(const StackShape& shape, std::size_t stacks, std::uint64_t capacity);

  // Takes the memory of `bytes` from `at` on, counted from the first chunk; throws std::system_error.
  using Allocate = std::function<void(std::uint64_t at, std::uint64_t bytes)>;
  // The table is all zeros at first.
  FramePool(const StackShape& shape, const Layout& layout, char* table, char* chunks, RowExpiry expiry,
            Allocate allocate);
  FramePool(const FramePool&) = delete;

  // The stack at `ref`, and if there is a `next_stack` the one at `next`. The caller must check afterwards whether the
  // row had expired by then: what was read is useless in that case. A reference of 0 is skipped.
  struct Scratch {
    std::unique_ptr<char[]> memory;
    std::vector<const char*> frames;
  };
  Scratch scratch() const;
  void read(Ref ref, char* stack, Ref next, char* next_stack, Scratch& scratch) const;

  // The holder of `registration` has died: its chunks are used again once what it wrote has expired. Needs the
  // registration's lock.
  void reclaim(std::size_t registration);
  void forked() { last_.forget(); }
  std::uint64_t bytes_in_use() const { return table_->fresh.load(std::memory_order_acquire) * layout_.chunk_bytes; }

  class Appender;

 private:
  // Guarded by the registration's lock.
  struct alignas(64) Cursor {
    Atomic filling;   // 1: a call is appending, or died while it was
    Atomic chunk;     // 1 + its number; 0: none
    Atomic used;      // frames of it
    Atomic appended;  // frames by this registration, ever: rises whenever the chunk changes
  };
  struct Table {
    Atomic fresh;  // chunks before it were used
    Atomic hint;   // where to look for one that can be used again
    Cursor cursors[kRegistrations];
  };
  // A chunk's word: 0 at first, SlotWord::writing(0, registration) while it is a registration's, then
  // SlotWord::written(end): the rows that refer to it are before `end`.
  Atomic& word(std::uint64_t chunk) const { return reinterpret_cast<Atomic*>(table_ + 1)[chunk]; }
  std::uint64_t take_chunk(std::size_t registration);

  StackShape shape_;
  std::size_t frame_bytes_;  // in a chunk
  Layout layout_;
  Table* table_;
  char* chunks_;
  RowExpiry expiry_;
  Allocate allocate_;
  // The stack that this process appended last; it ends where this registration had appended so many frames.
  LastStack last_;
  std::size_t last_registration_ = 0;
  std::uint64_t last_appended_ = 0;
  Ref last_ref_ = 0;
  std::unique_ptr<char[]> frame_;  // one, as it is being taken out of a stack
};

// One call's appending, from a registration whose lock it has. What it wrote can be referred to by rows that are
// claimed while it lives.
class FramePool::Appender {
 public:
  Appender(FramePool& pool, std::size_t registration);
  ~Appender();
  Appender(const Appender&) = delete;

  // Throws std::bad_alloc, std::system_error.
  Ref append(const char* stack);
  // Nothing refers to what was appended, and nothing will.
  void undo();

 private:
  FramePool& pool_;
  std::size_t registration_;
  Cursor& cursor_;
  std::vector<std::uint64_t>
      chunks_;       // what the registration had at first, and those taken since; the last one is open
  std::size_t had_;  // of them
  std::uint64_t used_, appended_;
};

}  // namespace rb
