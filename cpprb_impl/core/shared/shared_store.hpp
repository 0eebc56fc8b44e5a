// The store shared by processes: a ring in one segment, using the protocol of docs/protocol.md.
// Every memory order stronger than relaxed has a line in tests/weak_memory/orders, which `make orders` checks.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../base/failpoints.hpp"
#include "../base/memory.hpp"
#include "../protocol/segment_header.hpp"
#include "../steps/sequence_options.hpp"
#include "../store/sampler.hpp"
#include "../store/store.hpp"

namespace rb {

class PriorityView;
class SharedView;

class SharedStore final : public Store {
 public:
  using View = SharedView;

  // Number of bytes at the start of each row for its slot's word, its priority and its link.
  static std::size_t front(bool prioritized, bool linked) {
    return sizeof(Atomic) * (std::size_t{1} + (prioritized ? 1 : 0) + (linked ? 1 : 0));
  }

  struct Shape {
    std::uint64_t capacity;  // rows, at least 1
    bool prioritized;
    Discipline discipline;
    bool prefault = false;
    std::string description{};                   // for processes that attach by name (description.hpp)
    std::optional<SequenceOptions> sequences{};  // if rows are linked, and priorities are those of sequences
  };

  // Creates an empty store in a new segment. Throws std::bad_alloc, std::system_error.
  SharedStore(std::unique_ptr<Rows> rows, const Shape& shape);
  // Attaches to the store in the segment `name`. Throws std::system_error if it is gone, std::runtime_error if its
  // layout differs.
  SharedStore(std::unique_ptr<Rows> rows, const Shape& shape, const std::string& name);
  ~SharedStore() override;

  std::uint64_t capacity() const override { return header_->capacity; }
  std::uint64_t next_slot() const override;
  std::uint64_t stored() override;
  bool prioritized() const override { return header_->prioritized != 0; }
  std::size_t bytes() const override { return header_->frames_at + rows_->frame_bytes_in_use(); }
  std::string name() const override { return memory_.name(); }

  std::uint64_t add(const NewRows& rows, Waiting& waiting) override;

  double max_priority() const override { return header_->max_priority.load(std::memory_order_acquire); }
  void raise_max_priority(double priority) override;
  void lower_max_priority(double known, double priority) override;

  void forked() override;

  std::size_t update(const std::int64_t* index, std::size_t count, const float* leaves, double largest,
                     std::uint64_t sample) override;
  // The places of those indexes whose rows update() would skip, because they are no longer stored.
  std::vector<std::size_t> late(const std::int64_t* index, std::size_t count, std::uint64_t sample);
  // The same for the rows with these numbers, which update_rows() would skip.
  std::vector<std::size_t> late_rows(const std::int64_t* rows, std::size_t count) const;
  // Like update(), for the rows with these numbers. Rows that are no longer stored are skipped.
  std::size_t update_rows(const std::int64_t* rows, std::size_t count, const float* leaves, double largest);
  float largest_leaf() override;
  std::size_t read(const std::vector<std::size_t>& slots, char* const* to, Waiting& waiting) override;
  std::vector<std::size_t> stored_slots() override;
  std::size_t read_stored(const std::vector<std::size_t>& slots, char* const* to, Waiting& waiting) override;
  void clear() override;

  // The row in a slot, and its link, unless none is stored there. The link is that of a later row if this one is
  // overwritten meanwhile.
  std::optional<std::uint64_t> row_at(std::uint64_t slot) const { return row_in(slot); }
  LinkWord link_at(std::uint64_t slot) const { return link_in(slot); }

  std::uint64_t head() const override;
  bool holds(std::uint64_t slot) const override { return slot < capacity() && row_in(slot); }
  float leaf(std::uint64_t slot) override;
  void set_leaves(std::vector<std::size_t>& slots, const float* leaves) override;
  void set_max_priority(double priority) override;

 private:
  friend class ExplorerGuard;
  friend class PriorityView;
  friend class SharedSequenceSampler;
  friend class SharedSequenceView;
  friend class SharedView;

  void view_memory(Files files);
  Atomic& word(std::uint64_t slot) const { return *reinterpret_cast<Atomic*>(first_row_ + slot * header_->stride); }
  Atomic& priority(std::uint64_t slot) const { return *(&word(slot) + 1); }
  Atomic& link(std::uint64_t slot) const { return *(&word(slot) + link_at_); }

