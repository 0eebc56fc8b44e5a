// Which row of a private store each row continues, so that a sequence of consecutive steps can be followed from its
// last row backwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../base/memory.hpp"
#include "../steps/episode_end.hpp"

namespace rb {

class Links {
 public:
  // A row's link says how many rows before it the previous row of its stream is (0: the stream begins, or that row was
  // overwritten before this one was added), and whether it is the first or the last step of its episode.
  static constexpr std::uint32_t kFirst = 1U << 31, kLast = 1U << 30, kBack = kLast - 1;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  // A run has the steps of an episode or, if runs go `across` the ends of episodes, of a stream. Throws std::bad_alloc.
  Links(std::uint64_t capacity, std::size_t streams, bool across);

  // Links `count` rows that have just been stored, of which the first is `row`. is_last[i] says whether the i-th ends
  // its episode.
  void add(std::uint64_t row, std::size_t count, StreamsOfRows streams, const char* is_last);
  // The last row of each stream ends its episode; calls ended(row) for those among them that are stored.
  template <class Ended>
  void end_episodes(std::uint64_t tail, Ended ended) {
    for (Stream& stream : streams_) {
      if (stream.last != kNone && stream.last >= tail && !stream.begins) {
        links_[stream.last % capacity_] |= kLast;
        ended(stream.last);
      }
      stream.begins = true;
    }
  }
  // The next row of each stream continues none.
  void restart();

  // Sets the link of a stored row. `number` is its step in a run of which no earlier row is stored.
  void put(std::uint64_t row, std::uint64_t tail, std::uint32_t link, std::uint32_t number = 1) {
    put_in(row % capacity_, row, tail, link, number);
  }
  std::uint32_t link(std::uint64_t slot) const { return links_[slot]; }
  // The number of a row's step in its run, from 1 on.
  std::uint32_t number(std::uint64_t slot) const { return numbers_[slot]; }
  // The row that is `steps` before `row` in its run, which has that many; kNone if it is not stored.
  std::uint64_t before(std::uint64_t row, std::uint64_t steps, std::uint64_t tail) const;
  // The row that continues `row`; kNone if there is none. The rows tail, ..., head - 1 are stored. Throws
  // std::bad_alloc.
  std::uint64_t after(std::uint64_t row, std::uint64_t tail, std::uint64_t head);
  // If all runs are interleaved evenly, the distance between the rows of a run; otherwise 0.
  std::uint64_t stride() const { return is_even_ ? streams_.size() : 0; }

  std::size_t bytes() const { return memory_.bytes() + ahead_.size() * sizeof ahead_[0]; }

  // The newest row of each stream, as its distance to `head`, times 2, plus whether an episode begins after it.
  std::vector<std::int64_t> streams(std::uint64_t head) const;
  void set_streams(const std::vector<std::int64_t>& streams, std::uint64_t head);

 private:
  struct Stream {
    std::uint64_t last = kNone;
    bool begins = true;  // whether the next row is the first of an episode
  };

  void put_in(std::uint64_t slot, std::uint64_t row, std::uint64_t tail, std::uint32_t link, std::uint32_t number);
  // Links rows of the only stream, each of which continues the one before.
  void add_to_one(std::uint64_t row, std::size_t count, const char* is_last);

  // How many rows before a row the one is that it continues; 0 if it begins a run.
  std::uint64_t continued(std::uint32_t link) const { return across_ || (link & kFirst) == 0 ? link & kBack : 0; }

  std::uint64_t capacity_;
  bool across_, is_even_ = true;
  Memory memory_;
  std::uint32_t *links_, *numbers_;  // by slot
  // By slot: how many rows after a row the one is that continues it, or anything if there is none. Empty until after()
  // is called while runs are interleaved unevenly.
  std::vector<std::uint32_t> ahead_;
  std::vector<Stream> streams_;
};

}  // namespace rb
