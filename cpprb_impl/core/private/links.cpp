#include "links.hpp"

#include <algorithm>

#include "../base/sizes.hpp"

namespace rb {

Links::Links(std::uint64_t capacity, std::size_t streams, bool across)
    : capacity_(capacity),
      across_(across),
      memory_(Memory::make_private(times(capacity, 2 * sizeof(std::uint32_t)))),
      links_(reinterpret_cast<std::uint32_t*>(memory_.data())),
      numbers_(links_ + capacity),
      streams_(streams) {}

void Links::add(std::uint64_t row, std::size_t count, StreamsOfRows streams, const char* is_last) {
  const std::uint64_t last = streams_[0].last;
  if (streams_.size() == 1 && is_even_ && ahead_.empty() && capacity_ > 1 && (last == kNone || last + 1 == row))
    return add_to_one(row, count, is_last);
  std::uint64_t slot = row % capacity_;
  std::size_t in_turn = 0;  // a division per row would take as long as the rest of the loop
  for (std::size_t i = 0; i < count; ++i, ++row) {
    Stream& its = streams_[streams.given != nullptr ? static_cast<std::size_t>(streams.given[i]) : in_turn];
    const std::uint64_t back = its.last == kNone || row - its.last >= capacity_ ? 0 : row - its.last;
    const bool ends = is_last[i] != 0;
    put_in(slot, row, 0, static_cast<std::uint32_t>(back) | (its.begins ? kFirst : 0) | (ends ? kLast : 0), 1);
    its = {row, ends};
    slot = slot + 1 == capacity_ ? 0 : slot + 1;
    in_turn = in_turn + 1 == streams.in_turn ? 0 : in_turn + 1;
  }
}

void Links::add_to_one(std::uint64_t row, std::size_t count, const char* is_last) {
  Stream& its = streams_[0];
  std::uint64_t slot = row % capacity_;
  std::uint32_t back = its.last == kNone ? 0 : 1, number = numbers_[slot == 0 ? capacity_ - 1 : slot - 1];
  bool begins = its.begins;
  for (std::size_t i = 0; i < count; ++i) {
    const bool ends = is_last[i] != 0;
    number = back == 0 || (begins && !across_) ? 1 : number + 1;
    links_[slot] = back | (begins ? kFirst : 0) | (ends ? kLast : 0);
    numbers_[slot] = number;
    back = 1;
    begins = ends;
    slot = slot + 1 == capacity_ ? 0 : slot + 1;
  }
  if (count > 0) its = {row + count - 1, begins};
}

void Links::put_in(std::uint64_t slot, std::uint64_t row, std::uint64_t tail, std::uint32_t link,
                   std::uint32_t number) {
  const std::uint64_t back = continued(link), previous = slot >= back ? slot - back : slot + capacity_ - back;
  links_[slot] = link;
  numbers_[slot] = back == 0 ? 1 : row - tail < back ? number : numbers_[previous] + 1;
  is_even_ = is_even_ && (back == 0 || back == streams_.size());
  if (!ahead_.empty() && row - tail >= back) ahead_[previous] = static_cast<std::uint32_t>(back);
}

void Links::restart() {
  std::fill(streams_.begin(), streams_.end(), Stream{});
  is_even_ = true;
}

std::uint64_t Links::after(std::uint64_t row, std::uint64_t tail, std::uint64_t head) {
  if (!is_even_ && ahead_.empty()) {
    ahead_.resize(capacity_);
    for (std::uint64_t each = tail; each < head; ++each)
      if (const std::uint64_t back = continued(links_[each % capacity_]); each - tail >= back)
        ahead_[(each - back) % capacity_] = static_cast<std::uint32_t>(back);
  }
  const std::uint64_t next = row + (is_even_ ? streams_.size() : ahead_[row % capacity_]);
  return next > row && next < head && continued(links_[next % capacity_]) == next - row ? next : kNone;
}

std::uint64_t Links::before(std::uint64_t row, std::uint64_t steps, std::uint64_t tail) const {
  if (is_even_) {
    const std::uint64_t distance = steps * streams_.size();
    return row - tail >= distance ? row - distance : kNone;
  }
  std::uint64_t slot = row % capacity_;
  for (; steps > 0; --steps) {
    const std::uint64_t back = links_[slot] & kBack;
    if (row - tail < back) return kNone;
    row -= back;
    slot = slot >= back ? slot - back : slot + capacity_ - back;
  }
  return row;
}

std::vector<std::int64_t> Links::streams(std::uint64_t head) const {
  std::vector<std::int64_t> all;
  for (const Stream& each : streams_) {
    const std::uint64_t back = each.last == kNone || head - each.last >= capacity_ ? 0 : head - each.last;
    all.push_back(static_cast<std::int64_t>(2 * back + (each.begins ? 1 : 0)));
  }
  return all;
}

void Links::set_streams(const std::vector<std::int64_t>& streams, std::uint64_t head) {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const auto back = static_cast<std::uint64_t>(streams[i]) / 2;
    streams_[i] = {back == 0 || back > head ? kNone : head - back, streams[i] % 2 != 0};
  }
}

}  // namespace rb
