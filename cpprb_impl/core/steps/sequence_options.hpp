// Sequences of consecutive steps, for agents that learn from them: R2D2 (Kapturowski et al. 2019, "Recurrent Experience
// Replay in Distributed Reinforcement Learning"), Dreamer, TD-MPC2.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rb {

enum class AtEnd {
  stop,   // a sequence has steps of one episode; if the episode's last sequence is off the period, it ends with the
          // episode
  pad,    // instead of that one, a sequence begins on the period, and its missing steps are padded
  cross,  // a sequence may cross the end of an episode
  whole   // a sequence is an episode, however long
};

// The steps of one sequence: `rows` stored ones, after `before` that are padded. None if `rows` is 0.
struct Span {
  std::uint32_t before = 0, rows = 0;
};

struct SequenceOptions {
  std::uint32_t size = 1, burn_in = 0, period = 1;
  AtEnd at_end = AtEnd::stop;
  bool from_state = false;  // a sequence begins with a stored state, so that no step before its first may be padded

  std::uint32_t length() const { return burn_in + size; }
  // The number of a sequence's steps to learn from: neither burn-in nor padded. They are its last stored ones.
  std::uint32_t learned(Span span) const {
    return span.rows == 0 ? 0 : span.before + span.rows - std::max(burn_in, span.before);
  }
  // Whether a sequence may have padded steps.
  bool pads() const { return at_end == AtEnd::pad || (burn_in != 0 && !from_state); }
  // Whether all sequences have equally many stored steps.
  bool is_fixed() const { return !pads() && at_end != AtEnd::whole; }

  // Returns the sequence that ends with the step `number` (from 1 on) of its run: of an episode, or of a stream if
  // sequences may cross the ends of episodes.
  Span ending_at(std::uint64_t number, bool is_last) const {
    const std::uint32_t least = from_state ? length() : size;
    const auto whole = [this](std::uint64_t rows) {
      const auto stored = static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, length()));
      return Span{length() - stored, stored};
    };
    if (at_end == AtEnd::whole) return {0, is_last ? static_cast<std::uint32_t>(number) : 0};
    if (number >= least && (number - least) % period == 0) return whole(number);
    if (!is_last || at_end == AtEnd::cross) return {};
    if (at_end == AtEnd::stop) return number < least || from_state ? Span{} : whole(number);
    if (from_state && number <= burn_in) return {};  // nothing to learn from
    // The first step on the period whose sequence would pass the end of the episode.
    const std::uint64_t first = number < least ? 0 : ((number - least) / period + 1) * period;
    const auto burnt_in = from_state ? 0 : static_cast<std::uint32_t>(std::min<std::uint64_t>(first, burn_in));
    return {from_state ? 0 : burn_in - burnt_in, static_cast<std::uint32_t>(number - first) + burnt_in};
  }
};

}  // namespace rb
