// The newest samples, so that a late update of priorities can find the rows that its sample drew.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace rb {

// `Rows` identifies the rows that were in the slots of a sample.
template <class Rows>
class RecentSamples {
 public:
  // Returns the sample's number, from 1 on.
  std::uint64_t remember(const std::vector<std::size_t>& slots, const Rows& rows) {
    Sample& sample = samples_[++newest_ % kRemembered];
    sample.number = newest_;
    sample.slots.clear();  // so that this sample matches nothing if the copies below run out of memory
    sample.rows = rows;
    sample.slots = slots;
    return newest_;
  }

  // Calls use(slots, rows) for each remembered sample, oldest first.
  template <class Use>
  void each_in_order(Use use) const {
    for (std::uint64_t number = newest_ - std::min(newest_, std::uint64_t{kRemembered}); number++ != newest_;)
      if (const Sample& each = samples_[number % kRemembered]; !each.slots.empty()) use(each.slots, each.rows);
  }

  // Calls use(rows) for the sample with that number, if `index` holds its first indexes. Otherwise, or if the sample is
  // no longer remembered, calls it for each sample with the same indexes, since any may be meant. Returns whether there
  // was such a sample.
  template <class Use>
  bool each_meant(const std::int64_t* index, std::size_t count, std::uint64_t number, Use use) const {
    const auto begins_so = [=](const Sample& each) {
      return each.slots.size() >= count && std::equal(index, index + count, each.slots.begin(),
                                                      [](auto a, auto b) { return static_cast<std::size_t>(a) == b; });
    };
    const Sample& known = samples_[number % kRemembered];
    if (number != 0 && known.number == number && begins_so(known)) {
      use(known.rows);
      return true;
    }
    bool found = false;
    for (const Sample& each : samples_)
      if (each.number != 0 && each.slots.size() == count && begins_so(each)) {
        use(each.rows);
        found = true;
      }
    return found;
  }

  // Calls use(i, rows, place) for each remembered sample that drew the slot index[i], at position `place`: parts of
  // samples do not say which sample they belong to.
  template <class Use>
  void each_that_drew(const std::int64_t* index, std::size_t count, Use use) const {
    std::vector<std::pair<std::size_t, std::size_t>> wanted(count);  // slots and their positions in `index`
    std::vector<bool> may_be_wanted(std::bit_ceil(8 * count + 1));   // by the low bits of a slot: saves most searches
    const std::size_t low_bits = may_be_wanted.size() - 1;
    for (std::size_t i = 0; i < count; ++i) {
      wanted[i] = {static_cast<std::size_t>(index[i]), i};
      may_be_wanted[wanted[i].first & low_bits] = true;
    }
    std::ranges::sort(wanted);
    for (const Sample& each : samples_)
      for (std::size_t place = 0; place < each.slots.size(); ++place) {
        const std::size_t slot = each.slots[place];
        if (!may_be_wanted[slot & low_bits]) continue;
        auto found = std::ranges::lower_bound(wanted, std::pair{slot, std::size_t{0}});
        for (; found != wanted.end() && found->first == slot; ++found) use(found->second, each.rows, place);
      }
  }

 private:
  static constexpr std::size_t kRemembered = 16;

  struct Sample {
    std::uint64_t number = 0;
    std::vector<std::size_t> slots;
    Rows rows{};
  };
  std::array<Sample, kRemembered> samples_;
  std::uint64_t newest_ = 0;
};

}  // namespace rb
