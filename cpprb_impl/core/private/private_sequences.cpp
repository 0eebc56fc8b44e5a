#include "private_sequences.hpp"

#include <algorithm>

namespace rb {
namespace {

constexpr std::uint64_t kLeast = 64;  // entries
constexpr unsigned kTries = 1000;
constexpr std::size_t kSizes = 4;  // whose queues are kept

}  // namespace

Span SequenceQueue::ending_in(std::uint64_t slot) const {
  return options_.ending_at(links_.number(slot), (links_.link(slot) & Links::kLast) != 0);
}

std::uint64_t SequenceQueue::first_of(std::uint64_t row, Span span) const {
  if (span.rows == 0 || row < store_.tail()) return Links::kNone;
  const std::uint64_t first = links_.before(row, span.rows - 1, store_.tail());
  const auto begins = [&] { return (links_.link(first % store_.capacity()) & Links::kFirst) != 0; };
  return first != Links::kNone && options_.at_end == AtEnd::whole && !begins() ? Links::kNone : first;
}

std::uint64_t SequenceQueue::nth(std::uint64_t n) const {
  return store_.head() - static_cast<std::uint32_t>(static_cast<std::uint32_t>(store_.head()) - entry(n));
}

bool SequenceQueue::insert(std::uint64_t row) {
  const std::uint64_t first = first_of(row, ending_at(row));
  if (first == Links::kNone) return false;
  std::uint64_t& longest = row < era_ ? longest_before_ : longest_since_;
  longest = std::max(longest, row - first);
  if (queued_ == queue_.size()) {
    std::vector<std::uint32_t> larger(std::max(2 * queue_.size(), kLeast));
    for (std::uint64_t n = 0; n < queued_; ++n) larger[n] = entry(n);
    queue_ = std::move(larger);
    front_ = 0;
  }
  std::uint64_t n = queued_++;
  for (; n > 0 && nth(n - 1) > row; --n) entry(n) = entry(n - 1);
  entry(n) = static_cast<std::uint32_t>(row);
  return true;
}

void SequenceQueue::lose(std::uint64_t row) {
  if (by_priority_ && row >= store_.tail()) lost_.push_back(row % store_.capacity());
}

void SequenceQueue::clear_lost_leaves() {
  if (lost_.empty()) return;
  const std::vector<float> zeros(lost_.size());
  store_.set_leaves(lost_, zeros.data());
  lost_.clear();
}

void SequenceQueue::catch_up() {
  if (store_.tail() >= era_) begin_era();
  // Every queued row was overwritten: so long ago, perhaps, that the low half of its number is that of another row.
  if (store_.head() - seen_ >= store_.capacity()) queued_ = 0;
  while (queued_ > 0 && !is_stored(nth(0))) {
    lose(nth(0));
    ++front_;
    --queued_;
  }
  for (seen_ = std::max(seen_, store_.tail()); seen_ < store_.head(); ++seen_)
    if (!insert(seen_)) lose(seen_);
  clear_lost_leaves();
}

void SequenceQueue::begin_era() {
  longest_before_ = longest_since_;
  longest_since_ = 0;
  era_ = store_.head();
}

void SequenceQueue::ended(std::uint64_t row, float leaf) {
  if (row >= seen_) return;
  const Span before = options_.ending_at(links_.number(row % store_.capacity()), false);
  if (before.rows != 0 || !insert(row) || !by_priority_) return;
  std::vector<std::size_t> slot{row % store_.capacity()};
  store_.set_leaves(slot, &leaf);
}

void SequenceQueue::changed_from(std::uint64_t row) {
  while (queued_ > 0 && nth(queued_ - 1) >= row) --queued_;
  seen_ = std::min(seen_, row);
}

std::uint64_t SequenceQueue::count() {
  catch_up();
  if (is_exact()) return queued_;
  const std::uint64_t longest = std::max(longest_before_, longest_since_);
  const auto is_old = [&](std::uint64_t n) { return nth(n) - std::min(nth(n), store_.tail()) < longest; };
  std::uint64_t old = 0, kept = 0;
  while (old < queued_ && is_old(old)) ++old;
  for (std::uint64_t n = old; n-- > 0;)
    if (is_stored(nth(n)))
      entry(old - ++kept) = entry(n);
    else
      lose(nth(n));
  clear_lost_leaves();
  front_ += old - kept;
  return queued_ -= old - kept;
}

std::uint64_t SequenceQueue::draw_end(Random& random) {
  for (unsigned tries = 1; queued_ > 0; ++tries) {
    const std::uint64_t row = nth(random.below(queued_));
    if (is_exact() || is_stored(row)) return row;
    if (tries % kTries == 0) count();
  }
  return Links::kNone;
}

std::size_t SequenceQueue::write_slots(std::size_t last, std::size_t rows, std::size_t step, std::size_t* to) const {
  const std::uint64_t capacity = store_.capacity(), stride = links_.stride();
  std::uint64_t slot = last;
  for (std::size_t t = rows; t-- > 0;) {
    to[t * step] = slot;
    const std::uint64_t back = t == 0 ? 0 : stride != 0 ? stride : links_.link(slot) & Links::kBack;
    slot = slot >= back ? slot - back : slot + capacity - back;
  }
  return slot;
}

bool SequenceQueue::draw(Random& random, DrawnSequences& drawn) {
  catch_up();
  for (std::size_t& slot : drawn.ends.slots) {
    const std::uint64_t row = draw_end(random);
    if (row == Links::kNone) return false;
    slot = row % store_.capacity();
  }
  return queued_ > 0;
}

void SequenceQueue::find_steps(DrawnSequences& drawn, const SequencePlaces& to) const {
  const std::size_t sequences = drawn.ends.slots.size(), length = options_.length();
  const std::size_t step = to.step(sequences), sequence = to.sequence(length);
  drawn.spans.resize(sequences);
  drawn.steps.slots.resize(sequences * length);
  drawn.first.slots.resize(sequences);
  std::fill_n(to.is_first, sequences * length, 0);
  for (std::size_t b = 0; b < sequences; ++b) {
    const std::size_t last = drawn.ends.slots[b];
    const Span span = drawn.spans[b] = ending_in(last);
    std::size_t* const slots = drawn.steps.slots.data() + b * sequence;
    const std::size_t first = drawn.first.slots[b] = write_slots(last, span.rows, step, slots + span.before * step);
    for (std::size_t t = 0; t < span.before; ++t) slots[t * step] = first;
    for (std::size_t t = span.before + span.rows; t < length; ++t) slots[t * step] = first;
    // Only a sequence that may cross the end of an episode has another first step than its own.
    const std::size_t end = span.before + (options_.at_end == AtEnd::cross ? span.rows : 1);
    for (std::size_t t = span.before; t < end; ++t)
      to.is_first[b * sequence + t * step] = static_cast<char>((links_.link(slots[t * step]) & Links::kFirst) != 0);
  }
}

Found SequenceQueue::sample(Random& random, DrawnSequences& drawn, const SequencePlaces& to, Waiting& waiting) {
  if (by_priority_ == nullptr) {
    if (!draw(random, drawn)) return Found::nothing;
  } else {
    drawn.ends.candidates = count();
    if (drawn.ends.candidates == 0) return Found::nothing;
    if (const Found found = by_priority_->sample(random, drawn.ends, nullptr, waiting); found != Found::rows)
      return found;
  }
  find_steps(drawn, to);
  PrivateStore::View view(store_);
  view.read(drawn.steps, to.steps.data(), waiting);
  if (to.wants_first) view.read(drawn.first, to.first.data(), waiting);
  bool jumps = false;
  if (!to.single.empty()) store_.copy(drawn.steps.slots.size(), waiting, [&] { jumps = !read_single(drawn, to); });
  return jumps ? Found::jumps : Found::rows;
}

bool SequenceQueue::read_single(DrawnSequences& drawn, const SequencePlaces& to) const {
  const std::size_t sequences = drawn.spans.size(), length = options_.length();
  const std::size_t step = to.step(sequences), sequence = to.sequence(length);
  for (const auto& [field, frame_bytes, older, frames] : to.single) {
    drawn.jumping = field;
    for (std::size_t b = 0; b < sequences; ++b) {
      const Span span = drawn.spans[b];
      const std::size_t first = b * sequence + span.before * step;
      const std::size_t place = b * to.sequence(length + older) + span.before * step;
      if (store_.rows().read_single(field, drawn.steps.slots.data() + first, to.is_first + first, step, span.rows,
                                    frames + place * frame_bytes, step * frame_bytes) != span.rows)
        return false;
    }
  }
  return true;
}

bool SequenceQueue::draw_episodes(Random& random, DrawnSequences& drawn) {
  if (!draw(random, drawn)) return false;
  drawn.spans.clear();
  drawn.steps.slots.clear();
  for (const std::size_t last : drawn.ends.slots) {
    drawn.spans.push_back(ending_in(last));
    const std::size_t begin = drawn.steps.slots.size(), rows = drawn.spans.back().rows;
    drawn.steps.slots.resize(begin + rows);
    write_slots(last, rows, 1, drawn.steps.slots.data() + begin);
  }
  return true;
}

std::uint64_t SequenceQueue::longest_run() {
  std::vector<std::uint64_t> steps;  // by row: the stored ones of its run up to this row
  for (std::uint64_t row = store_.tail(); row < store_.head(); ++row) {
    const std::uint64_t slot = row % store_.capacity(), back = links_.link(slot) & Links::kBack;
    const bool continues = links_.number(slot) > 1 && back <= steps.size();
    steps.push_back(continues ? steps[steps.size() - back] + 1 : 1);
  }
  return steps.empty() ? 0 : *std::max_element(steps.begin(), steps.end());
}

std::shared_ptr<SequenceQueue> PrivateSequences::of_size(std::uint32_t size) {
  const auto has_size = [size](const auto& each) { return each->options().size == size; };
  if (const auto found = std::find_if(others_.begin(), others_.end(), has_size); found != others_.end()) {
    std::rotate(found, found + 1, others_.end());
  } else {
    SequenceOptions options = sampler.options();
    options.size = size;
    if (others_.size() == kSizes) others_.erase(others_.begin());
    others_.push_back(std::make_shared<SequenceQueue>(options, store_, links, false));
  }
  return others_.back();
}

void PrivateSequences::ended(std::uint64_t row, float leaf) {
  sampler.ended(row, leaf);
  episodes.ended(row, 0);
  for (const auto& each : others_) each->ended(row, 0);
}

void PrivateSequences::changed_from(std::uint64_t row) {
  sampler.changed_from(row);
  episodes.changed_from(row);
  for (const auto& each : others_) each->changed_from(row);
}

std::size_t PrivateSequences::bytes() const {
  std::size_t all = links.bytes() + sampler.bytes() + episodes.bytes();
  for (const auto& each : others_) all += each->bytes();
  return all;
}

}  // namespace rb
