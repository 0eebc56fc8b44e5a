#include "nstep.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "../base/sizes.hpp"

namespace rb {
namespace {

constexpr std::size_t kMostKept = std::size_t{1} << 20;  // bytes of memory kept after a large batch
constexpr std::size_t kSpareSteps = 8;                   // spare room, so that waiting steps are rarely moved

// Converts to IEEE 754 binary16, rounding to nearest, ties to even.
std::uint16_t half_of(double value) {
  constexpr int kLeast = -14;  // exponent of the smallest normal number
  const unsigned sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (size >= kRoundsToInfiniteHalf) return static_cast<std::uint16_t>(sign | 0x7c00);
  const int exponent = size > 0 ? std::max(std::ilogb(size), kLeast) : kLeast;
  const long units = std::lrint(std::ldexp(size, 10 - exponent));  // a carry to 2048 increments the exponent
  return static_cast<std::uint16_t>(sign | static_cast<unsigned>(((exponent - kLeast) << 10) + units));
}

template <class Number>
std::size_t put(NumberKind kind, Number number, char* to) {
  const auto copy = [to](auto value) {
    std::memcpy(to, &value, sizeof value);
    return sizeof value;
  };
  switch (kind) {
    case NumberKind::half: return copy(half_of(static_cast<double>(number)));
    case NumberKind::single: return copy(static_cast<float>(number));
    case NumberKind::twice: return copy(static_cast<double>(number));
    default: return copy(static_cast<long double>(number));
  }
}

template <class Number>
bool becomes_infinite(NumberKind kind, Number number) {
  switch (kind) {
    case NumberKind::half: return std::abs(number) >= static_cast<Number>(kRoundsToInfiniteHalf);
    case NumberKind::single: return std::isinf(static_cast<float>(number));
    default: return std::isinf(number);
  }
}

std::size_t bytes_of(NumberKind kind) {
  switch (kind) {
    case NumberKind::half: return 2;
    case NumberKind::single: return 4;
    case NumberKind::twice: return 8;
    default: return sizeof(long double);
  }
}

}  // namespace

NstepWindow::NstepWindow(std::uint64_t size, double gamma, std::size_t environments, std::vector<StepColumn> columns,
                         StepEnd done, std::optional<StepEnd> truncated)
    : size_(size),
      gamma_(gamma),
      environments_(environments),
      done_(std::move(done)),
      truncated_(std::move(truncated)),
      columns_(columns.size()),
      places_(columns.size()) {
  for (std::size_t c = 0; c < columns.size(); ++c) {
    static_cast<StepColumn&>(columns_[c]) = columns[c];
    step_bytes_ = plus(step_bytes_, columns[c].bytes);
  }
}

NstepWindow NstepWindow::of_one() const {
  return {size_, gamma_, 1, std::vector<StepColumn>(columns_.begin(), columns_.end()), done_, truncated_};
}

void NstepWindow::append(const char* const* values, std::size_t count) {
  make_room(count);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const std::size_t bytes = columns_[c].bytes;
    if (bytes != 0) std::memcpy(columns_[c].steps.get() + (begin_ + waiting_) * bytes, values[c], count * bytes);
  }
  waiting_ += count;
}

void NstepWindow::make_room(std::size_t count) {
  const std::size_t needed = plus(waiting_, count);
  if (begin_ + needed <= room_) return;
  if (needed <= room_ && begin_ >= waiting_) {  // on average, each step is moved at most once
    for (auto& column : columns_)
      std::memcpy(column.steps.get(), column.steps.get() + begin_ * column.bytes, waiting_ * column.bytes);
    begin_ = 0;
  } else {
    move_to(plus(times(2, needed), kSpareSteps));
  }
}

void NstepWindow::move_to(std::size_t room) {
  std::vector<std::unique_ptr<char[]>> all;
  all.reserve(columns_.size());
  for (const auto& column : columns_) all.push_back(std::make_unique_for_overwrite<char[]>(times(room, column.bytes)));
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (waiting_ != 0) std::memcpy(all[c].get(), at(c, 0), waiting_ * columns_[c].bytes);
    columns_[c].steps = std::move(all[c]);
  }
  begin_ = 0;
  room_ = room;
}

bool NstepWindow::has(const StepEnd& end, std::size_t step) const { return end.is_in(at(end.column, step)); }

bool NstepWindow::find_ends(std::size_t count) {
  ends_.resize(count);
  next_ends_.resize(environments_);
  std::iota(next_ends_.begin(), next_ends_.end(), waiting_ - environments_);  // the last steps available
  bool in_line = true;
  for (std::size_t step = waiting_; step-- > 0;) {
    std::size_t& end = next_ends_[step % environments_];
    if (ends(step)) end = step;
    if (step >= count) continue;
    const std::uint64_t more = std::min<std::uint64_t>((end - step) / environments_, size_ - 1);
    ends_[step] = step + static_cast<std::size_t>(more) * environments_;
    in_line &= step + 1 == count || ends_[step] + 1 == ends_[step + 1];
  }
  return in_line;
}

