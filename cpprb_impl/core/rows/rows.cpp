#include "rows.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "../base/failpoints.hpp"
#include "../base/sizes.hpp"

namespace rb {
namespace {

// Rows are copied field by field in tiles that fit into a core's L1 cache.
constexpr std::size_t kTileBytes = 1 << 14;
// Rows larger than this are copied one after the other.
constexpr std::size_t kWideBytes = 1 << 13;
constexpr std::size_t kPage = 4096, kLine = 64;
// Rings larger than this are written past the caches.
constexpr std::size_t kCaches = std::size_t{32} << 20;

}  // namespace

Rows::Rows(std::vector<FieldStorage> fields, std::size_t front, std::size_t environments)
    : fields_(std::move(fields)),
      followers_(fields_.size(), FieldStorage::kNone),
      offsets_(fields_.size()),
      stride_(front),
      environments_(environments),
      is_shared_(front != 0),
      columns_(fields_.size()),
      streams_(fields_.size()),
      pools_(fields_.size()),
      numbers_(fields_.size()) {
  if (is_shared_) store_whole_where_sharing_saves_nothing();
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    FieldStorage& field = fields_[f];
    bytes_ = plus(bytes_, field.bytes);
    // A value larger than a page may be read one page at a time. In a private store, the value and its row begin at a
    // cache line: sampled images are then copied up to a quarter faster (AMD Zen 4).
    if (is_shared_)
      field.alignment = std::max(field.alignment, BesideOthers::unit(field.bytes > kPage ? kPage : field.bytes));
    else if (field.bytes > kPage)
      field.alignment = kLine;
    if (is_next(f)) followers_[field.next_of] = f;
    columns_[f].bytes = field.bytes;
    if (field.framed) {
      has_frames_ = true;
      field.alignment = columns_[f].bytes = is_shared_ ? sizeof(FramePool::Ref) : sizeof(FrameStream::Number);
    } else if (!field.file.empty()) {
      continue;
    }
    if (!follows_at_once(f)) in_row_.push_back(f);
  }
  // Widest alignment first, which avoids padding between fields whose sizes are multiples of their alignment.
  std::stable_sort(in_row_.begin(), in_row_.end(),
                   [&](auto a, auto b) { return fields_[a].alignment > fields_[b].alignment; });
  for (const auto f : in_row_) {
    offsets_[f] = round_up(stride_, fields_[f].alignment);
    stride_ = plus(offsets_[f], columns_[f].bytes);
  }
  const bool has_large = !in_row_.empty() && fields_[in_row_[0]].alignment == kLine;
  stride_ = round_up(stride_, has_large ? kLine : 8);
}

std::uint64_t Rows::file_bytes(std::size_t f, std::uint64_t capacity) const {
  const FieldStorage& field = fields_[f];
  if (field.file.empty() || is_next(f)) return 0;
  if (!field.framed) return times(capacity, field.bytes);
  const auto need =
      FrameStream::need(field.shape, followers_[f] == FieldStorage::kNone ? 1 : 2, capacity / environments_);
  return times(environments_, times(need.chunks, need.chunk_bytes));
}

void Rows::check_sizes(std::uint64_t capacity) const {
  std::uint64_t all = times(capacity, stride_);
  for (std::size_t f = 0; f < fields_.size(); ++f) all = plus(all, file_bytes(f, capacity));
}

