// Rows: where each field of a transition is stored, and how transitions are written and read.
//
// A field's value is stored in its row of the store, in a separate file, or, if transitions share its frames, in a
// stream of frames. In the last case, the row holds the number of the newest frame. If processes share the rows, a pool
// of frames replaces the stream, and the row holds a reference into the pool. The fields of a row that are in the store
// are contiguous, so that a sampled row costs one or two cache lines instead of one per field.
//
// Rows cycle through E environments: row s is from environment s % E. Each environment has its own streams, since
// consecutive frames from different environments have nothing in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../base/mapped_file.hpp"
#include "columns.hpp"
#include "frame_pool.hpp"
#include "frames.hpp"

namespace rb {

// How one field is stored.
struct FieldStorage {
  static constexpr std::size_t kNone = ~std::size_t{0};

  std::size_t bytes;      // size of a value
  std::size_t alignment;  // required by its element type
  StackShape shape{};     // its frames, when `framed`
  bool framed = false;
  bool compressed = false;      // whether its frames are compressed, in memory
  std::size_t next_of = kNone;  // the earlier, framed field whose next value this field holds
  std::string file{};           // file in which it is stored; empty: in memory
};

class Rows {
 public:
  // The first `front` bytes of each row are reserved for the words through which processes coordinate. If `front` is 0,
  // no thread writes while another reads, and the capacity is a multiple of `environments`.
  explicit Rows(std::vector<FieldStorage> fields, std::size_t front = 0, std::size_t environments = 1);
  Rows(const Rows&) = delete;

  std::size_t stride() const { return stride_; }  // bytes per row in the store; 0 if no field is stored there
  // Throws TooLarge, before any file is created, if that many rows cannot be addressed.
  void check_sizes(std::uint64_t capacity) const;

  // Uses the memory at `base` for the store's rows. Creates streams, and creates or opens files. Throws std::bad_alloc,
  // std::system_error, std::runtime_error.
  void bind(char* base, std::uint64_t capacity, Files files = Files::made);

  // Rows skip .. count - 1 of data[field] are written in two steps. The first step does everything that may fail, and
  // makes no visible change.
  void prepare(const char* const* data, std::size_t skip, std::size_t count, std::uint64_t row) {
    if (has_frames_) prepare_frames(data, skip, count, row);
  }
  void write(const char* const* data, std::size_t skip, std::size_t count, std::uint64_t slot);
  std::size_t bytes() const { return bytes_; }  // size of a transition as returned
  // Releases frames older than those of the `stored` rows, which start in `oldest_slot`.
  void forget_before(std::uint64_t oldest_slot, std::uint64_t stored);
  void clear();

  // Copies the values of rows slots[first] .. slots[last - 1] to places first .. last - 1 of to[field]; null for a
  // field that is not wanted. `count` is the length of `slots`.
  void read(const std::size_t* slots, std::size_t first, std::size_t last, std::size_t count, char* const* to) const;
  // Copies the stacks of a field in `count` consecutive steps, in slots[0], slots[step], ..., as single frames to `to`,
  // to + apart, ...: the frames of the first step's stack, then the newest frame of each other step. Returns the first
  // step whose stack does not continue the one before it by one frame, unless begins[t * step] says that an episode
  // begins with it; `count` if there is none. Not for shared rows.
  std::size_t read_single(std::size_t field, const std::size_t* slots, const char* begins, std::size_t step,
                          std::size_t count, char* to, std::size_t apart) const;
  // How many rows should be checked and then read at a time.
  std::size_t tile() const;
  void prefetch(const std::size_t* slots, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) __builtin_prefetch(base_ + slots[i] * stride_);
  }

  bool has_frames() const { return has_frames_; }
  bool has_files() const { return !files_.empty(); }
  std::size_t most_files() const { return fields_.size(); }
  std::vector<MappedFile::Identity> files() const;  // once settled
  std::size_t environments() const { return environments_; }
  bool is_framed(std::size_t field) const { return fields_[field].framed; }
  // Where the field's values are, unless it is framed.
  const Column& column(std::size_t field) const { return columns_[field]; }
  // By environment; empty unless transitions share the field's frames.
  const std::vector<FrameStream>& streams_of(std::size_t field) const { return streams_[field]; }

