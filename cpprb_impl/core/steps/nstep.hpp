// N-step transitions: a step waits until the N - 1 steps that follow it are known. Hessel et al. 2018, "Rainbow",
// arXiv:1710.02298, section "Multi-step learning".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "episode_end.hpp"

namespace rb {

enum class NumberKind { half, single, twice, extended };  // floating point of 16, 32 and 64 bits, and long double

constexpr double kRoundsToInfiniteHalf = 65520;

// One column of the steps, and what a transition stores for it. A transition consists of the steps t .. t + N - 1. It
// ends earlier at the first step that is done or truncated, or at the last step available.
struct StepColumn {
  enum class Role {
    first,     // the value of step t
    last,      // the value of the step at which the transition ends
    done,      // whether that step is done
    sum,       // r_t + gamma r_(t+1) + ... up to that step
    discount,  // gamma^n for n steps, the factor for the value of what follows; steps have no such value
  };

  std::size_t bytes;  // size of a step's value
  Role role = Role::first;
  // For a sum or discount, how many numbers a value consists of: doubles in a step (long doubles if `kind` is
  // extended), numbers of `kind` in a transition.
  std::size_t numbers = 0;
  NumberKind kind = NumberKind::twice;
  bool swapped = false;  // a transition's numbers have the opposite byte order
};

// A transition stores `one` as done if its last step is done, otherwise zeros.
struct StepEnd : EpisodeEnd {
  std::string one;
};

// The window of pending steps, oldest first. It holds only the steps' values, and does not depend on where transitions
// are stored. Steps cycle through E environments, so the step that follows step i is step i + E.
class NstepWindow {
 public:
  // `truncated` may be null.
  NstepWindow(std::uint64_t size, double gamma, std::size_t environments, std::vector<StepColumn> columns, StepEnd done,
              std::optional<StepEnd> truncated);

  // Returns an empty window for the steps of one environment.
  NstepWindow of_one() const;

  std::size_t waiting() const { return waiting_; }
  std::size_t columns() const { return columns_.size(); }
  std::size_t bytes(std::size_t c) const { return columns_[c].bytes; }
  const char* column(std::size_t c) const { return at(c, 0); }  // the values of the waiting steps

  // Appends `count` steps, a multiple of E: values[column] are their contiguous values. Throws std::bad_alloc; nothing
  // has changed then.
  void append(const char* const* values, std::size_t count);
  void drop_newest(std::size_t count) { waiting_ -= count; }

  // How many of the pending steps are complete: all steps that must follow them are present.
  std::size_t complete() const {
    const std::uint64_t each = waiting_ / environments_;  // of each environment
    return each < size_ ? 0 : static_cast<std::size_t>(each - size_ + 1) * environments_;
  }
  // Returns the transitions that begin with the oldest `count` steps, a multiple of E: their values by column, valid
  // until the next call of a non-const method. `count` is not 0. Throws std::bad_alloc.
  const char* const* transitions(std::size_t count);
  const char* const* made() const { return places_.data(); }  // the last result
  // A number that became infinite in a column of those transitions, although it was computed from finite ones.
  struct TooLarge {
    std::size_t column;
    double number;
  };
  const std::vector<TooLarge>& too_large() const { return too_large_; }  // at most one per column
  // Removes the oldest `count` steps.
  void drop(std::size_t count);
  void clear() { drop(waiting_); }

 private:
  struct Column : StepColumn {
    std::unique_ptr<char[]> steps;
    std::vector<char> made;  // computed values, which no step contains
  };

  const char* at(std::size_t c, std::size_t step) const {
    return columns_[c].steps.get() + (begin_ + step) * columns_[c].bytes;
  }
  void make_room(std::size_t count);
  void move_to(std::size_t room);
  bool has(const StepEnd& end, std::size_t step) const;
  bool ends(std::size_t step) const { return has(done_, step) || (truncated_ && has(*truncated_, step)); }
  std::size_t steps(std::size_t nth) const { return (ends_[nth] - nth) / environments_ + 1; }  // of a transition
  double discount(std::size_t steps);
  // Returns whether each transition ends one step after the previous one. If so, their last steps need not be gathered.
  bool find_ends(std::size_t count);
  const char* gather(std::size_t c, std::size_t count);
  const char* tell_done(std::size_t c, std::size_t count);
  template <class Number>
  const char* sum(std::size_t c, std::size_t count);
  template <class Number>
  void find_too_large(std::size_t c, std::size_t count);
  const char* tell_discounts(std::size_t c, std::size_t count);

  std::uint64_t size_;
  double gamma_;
  std::size_t environments_;
  StepEnd done_;
  std::optional<StepEnd> truncated_;
  std::vector<Column> columns_;
  std::size_t step_bytes_ = 0;                      // of all columns
  std::size_t begin_ = 0, waiting_ = 0, room_ = 0;  // in steps; the memory before `begin_` is free
  std::vector<std::size_t> ends_;                   // by transition: the step at which it ends
  std::vector<std::size_t> next_ends_;              // by environment, while `ends_` is being computed
  std::vector<double> discounts_;                   // powers of gamma, as many as needed so far
  std::vector<const char*> places_;                 // by column
  std::vector<TooLarge> too_large_;                 // among the transitions computed last
};

}  // namespace rb
