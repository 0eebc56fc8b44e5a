// The newest samples, so that a late update of priorities can find the rows that its sample drew.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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

  // Calls use(rows) for the sample with that number. If `number` is 0 or no longer remembered, does so for each sample
  // with the same indexes: any of these may be meant.
  template <class Use>
  void each_meant(const std::int64_t* index, std::size_t count, std::uint64_t number, Use use) const {
    const auto has_these = [=](const Sample& each) {
      return each.slots.size() == count && std::equal(index, index + count, each.slots.begin(),
                                                      [](auto a, auto b) { return static_cast<std::size_t>(a) == b; });
    };
    const Sample& known = samples_[number % kRemembered];
    if (number != 0 && known.number == number && has_these(known)) return use(known.rows);
    for (const Sample& each : samples_)
      if (each.number != 0 && has_these(each)) use(each.rows);
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
