// Rows whose frames are shared by processes.
#include <algorithm>

#include "../base/sizes.hpp"
#include "rows.hpp"

namespace rb {

// A reference takes 8 bytes, and small values are read faster from the row itself. Values kept in a file are stored
// whole.
void Rows::store_whole_where_sharing_saves_nothing() {
  std::vector<std::size_t> values(fields_.size());  // by field: 1, or 2 together with its next field
  for (std::size_t f = 0; f < fields_.size(); ++f) ++values[is_next(f) ? fields_[f].next_of : f];
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    FieldStorage& field = fields_[f];
    const std::size_t count = values[is_next(f) ? field.next_of : f];
    const std::uint64_t saved = plus(times(count, sizeof(FramePool::Ref)), field.shape.frame_bytes());
    if (field.file.empty() && times(count, field.bytes) > saved) continue;
    field.framed = false;
    field.next_of = FieldStorage::kNone;
  }
}

FramePool::Layout Rows::pool_layout(std::size_t f, std::uint64_t capacity) const {
  return FramePool::layout(fields_[f].shape, followers_[f] == FieldStorage::kNone ? 1 : 2, capacity);
}

Rows::FrameSpace Rows::frame_space(std::uint64_t capacity) const {
  FrameSpace space;
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    if (!begins_pool(f)) continue;
    const FramePool::Layout layout = pool_layout(f, capacity);
    space.table_bytes = plus(space.table_bytes, layout.table_bytes);
    space.bytes = plus(space.bytes, layout.bytes());
  }
  return space;
}

void Rows::bind_frames(char* tables, char* chunks, const RowExpiry& expiry, const FramePool::Allocate& allocate) {
  std::uint64_t before = 0;
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    if (!begins_pool(f)) continue;
    const FramePool::Layout layout = pool_layout(f, expiry.capacity);
    pools_[f] = std::make_unique<FramePool>(
        fields_[f].shape, layout, tables, chunks + before, expiry,
        [allocate, before](std::uint64_t at, std::uint64_t bytes) { allocate(before + at, bytes); });
    tables += layout.table_bytes;
    before += layout.bytes();
  }
}

void Rows::reclaim(std::size_t registration) {
  for (const auto& pool : pools_)
    if (pool) pool->reclaim(registration);
}

void Rows::forked() {
  for (const auto& pool : pools_)
    if (pool) pool->forked();
}

std::uint64_t Rows::frame_bytes_in_use() const {
  std::uint64_t bytes = chunk_bytes_;
  for (const auto& streams : streams_)
    for (const auto& stream : streams) bytes += stream.bytes_beside_chunks();
  for (const auto& pool : pools_)
    if (pool) bytes += pool->bytes_in_use();
  return bytes;
}

void Rows::read_shared(std::size_t f, const std::size_t* slots, std::size_t first, std::size_t last,
                       char* const* to) const {
  const FramePool& pool = *pools_[f];
  const std::size_t next = followers_[f], bytes = fields_[f].bytes;
  const bool has_next = next != FieldStorage::kNone && to[next] != nullptr;
  if (to[f] == nullptr && !has_next) return;
  const std::size_t one = to[f] != nullptr ? f : next;
  const bool both = has_next && one == f;
  FramePool::Scratch scratch = pool.scratch();
  const auto ref_at = [&](std::size_t field, std::size_t slot) {
    FramePool::Ref ref;
    BesideOthers::out(reinterpret_cast<char*>(&ref), columns_[field].at(slot), sizeof ref);
    return ref;
  };
  for (std::size_t i = first; i < last; ++i)
    pool.read(ref_at(one, slots[i]), to[one] + i * bytes, both ? ref_at(next, slots[i]) : 0,
              both ? to[next] + i * bytes : nullptr, scratch);
}

Rows::NewFrames::NewFrames(Rows& rows, std::size_t registration, const char* const* data, std::size_t skip,
                           std::size_t count)
    : data_(data, data + rows.fields_.size()), refs_(rows.fields_.size()) {
  const std::size_t fields = rows.fields_.size();
  try {
    for (std::size_t f = 0; f < fields; ++f) {
      if (!rows.pools_[f]) continue;
      const std::size_t next = rows.followers_[f], bytes = rows.fields_[f].bytes;
      const bool has_next = next != FieldStorage::kNone;
      refs_[f].resize(count);
      if (has_next) refs_[next].resize(count);
      appenders_.push_back(std::make_unique<FramePool::Appender>(*rows.pools_[f], registration));
      for (std::size_t i = skip; i < count; ++i) {
        refs_[f][i] = appenders_.back()->append(data[f] + i * bytes);
        if (has_next) refs_[next][i] = appenders_.back()->append(data[next] + i * bytes);
      }
      data_[f] = reinterpret_cast<const char*>(refs_[f].data());
      if (has_next) data_[next] = reinterpret_cast<const char*>(refs_[next].data());
    }
  } catch (...) {
    for (const auto& filling : appenders_) filling->undo();
    throw;
  }
}

}  // namespace rb