  // Explorers.
  enum class Marked { yes, held, overtaken };
  std::uint64_t claim(std::size_t registration, std::uint64_t count, std::uint64_t unused, Waiting& waiting);
  Marked mark(std::uint64_t row, std::uint64_t slot, std::size_t registration);
  void write(const NewRows& rows, std::size_t at, std::size_t count, std::uint64_t first);
  void place(const NewRows& rows, std::size_t at, std::size_t count, std::uint64_t first, std::size_t registration,
             std::vector<std::size_t>& left);
  std::uint64_t place_later(const NewRows& rows, std::size_t at, std::size_t registration, Waiting& waiting);
  std::size_t take_registration(Waiting& waiting);
  std::size_t take_another_registration(std::size_t last, Waiting& waiting);
  bool try_registration(std::size_t registration, Waiting& waiting);
  std::size_t registrations_used() const {
    return std::min<std::size_t>(header_->registrations_used.load(), kRegistrations);
  }
  bool reclaim_if_dead(std::size_t registration);
  void reclaim(std::size_t registration);
  void expect_holes_until(std::uint64_t head);
  void give_way(std::uint64_t end);
  // Rows per claim: few enough that a process stopped while writing holds only a small part of the ring.
  std::uint64_t chunk() const;

  // Learners.
  std::optional<std::uint64_t> committed_in(std::uint64_t slot) const;
  std::optional<std::uint64_t> row_in(std::uint64_t slot) const;
  bool has_row(std::uint64_t row, std::uint64_t slot) const;
  LinkWord link_in(std::uint64_t slot) const;
  void read_tile(Drawn& drawn, std::size_t first, std::size_t last, char* const* to) const;
  void copy_found(Drawn& drawn, std::size_t first, std::size_t last, char* const* to) const;
  bool is_still(std::uint64_t row, std::uint64_t slot) const;
  void read_drawn(Drawn& drawn, char* const* to, Waiting& waiting);
  std::uint64_t rows_possible() const;
  std::uint64_t holes_before(std::uint64_t rows, std::uint64_t cleared);
  PriorityView& priorities();

  void lock_for_learner(Waiting& waiting) override;
  void unlock_for_learner() override;
  void take_every_registration(Waiting& waiting);

  Memory memory_;
  SegmentHeader* header_ = nullptr;
  char* first_row_ = nullptr;
  RowExpiry expiry_;
  bool framed_ = false;  // rows have frames that are stored once
  const std::optional<SequenceOptions> sequences_;
  const std::size_t link_at_;  // words from a slot's word to its link
  static constexpr std::uint64_t kNoRow = ~std::uint64_t{0};
  static constexpr std::size_t kNoRegistration = kRegistrations;
  std::atomic<std::size_t> registration_ =
      kNoRegistration;                              // the registration that this process's next add tries first
  std::atomic<bool> no_free_registration_ = false;  // the result of the last search
  std::uint64_t process_ = 0;                       // the owner word of this process
  std::size_t registrations_held_ = 0;              // by the learner, in discipline "critical"
  Atomic requested_until_ = 0;                      // the last give_way_until that this process set
  // Several of the scheduler's time slices: with fewer, the learner would not get to run on every processor meanwhile.
  static constexpr std::uint64_t kGivesWayNanoseconds = 20'000'000;
  Atomic seen_until_ = 0;       // the last give_way_until that this process saw
  Atomic gives_way_until_ = 0;  // when that request expires for this process, by the monotonic clock
  struct Holes {
    std::uint64_t made = 0, cleared = 0;  // the segment's counters at the last scan of all slots
    std::uint64_t looked_at = 0;          // slots before this one were scanned
    std::vector<std::uint64_t> slots{};   // scanned slots without a row
  } holes_;
  std::unique_ptr<PriorityView> priorities_;
};

// These are called for each step of a sequence, so that they must be inlined.

// L1, for a row whose number is known.
inline bool SharedStore::has_row(std::uint64_t row, std::uint64_t slot) const {
  RB_FAILPOINT(L1);
  return SlotWord{word(slot).load(std::memory_order_acquire)} == SlotWord::written(row) &&
         row >= header_->cleared.load(std::memory_order_acquire) && !(framed_ && expiry_.is_expired(row));
}

// Part of L2: after the link of a later row, L1 of the row before sees that row's predecessor, and L3 its mark.
inline LinkWord SharedStore::link_in(std::uint64_t slot) const { return {link(slot).load(std::memory_order_acquire)}; }

// L3.
inline bool SharedStore::is_still(std::uint64_t row, std::uint64_t slot) const {
  RB_FAILPOINT(L3);
  return SlotWord{word(slot).load(std::memory_order_acquire)} == SlotWord::written(row);
}

}  // namespace rb