  // Shared frames (shared_frames.cpp). In a segment, they need a table and address space for chunks.
  struct FrameSpace {
    std::uint64_t table_bytes = 0, bytes = 0;
  };
  FrameSpace frame_space(std::uint64_t capacity) const;  // throws std::bad_alloc
  void bind_frames(char* tables, char* chunks, const RowExpiry& expiry, const FramePool::Allocate& allocate);
  void reclaim(std::size_t registration);
  void forked();
  std::uint64_t frame_bytes_in_use() const;  // of shared frames, or of streams, without files
  class NewFrames;
  // Returns the number of the newest frame of a framed field's value.
  FrameStream::Number number_at(std::size_t field, std::size_t slot) const;

 private:
  bool is_next(std::size_t f) const { return fields_[f].next_of != FieldStorage::kNone; }
  // obs and next_obs are in one stream; if a stack is a single frame, next_obs needs no number of its own.
  bool follows_at_once(std::size_t f) const { return !is_shared_ && is_next(f) && fields_[f].shape.frames == 1; }
  bool in_row(std::size_t f) const { return fields_[f].framed || fields_[f].file.empty(); }
  bool is_wide() const;
  void prepare_frames(const char* const* data, std::size_t skip, std::size_t count, std::uint64_t row);
  template <class Copy>
  void write_as(const char* const* data, std::size_t skip, std::size_t count, std::uint64_t slot);
  template <class Copy>
  void read_as(const std::size_t* slots, std::size_t first, std::size_t last, std::size_t count, char* const* to) const;
  template <class Copy>
  void read_wide(const std::size_t* slots, std::size_t first, std::size_t last, std::size_t count,
                 char* const* to) const;
  void read_framed(std::size_t f, const std::size_t* slots, std::size_t first, std::size_t last, char* const* to) const;
  const FrameStream& stream_of(std::size_t f, std::size_t slot) const {
    return streams_[is_next(f) ? fields_[f].next_of : f][slot % environments_];
  }
  bool continues(std::size_t f, std::size_t slot, std::size_t earlier) const;
  void read_shared(std::size_t f, const std::size_t* slots, std::size_t first, std::size_t last, char* const* to) const;
  // For the first field of a file: the largest size that the file can reach. For any other field: 0.
  std::uint64_t file_bytes(std::size_t f, std::uint64_t capacity) const;
  void store_whole_where_sharing_saves_nothing();
  FramePool::Layout pool_layout(std::size_t f, std::uint64_t capacity) const;
  bool begins_pool(std::size_t f) const { return is_shared_ && fields_[f].framed && !is_next(f); }

  std::vector<FieldStorage> fields_;
  std::vector<std::size_t> followers_;  // by field: its next field, or kNone
  std::vector<std::size_t> in_row_;     // the fields stored in the row, in order
  std::vector<std::size_t> offsets_;    // by field: bytes from the row's start
  std::size_t bytes_ = 0, stride_ = 0;
  std::size_t environments_;
  bool is_shared_, has_frames_ = false;

  char* base_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::vector<Column> columns_;                    // by field
  std::vector<std::vector<FrameStream>> streams_;  // by field and environment
  std::vector<std::unique_ptr<FramePool>> pools_;
  std::vector<std::vector<FrameStream::Number>> numbers_;  // by framed field: frame numbers of the rows being written
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<std::unique_ptr<char[]>> chunks_;
  std::size_t chunk_bytes_ = 0;  // total size of the chunks
};

// The frames of one call of add(), which holds the registration's lock. The frames are stored in the pools before the
// rows. Rows that refer to them must be claimed during the lifetime of this object. Within a process, only one thread
// at a time may create one.
class Rows::NewFrames {
 public:
  // Throws std::bad_alloc, std::system_error; nothing has changed then.
  NewFrames(Rows& rows, std::size_t registration, const char* const* data, std::size_t skip, std::size_t count);

  // What to write, by field: the values passed to add(), or references to their frames.
  const char* const* data() const { return data_.data(); }

 private:
  std::vector<const char*> data_;
  std::vector<std::vector<FramePool::Ref>> refs_;
  std::vector<std::unique_ptr<FramePool::Appender>> appenders_;
};

}  // namespace rb
