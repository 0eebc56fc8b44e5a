// The streams of steps that one process adds to a shared store: which row the next row of each stream continues.
//
// This is known only to the process. A run of consecutive steps ends where a row may not directly follow the one
// before: in a forked child, after a row that was stored later than its place (E4) or not at all, and after a call of
// add() that failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "../protocol/shared_words.hpp"
#include "../steps/episode_end.hpp"

namespace rb {

// One row of a call of add().
struct StreamStep {
  std::uint32_t stream;
  bool is_first, is_last;  // of its episode
  bool alone = false;      // continues no row, and no row continues it
};

class StreamLinks {
 public:
  // A run has the steps of an episode or, if runs go `across` the ends of episodes, of a stream.
  StreamLinks(std::uint64_t capacity, std::size_t streams, bool across)
      : capacity_(capacity), across_(across), streams_(streams) {}

  // Begins a call of add(): one step for each row, of which is_last[i] says whether it ends its episode. `firsts`, if
  // given, says which rows are the first of their episodes; otherwise, a row is if the one before it was the last.
  // Returns the steps, which are valid until the next call.
  StreamStep* begin_call(std::size_t rows, StreamsOfRows streams, const char* is_last, const bool* firsts = nullptr);
  // For rows that are not steps of a stream.
  StreamStep* set_all_apart(std::size_t rows) {
    steps_.assign(rows, {0, false, false, true});
    return steps_.data();
  }
  // The call has stored its rows.
  void end_call() {
    for (std::size_t i = 0; i < streams_.size(); ++i) streams_[i].begins = begins_[i] != 0;
  }

  // Calls put(i, link) for each of the `count` rows with numbers from `row` on, which are about to be committed. Rows
  // before `cleared` were removed.
  template <class Put>
  void link(std::uint64_t row, const StreamStep* steps, std::size_t count, std::uint64_t cleared, Put put) {
    if (streams_.size() != 1) {
      for (std::size_t i = 0; i < count; ++i) put(i, next(streams_[steps[i].stream], row + i, steps[i], cleared));
      return;
    }
    Of its = streams_[0];  // may stay in registers
    for (std::size_t i = 0; i < count; ++i) put(i, next(its, row + i, steps[i], cleared));
    streams_[0] = its;
  }
  // The first `count` rows of the call have numbers from `row` on, but are not stored.
  void skip(std::uint64_t row, const StreamStep* steps, std::size_t count) {
    link(row, steps, count, 0, [](std::size_t, LinkWord) {});
  }
  // The step is not stored in its turn: its stream's next row begins a run.
  void set_apart(StreamStep& step) {
    step.alone = true;
    streams_[step.stream].last = kNone;
  }
  // The next row of each stream begins a run.
  void cut() {
    for (Of& each : streams_) each.last = kNone;
  }
  // The next row of each stream begins an episode.
  void begin_episodes() { streams_.assign(streams_.size(), Of{}); }
  // The next rows of the streams first, first + 1, ... begin runs, and episodes if `begin_episodes` says so. Makes room
  // for these streams.
  void begin_runs(std::size_t first, const bool* begin_episodes, std::size_t count);
  // The stream's newest row has this number, and is this step of its run.
  void continue_run(std::size_t stream, std::uint64_t row, std::uint64_t number, bool begins_episode) {
    streams_[stream] = {row, number, begins_episode};
  }
  std::size_t streams() const { return streams_.size(); }
  // The newest row of the stream; none if its next one begins a run.
  std::optional<std::uint64_t> newest(std::size_t stream) const {
    const std::uint64_t last = streams_[stream].last;
    return last == kNone ? std::nullopt : std::optional(last);
  }
  // Whether the next row of the stream is the first of an episode.
  bool begins_episode(std::size_t stream) const { return streams_[stream].begins; }
  // Whether a stream's newest row is not the last of its episode.
  bool is_in_episode() const;

  bool taken = false;  // by a call of add(), since other threads may run while storing waits

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  struct Of {
    std::uint64_t last = kNone, number = 0;  // the newest row, and its step in its run
    bool begins = true;                      // whether the next row is the first of an episode
  };

  LinkWord next(Of& its, std::uint64_t row, const StreamStep& step, std::uint64_t cleared) const {
    if (step.alone) return LinkWord::of(0, 1, step.is_first, step.is_last);
    const bool is_stored = its.last != kNone && its.last >= cleared && row - its.last < capacity_;
    const bool continues = is_stored && (across_ || !step.is_first) && its.number < LinkWord::kMost;
    const std::uint64_t back = continues ? row - its.last : 0;
    its.number = continues ? its.number + 1 : 1;
    its.last = row;
    return LinkWord::of(back, its.number, step.is_first, step.is_last);
  }

  std::uint64_t capacity_;
  bool across_;
  std::vector<Of> streams_;
  std::vector<char> begins_;  // of each stream, during a call
  std::vector<StreamStep> steps_;
};

}  // namespace rb
