// Rows: where each field of a transition is kept, and writing and reading transitions.
//
// A field's value stands in its row of the store, or in a file of its own, or, if its frames are
// shared between transitions, in a stream of frames: its row then holds the number of its newest one. Where
// processes share the rows, a pool of frames takes the stream's place, and the row refers to it.
// The fields of a row that are in the store are one contiguous piece, so that a sampled row costs one
// or two cache lines instead of one for each field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "columns.hpp"
#include "frame_pool.hpp"
#include "frames.hpp"
#include "mapped_file.hpp"

namespace rb {

// What is to be kept of one field.
struct FieldStorage {
  static constexpr std::size_t kNone = ~std::size_t{0};

  std::size_t bytes;      // of its value
  std::size_t alignment;  // what its element type wants
  StackShape shape{};     // its frames, when `framed`
  bool framed = false;
  std::size_t next_of = kNone;  // the framed field whose value one step later this is; it stands before this one
  std::string file{};           // where it is kept; empty: in memory
};

class Rows {
 public:
  // `front` bytes of each row are for the words by which processes agree; 0: no thread writes while another one reads.
  explicit Rows(std::vector<FieldStorage> fields, std::size_t front = 0);
  Rows(const Rows&) = delete;

  std::size_t stride() const { return stride_; }  // bytes per row in the store; 0 if no field is stored there
  // Throws TooLarge if so many rows can't be addressed, before any file is made.
  void check_sizes(std::uint64_t capacity) const;

  // The rows of the store stand at `base`. Makes streams, and makes or finds files. Throws std::bad_alloc,
  // std::system_error, std::runtime_error.
  void bind(char* base, std::uint64_t capacity, Files files = Files::made);

  // Writing rows skip .. count - 1 of data[field], in two steps: what may fail comes first, and changes
  // nothing that can be seen.
  void prepare(const char* const* data, std::size_t skip, std::size_t count);
  void write(const char* const* data, std::size_t skip, std::size_t count, std::uint64_t slot);
  std::size_t bytes() const { return bytes_; }  // of a transition as it is returned
  // The row in `oldest_slot` is the oldest that is wanted.
  void forget_before(std::uint64_t oldest_slot);
  void clear();

  // The values of rows slots[first] .. slots[last - 1], out of `count`, to places first .. last - 1 of to[field].
  void read(const std::size_t* slots, std::size_t first, std::size_t last, std::size_t count, char* const* to) const;
  // So many rows are best read at a time, and before they are, looked for.
  std::size_t tile() const;
  void prefetch(const std::size_t* slots, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) __builtin_prefetch(base_ + slots[i] * stride_);
  }

  bool has_frames() const { return has_frames_; }
  bool has_files() const { return !files_.empty(); }
  std::size_t most_files() const { return fields_.size(); }
  std::vector<MappedFile::Identity> files() const;  // once settled
  const FrameStream* stream_of(std::size_t field) const { return streams_[field].get(); }

  // Shared frames (shared_frames.cpp). In a segment they have a table, and address space for chunks.
  struct FrameSpace {
    std::uint64_t table_bytes = 0, bytes = 0;
  };
  FrameSpace frame_space(std::uint64_t capacity) const;  // throws std::bad_alloc
  void bind_frames(char* tables, char* chunks, const RowExpiry& expiry, const FramePool::Allocate& allocate);
  void reclaim(std::size_t registration);
  void forked();
  std::uint64_t frame_bytes_in_use() const;
  class NewFrames;
  // The number of the newest frame of a framed field's value.
  FrameStream::Number number_at(std::size_t field, std::size_t slot) const;

 private:
  bool is_next(std::size_t f) const { return fields_[f].next_of != FieldStorage::kNone; }
  // obs and next_obs are in one stream; where a stack is one frame the next one needs no number.
  bool follows_at_once(std::size_t f) const { return !is_shared_ && is_next(f) && fields_[f].shape.frames == 1; }
  bool in_row(std::size_t f) const { return fields_[f].framed || fields_[f].file.empty(); }
  bool is_wide() const;
  template <class Copy>
  void write_as(const char* const* data, std::size_t skip, std::size_t count, std::uint64_t slot);
  template <class Copy>
  void read_as(const std::size_t* slots, std::size_t first, std::size_t last, std::size_t count, char* const* to) const;
  template <class Copy>
  void read_wide(const std::size_t* slots, std::size_t first, std::size_t last, std::size_t count,
                 char* const* to) const;
  void read_framed(std::size_t f, const std::size_t* slots, std::size_t first, std::size_t last, char* const* to) const;
  void read_shared(std::size_t f, const std::size_t* slots, std::size_t first, std::size_t last, char* const* to) const;
  // Of a field that begins a file: the most that it can ever need there.
  std::uint64_t file_bytes(std::size_t f, std::uint64_t capacity) const;
  void store_whole_where_sharing_saves_nothing();
  FramePool::Layout pool_layout(std::size_t f, std::uint64_t capacity) const;
  bool begins_pool(std::size_t f) const { return is_shared_ && fields_[f].framed && !is_next(f); }

  std::vector<FieldStorage> fields_;
  std::vector<std::size_t> followers_;  // by field: its next, or kNone
  std::vector<std::size_t> in_row_;     // the fields that have a place in the row, in their order there
  std::vector<std::size_t> offsets_;    // by field: bytes from the row's start
  std::size_t bytes_ = 0, stride_ = 0;
  bool is_shared_, has_frames_ = false;

  char* base_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::vector<Column> columns_;  // by field
  std::vector<std::unique_ptr<FrameStream>> streams_;
  std::vector<std::unique_ptr<FramePool>> pools_;
  std::vector<std::vector<FrameStream::Number>> numbers_;  // by framed field: those of the rows being written
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<std::unique_ptr<char[]>> chunks_;
};

// The frames of one call of add(), from a registration whose lock it has, stored in the pools before its rows are. Rows
// that refer to them are claimed while it lives. One thread of a process at a time makes one.
class Rows::NewFrames {
 public:
  // Throws std::bad_alloc, std::system_error; nothing has changed then.
  NewFrames(Rows& rows, std::size_t registration, const char* const* data, std::size_t skip, std::size_t count);

  // What is to be written: by field the values that were given, or references to them.
  const char* const* data() const { return data_.data(); }

 private:
  std::vector<const char*> data_;
  std::vector<std::vector<FramePool::Ref>> refs_;
  std::vector<std::unique_ptr<FramePool::Appender>> appenders_;
};

}  // namespace rb