void Rows::bind(char* base, std::uint64_t capacity, Files files) {
  base_ = base;
  capacity_ = capacity;
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const FieldStorage& field = fields_[f];
    MappedFile* file = nullptr;
    if (!field.file.empty() && !is_next(f)) {
      files_.push_back(std::make_unique<MappedFile>(field.file, file_bytes(f, capacity), files));
      file = files_.back().get();
    }
    if (field.framed || file == nullptr) {
      columns_[f].base = base + offsets_[f];
      columns_[f].stride = stride_;
    } else {
      columns_[f].base = file->grow(file_bytes(f, capacity));
      columns_[f].stride = field.bytes;
    }
    if (!field.framed || is_next(f) || is_shared_) continue;
    const auto more_memory = [this, file](std::size_t bytes) {
      if (file != nullptr) return file->grow(bytes);
      chunks_.push_back(std::make_unique_for_overwrite<char[]>(bytes));
      chunk_bytes_ += bytes;
      return chunks_.back().get();
    };
    streams_[f].reserve(environments_);
    for (std::size_t e = 0; e < environments_; ++e)
      streams_[f].emplace_back(field.shape, capacity / environments_, more_memory, field.compressed);
  }
}

std::vector<MappedFile::Identity> Rows::files() const {
  std::vector<MappedFile::Identity> all;
  all.reserve(files_.size());
  for (const auto& file : files_) all.push_back(file->identity());
  return all;
}

void Rows::prepare_frames(const char* const* data, std::size_t skip, std::size_t count, std::uint64_t row) {
  std::vector<std::uint64_t> ends;
  for (const auto& streams : streams_)
    for (const auto& stream : streams) ends.push_back(stream.end());
  try {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (streams_[f].empty()) continue;
      const std::size_t next = followers_[f];
      numbers_[f].resize(count);
      if (next != FieldStorage::kNone) numbers_[next].resize(count);
      for (std::size_t i = skip; i < count; ++i) {
        FrameStream& stream = streams_[f][(row + i) % environments_];
        numbers_[f][i] = stream.append(data[f] + i * fields_[f].bytes);
        if (next != FieldStorage::kNone) numbers_[next][i] = stream.append_next(data[next] + i * fields_[f].bytes);
      }
    }
  } catch (...) {
    auto end = ends.begin();
    for (auto& streams : streams_)
      for (auto& stream : streams) stream.back_to(*end++);
    throw;
  }
}

void Rows::write(const char* const* data, std::size_t skip, std::size_t count, std::uint64_t slot) {
  if (is_shared_)
    write_as<BesideOthers>(data, skip, count, slot);
  else if (capacity_ * stride_ > kCaches)
    write_as<PastCaches>(data, skip, count, slot);
  else
    write_as<Alone>(data, skip, count, slot);
}

template <class Copy>
void Rows::write_as(const char* const* data, std::size_t skip, std::size_t count, std::uint64_t slot) {
  const std::size_t rows = count - skip;
  const std::size_t before_end = std::min<std::size_t>(rows, capacity_ - slot);
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    if (follows_at_once(f)) continue;
    RB_FAILPOINT(E5);
    const Column& column = columns_[f];
    const bool numbered = fields_[f].framed && !is_shared_;
    const char* from = numbered ? reinterpret_cast<const char*>(numbers_[f].data()) : data[f];
    if (count == 1) {
      put<Copy>(column, slot, from);
      continue;
    }
    from += skip * column.bytes;
    scatter<Copy>(column, slot, before_end, from);
    if (before_end < rows) scatter<Copy>(column, 0, rows - before_end, from + before_end * column.bytes);
  }
}

void Rows::forget_before(std::uint64_t oldest_slot, std::uint64_t stored) {
  for (std::size_t f = 0; f < fields_.size(); ++f)
    // With rows of only some environments, there may be fewer rows than streams.
    for (std::size_t nth = 0; nth < std::min<std::uint64_t>(streams_[f].size(), stored); ++nth) {
      const std::uint64_t slot = (oldest_slot + nth) % capacity_;
      streams_[f][slot % environments_].forget_before(number_at(f, slot));
    }
}

void Rows::clear() {
  for (auto& streams : streams_)
    for (auto& stream : streams) stream.clear();
}

FrameStream::Number Rows::number_at(std::size_t f, std::size_t slot) const {
  const bool implied = follows_at_once(f);
  FrameStream::Number number;
  std::memcpy(&number, columns_[implied ? fields_[f].next_of : f].at(slot), sizeof number);
  return implied ? number + 1 : number;
}

