#include "step_errors.hpp"

#include <algorithm>
#include <limits>

#include "../base/sizes.hpp"

namespace rb {

StepErrors::StepErrors(PrivateStore& store, PrivateSequences& sequences, double eta)
    : store_(store),
      sequences_(sequences),
      eta_(eta),
      memory_(Memory::make_private(times(store.capacity(), sizeof(float)))),
      errors_(reinterpret_cast<float*>(memory_.data())) {}

void StepErrors::set(std::uint64_t slot, double error) {
  errors_[slot] = static_cast<float>(std::min<double>(error, std::numeric_limits<float>::max()));
}

StepErrors::Ends& StepErrors::update(const std::vector<std::size_t>& places, const std::int64_t* index,
                                     const float* errors) {
  const SequenceQueue& sampler = sequences_.sampler;
  const SequenceOptions& options = sampler.options();
  std::vector<std::size_t> slots;
  for (const std::size_t place : places) {
    const auto slot = static_cast<std::size_t>(index[place]);
    if (!sampler.is_end(slot)) continue;
    slots.push_back(slot);
    const Span span = sampler.ending_in(slot);
    std::uint64_t row = store_.row_of(slot);
    const float* error = errors + place * options.length() + span.before + span.rows;
    for (std::uint32_t left = options.learned(span); left > 0; --left) {
      set(row % store_.capacity(), static_cast<double>(*--error));
      if (left > 1) row = sequences_.links.before(row, 1, store_.tail());
    }
  }
  ends_.slots.clear();
  ends_.priorities.clear();
  for (const std::size_t slot : slots) find_overlapping(slot);
  return ends_;
}

// Slides a window over the run of the sequence that ends in `slot`: from the first step of the first sequence that may
// have one of its steps, to the last step of the last one.
void StepErrors::find_overlapping(std::size_t slot) {
  const SequenceQueue& sampler = sequences_.sampler;
  const SequenceOptions& options = sampler.options();
  Links& links = sequences_.links;
  const std::uint64_t row = store_.row_of(slot), tail = store_.tail(), head = store_.head();
  const std::uint32_t updated = options.learned(sampler.ending_in(slot));
  const auto append = [&](std::size_t its) { run_.push_back({its, errors_[its]}); };
  const auto follow = [&](std::uint64_t steps, auto&& next) {
    for (std::uint64_t at = row; steps > 0 && (at = next(at)) != Links::kNone; --steps) append(at % store_.capacity());
  };
  run_.clear();
  append(slot);
  follow(std::min<std::uint64_t>(links.number(slot), updated + options.length() - 1) - 1,
         [&](std::uint64_t at) { return links.before(at, 1, tail); });
  std::reverse(run_.begin(), run_.end());
  const std::size_t last = run_.size() - 1, first = last + 1 - updated;  // the places of the updated steps
  follow(options.size - 1, [&](std::uint64_t at) { return links.after(at, tail, head); });

  sums_.assign(1, 0);
  largest_.clear();
  std::size_t front = 0;  // of largest_
  for (std::size_t i = 0; i < run_.size(); ++i) {
    const auto [its, error] = run_[i];
    sums_.push_back(sums_.back() + static_cast<double>(error));
    while (largest_.size() > front && run_[largest_.back()].error <= error) largest_.pop_back();
    largest_.push_back(i);
    if (i < first) continue;
    const Span span = sampler.ending_in(its);
    const std::uint32_t count = options.learned(span);
    const std::size_t begin = i + 1 - count;
    if (count == 0 || span.rows > i + 1 || begin > last) continue;
    while (largest_[front] < begin) ++front;
    const auto largest = static_cast<double>(run_[largest_[front]].error);
    ends_.slots.push_back(its);
    ends_.priorities.push_back(mixed_priority(eta_, largest, sums_[i + 1] - sums_[begin], count));
  }
}

}  // namespace rb