const char* const* NstepWindow::transitions(std::size_t count) {
  too_large_.clear();
  const bool in_line = find_ends(count);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    switch (columns_[c].role) {
      case StepColumn::Role::first: places_[c] = at(c, 0); break;
      case StepColumn::Role::last: places_[c] = in_line ? at(c, ends_.front()) : gather(c, count); break;
      case StepColumn::Role::done: places_[c] = tell_done(c, count); break;
      case StepColumn::Role::discount: places_[c] = tell_discounts(c, count); break;
      case StepColumn::Role::sum:
        places_[c] = columns_[c].kind == NumberKind::extended ? sum<long double>(c, count) : sum<double>(c, count);
    }
  }
  return places_.data();
}

const char* NstepWindow::gather(std::size_t c, std::size_t count) {
  Column& column = columns_[c];
  column.made.resize(times(count, column.bytes));
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(column.made.data() + i * column.bytes, at(c, ends_[i]), column.bytes);
  return column.made.data();
}

const char* NstepWindow::tell_done(std::size_t c, std::size_t count) {
  Column& column = columns_[c];
  column.made.assign(times(count, column.bytes), 0);
  for (std::size_t i = 0; i < count; ++i)
    if (has(done_, ends_[i])) std::memcpy(column.made.data() + i * column.bytes, done_.one.data(), column.bytes);
  return column.made.data();
}

double NstepWindow::discount(std::size_t steps) {
  while (discounts_.size() <= steps) discounts_.push_back(std::pow(gamma_, static_cast<double>(discounts_.size())));
  return discounts_[steps];
}

template <class Number>
const char* NstepWindow::sum(std::size_t c, std::size_t count) {
  Column& column = columns_[c];
  const std::size_t bytes = bytes_of(column.kind);
  column.made.resize(times(count, times(column.numbers, bytes)));
  char* to = column.made.data();
  discount(std::min<std::uint64_t>(size_, waiting_));  // so that all powers are available
  const double* const powers = discounts_.data();
  Number largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t length = steps(i);
    for (std::size_t n = 0; n < column.numbers; ++n, to += bytes) {
      const auto reward = [&](std::size_t k) {
        Number number;
        std::memcpy(&number, at(c, i + k * environments_) + n * sizeof number, sizeof number);
        return number;
      };
      Number total = reward(0);
      for (std::size_t k = 1; k < length; ++k) total += static_cast<Number>(powers[k]) * reward(k);
      largest = std::max(largest, std::abs(total));
      put(column.kind, total, to);
      if (column.swapped) std::reverse(to, to + bytes);
    }
  }
  if (becomes_infinite(column.kind, largest)) [[unlikely]]
    find_too_large<Number>(c, count);
  return column.made.data();
}

// Finds a sum of finite numbers that is too large.
template <class Number>
void NstepWindow::find_too_large(std::size_t c, std::size_t count) {
  const Column& column = columns_[c];
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t n = 0; n < column.numbers; ++n) {
      Number total = 0;
      bool finite = true;
      for (std::size_t k = 0; k < steps(i); ++k) {
        Number reward;
        std::memcpy(&reward, at(c, i + k * environments_) + n * sizeof reward, sizeof reward);
        finite &= std::isfinite(reward);
        total += static_cast<Number>(discount(k)) * reward;
      }
      if (finite && becomes_infinite(column.kind, total)) return too_large_.push_back({c, static_cast<double>(total)});
    }
}

const char* NstepWindow::tell_discounts(std::size_t c, std::size_t count) {
  Column& column = columns_[c];
  const std::size_t bytes = bytes_of(column.kind);
  column.made.resize(times(count, times(column.numbers, bytes)));
  char* to = column.made.data();
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t n = 0; n < column.numbers; ++n, to += bytes) {
      largest = std::max(largest, discount(steps(i)));
      put(column.kind, discount(steps(i)), to);
      if (column.swapped) std::reverse(to, to + bytes);
    }
  if (becomes_infinite(column.kind, largest)) too_large_.push_back({c, largest});
  return column.made.data();
}

void NstepWindow::drop(std::size_t count) {
  begin_ += count;
  waiting_ -= count;
  if (waiting_ == 0) begin_ = 0;
  for (auto& column : columns_)
    if (column.made.capacity() > kMostKept) column.made = {};
  if (room_ * step_bytes_ <= kMostKept || room_ / 8 <= waiting_ + 1) return;
  try {
    move_to(2 * (waiting_ + 1) + kSpareSteps);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): keep the large memory
  }
}

}  // namespace rb