bool Rows::is_wide() const { return stride_ >= kWideBytes; }

std::size_t Rows::tile() const {
  // In a shared store, a row that takes long to read is likely to be overwritten meanwhile.
  const std::size_t bytes = is_shared_ && has_frames_ ? bytes_ : stride_;
  return is_wide() ? 1 : std::max<std::size_t>(kTileBytes / std::max<std::size_t>(bytes, 1), 1);
}

void Rows::read(const std::size_t* slots, std::size_t first, std::size_t last, std::size_t count,
                char* const* to) const {
  is_shared_ ? read_as<BesideOthers>(slots, first, last, count, to) : read_as<Alone>(slots, first, last, count, to);
}

template <class Copy>
void Rows::read_as(const std::size_t* slots, std::size_t first, std::size_t last, std::size_t count,
                   char* const* to) const {
  for (std::size_t f = 0; f < fields_.size(); ++f)
    if (!fields_[f].framed && !(is_wide() && in_row(f)) && to[f] != nullptr)
      gather<Copy>(columns_[f], slots + first, last - first, to[f] + first * fields_[f].bytes);
  if (is_wide()) read_wide<Copy>(slots, first, last, count, to);
  for (std::size_t f = 0; f < fields_.size(); ++f)
    if (!streams_[f].empty())
      read_framed(f, slots, first, last, to);
    else if (pools_[f])
      read_shared(f, slots, first, last, to);
}

// Copies row by row, with fields in memory order, and prefetches the beginning of the next row, since hardware
// prefetching stops at the end of each row; but not if that row is adjacent, as in a sequence of steps. In a private
// store, each value is copied in one piece, because one long memcpy into cold memory takes 10% less time than many
// memcpys of one page each.
template <class Copy>
void Rows::read_wide(const std::size_t* slots, std::size_t first, std::size_t last, std::size_t count,
                     char* const* to) const {
  constexpr bool alone = std::is_same_v<Copy, Alone>;
  constexpr std::size_t most = alone ? ~std::size_t{0} : kPage, ahead_bytes = alone ? kPage / 2 : kPage;
  for (std::size_t i = first; i < last; ++i) {
    const char* row = base_ + slots[i] * stride_;
    const char* next_row = i + 1 < count ? base_ + slots[i + 1] * stride_ : row;
    const bool is_adjacent = next_row == row + stride_;
    for (const auto f : in_row_) {
      if (fields_[f].framed || to[f] == nullptr) continue;
      const std::size_t bytes = fields_[f].bytes;
      for (std::size_t done = 0, piece; done < bytes; done += piece) {
        piece = std::min(most, bytes - done);
        const std::size_t place = offsets_[f] + done + piece;
        const char* ahead = place + kLine < stride_ ? row + place : next_row;
        if (!is_adjacent)
          for (std::size_t line = 0; line < std::min(piece, ahead_bytes); line += kLine)
            __builtin_prefetch(ahead + line);
        Copy::out(to[f] + i * bytes + done, row + offsets_[f] + done, piece);
      }
    }
  }
}

// Reads obs and next_obs together, if both are wanted: they share all but two of their frames.
void Rows::read_framed(std::size_t f, const std::size_t* slots, std::size_t first, std::size_t last,
                       char* const* to) const {
  const std::size_t next = followers_[f], bytes = fields_[f].bytes;
  const bool has_next = next != FieldStorage::kNone && to[next] != nullptr;
  if (to[f] == nullptr && !has_next) return;
  const std::size_t one = to[f] != nullptr ? f : next;
  const bool both = has_next && one == f;
  FrameStream::Scratch scratch = streams_[f].front().scratch();
  for (std::size_t i = first; i < last; ++i)
    streams_[f][slots[i] % environments_].read(number_at(one, slots[i]), to[one] + i * bytes,
                                               both ? number_at(next, slots[i]) : 0,
                                               both ? to[next] + i * bytes : nullptr, scratch);
}

}  // namespace rb
