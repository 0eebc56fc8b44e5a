// The segment: creating it, attaching to it, counting its rows and clearing it.
// Every memory order stronger than relaxed has a line in tests/weak_memory/orders, which `make orders` checks.
#include "shared_store.hpp"

#include <algorithm>
#include <cmath>
#include <new>
#include <stdexcept>
#include <utility>

#include "../base/failpoints.hpp"
#include "../base/sizes.hpp"
#include "../protocol/process_word.hpp"
#include "priority_view.hpp"

namespace rb {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto acquire_release = std::memory_order_acq_rel;
constexpr std::uint64_t kPage = 4096;

struct Plan {
  std::uint64_t journal_at, rows_at, description_at, files_at, tables_at;
  std::uint64_t frames_at;  // memory after this offset is allocated on first use
  std::uint64_t bytes;
};

Plan plan(const SharedStore::Shape& shape, const Rows& rows) {
  rows.check_sizes(shape.capacity);
  if (shape.prioritized && shape.capacity > PriorityView::kMostRows) throw TooLarge();
  Plan p{};
  p.journal_at = round_up(sizeof(SegmentHeader), 64);
  const std::uint64_t journal_bytes = shape.prioritized ? PriorityView::journal_bytes(shape.capacity) : 0;
  p.rows_at = round_up(plus(p.journal_at, journal_bytes), kPage);
  p.description_at = plus(p.rows_at, times(shape.capacity, rows.stride()));
  p.files_at = round_up(plus(p.description_at, shape.description.size()), alignof(MappedFile::Identity));
  p.tables_at = round_up(plus(p.files_at, times(rows.most_files(), sizeof(MappedFile::Identity))), kPage);
  const Rows::FrameSpace space = rows.frame_space(shape.capacity);
  p.frames_at = round_up(plus(p.tables_at, space.table_bytes), kPage);
  p.bytes = plus(p.frames_at, space.bytes);
  return p;
}

// Returns the plan from which the segment `name` was created. The segment's header is not trusted: it must equal what
// this process would have written. Throws std::runtime_error if it does not.
Plan plan_of_segment(const SharedStore::Shape& shape, const Rows& rows, const Memory& memory, const std::string& name) {
  const auto check = [&name](bool same) {
    if (!same)
      throw std::runtime_error(
          "shared segment " + name +
          " has a different layout: it was created by a different version of the library, or for different fields");
  };
  check(memory.bytes() >= sizeof(SegmentHeader) && magic_at(memory.data()) == SegmentHeader::kMagic);
  const auto& header = *reinterpret_cast<const SegmentHeader*>(memory.data());
  // Each row takes at least one byte of the segment. A larger capacity is invalid, and may be too large for plan().
  check(header.capacity == shape.capacity && shape.capacity <= memory.bytes() && header.stride == rows.stride() &&
        header.prioritized == (shape.prioritized ? 1u : 0u) && header.discipline == shape.discipline);
  Plan p{};
  try {
    p = plan(shape, rows);
  } catch (const std::bad_alloc&) {
    check(false);
  }
  check(memory.bytes() == p.bytes && header.bytes == p.bytes && header.journal_at == p.journal_at &&
        header.rows_at == p.rows_at && header.description_at == p.description_at &&
        header.description_bytes == shape.description.size() && header.tables_at == p.tables_at &&
        header.frames_at == p.frames_at);
  check(std::equal(shape.description.begin(), shape.description.end(), memory.data() + p.description_at));
  // Row numbers have 52 bits and only increase. After a clear, rows start at slot 0.
  constexpr std::uint64_t most = std::uint64_t{1} << 52;
  const std::uint64_t cleared = header.cleared.load(acquire);
  const double largest = header.max_priority.load(acquire);
  check(header.head.load(acquire) < most && cleared < most && cleared % shape.capacity == 0 && largest >= 0 &&
        std::isfinite(largest));
  return p;
}

void raise(Atomic& word, std::uint64_t to) {
  std::uint64_t known = word.load(relaxed);
  while (known < to && !word.compare_exchange_weak(known, to, release, relaxed)) {
  }
}

}  // namespace

SharedStore::SharedStore(std::unique_ptr<Rows> rows, const Shape& shape)
    : Store(std::move(rows)), sequences_(shape.sequences), link_at_(shape.prioritized ? 2 : 1) {
  const Plan p = plan(shape, *rows_);
  memory_ = Memory::make_shared(p.frames_at, p.bytes);
  if (shape.prefault) memory_.prefault(p.frames_at);
  RB_FAILPOINT(M5);
  header_ = new (memory_.data()) SegmentHeader{};
  header_->capacity = shape.capacity;
  header_->stride = rows_->stride();
  header_->journal_at = p.journal_at;
  header_->rows_at = p.rows_at;
  header_->description_at = p.description_at;
  header_->description_bytes = shape.description.size();
  std::copy(shape.description.begin(), shape.description.end(), memory_.data() + p.description_at);
  header_->tables_at = p.tables_at;
  header_->frames_at = p.frames_at;
  header_->bytes = p.bytes;
  header_->discipline = shape.discipline;
  header_->prioritized = shape.prioritized;
  header_->max_priority = 1.0;
  header_->gate.format();
  header_->index.format();
  for (auto& registration : header_->registrations) registration.lock.format();
  RB_FAILPOINT(M6);
  view_memory(Files::made);
  const auto files = rows_->files();
  std::copy(files.begin(), files.end(), reinterpret_cast<MappedFile::Identity*>(memory_.data() + p.files_at));
  RB_FAILPOINT(M7);
  header_->magic.store(SegmentHeader::kMagic, release);
}

SharedStore::SharedStore(std::unique_ptr<Rows> rows, const Shape& shape, const std::string& name)
    : Store(std::move(rows)),
      memory_(Memory::attach(name)),
      sequences_(shape.sequences),
      link_at_(shape.prioritized ? 2 : 1) {
  const Plan p = plan_of_segment(shape, *rows_, memory_, name);
  header_ = reinterpret_cast<SegmentHeader*>(memory_.data());
  if (shape.prefault) memory_.prefault(p.frames_at);
  view_memory(Files::found);
  const auto files = rows_->files();
  if (!std::equal(files.begin(), files.end(), reinterpret_cast<MappedFile::Identity*>(memory_.data() + p.files_at)))
    throw std::runtime_error("the files of shared segment " + name +
                             " are gone: another buffer with the same mmap_prefix has replaced them");
}

SharedStore::~SharedStore() {
  if (process_ != this_process()) return;  // a forked child that never used it: the registrations are its parent's
  for (std::size_t registration = 0; registration < registrations_used(); ++registration) {
    std::uint64_t ours = process_;
    header_->registrations[registration].owner.compare_exchange_strong(ours, 0, relaxed);
  }
}

void SharedStore::view_memory(Files files) {
  first_row_ = memory_.data() + header_->rows_at;
  rows_->bind(first_row_, header_->capacity, files);
  framed_ = rows_->has_frames();
  expiry_ = {&header_->head, &header_->cleared, header_->capacity};
  const std::uint64_t frames_at = header_->frames_at;
  rows_->bind_frames(memory_.data() + header_->tables_at, memory_.data() + frames_at, expiry_,
                     [this, frames_at](auto at, auto bytes) { memory_.allocate(frames_at + at, bytes); });
  process_ = this_process();
}

void SharedStore::forked() {
  registration_ = kNoRegistration;
  process_ = this_process();
  no_free_registration_ = false;
  requested_until_ = 0;
  if (priorities_) priorities_->forked();
  rows_->forked();
  registrations_held_ = 0;  // a learner that held them during the fork is a thread only of the parent
  memory_.forked();
}

std::uint64_t SharedStore::head() const {
  return std::max(header_->head.load(acquire), header_->cleared.load(acquire));
}

std::uint64_t SharedStore::next_slot() const { return head() % capacity(); }

// Only slots below the result may hold rows, because rows start at slot 0 after a clear.
std::uint64_t SharedStore::rows_possible() const {
  const std::uint64_t first = header_->cleared.load(acquire), end = header_->head.load(acquire);
  return end <= first ? 0 : std::min(end - first, capacity());
}

// Counts a row that is being overwritten, since a new row replaces it in a moment. Does not count a row being written
// to a slot for the first time, or a slot held since before a clear. All of these belong to open claims, except slots
// left without a row, which holes_before() finds.
std::uint64_t SharedStore::stored() {
  const std::uint64_t rows = rows_possible(), cleared = header_->cleared.load(acquire);
  std::vector<std::uint64_t> missing;
  std::uint64_t settled = header_->head.load(acquire);  // rows below this number belong to no open claim
  const auto is_missing = [&](std::uint64_t slot) {
    const SlotWord found{word(slot).load(acquire)};
    const bool overwritten = found.is_writing() && found.row() >= cleared + capacity();
    return !overwritten && !committed_in(slot);
  };
  for (std::size_t registration = 0; registration < registrations_used(); ++registration) {
    const ClaimWord open{header_->registrations[registration].claim.load(acquire)};
    if (open.count() == 0 || reclaim_if_dead(registration)) continue;
    settled = std::min(settled, open.first());
    for (std::uint64_t row = open.first(); row < open.first() + open.count() && row < cleared + capacity(); ++row)
      if (const std::uint64_t slot = row % capacity(); slot < rows && is_missing(slot)) missing.push_back(slot);
  }
  // A skipped row may leave its slot empty until the row a capacity later is written, even in the last open claim.
  if (header_->holes_until.load(acquire) > settled) return rows - holes_before(rows, cleared);
  // Two claims may cover the same rows, if one was announced but its step E3 failed.
  std::sort(missing.begin(), missing.end());
  return rows - static_cast<std::uint64_t>(std::unique(missing.begin(), missing.end()) - missing.begin());
}

// The number of slots in [0, rows) without a row. Only checks slots that had none before, and new slots, unless
// holes_made indicates that there may be more holes.
std::uint64_t SharedStore::holes_before(std::uint64_t rows, std::uint64_t cleared) {
  const std::uint64_t made = header_->holes_made.load(acquire);
  if (holes_.made != made || holes_.cleared != cleared) holes_ = {made, cleared};
  std::erase_if(holes_.slots, [&](std::uint64_t slot) { return row_in(slot).has_value(); });
  for (; holes_.looked_at < rows; ++holes_.looked_at)
    if (!row_in(holes_.looked_at)) holes_.slots.push_back(holes_.looked_at);
  return std::min<std::uint64_t>(holes_.slots.size(), rows);
}

std::vector<std::size_t> SharedStore::stored_slots() {
  std::vector<std::size_t> slots;
  const std::uint64_t possible = rows_possible();
  for (std::uint64_t slot = 0; slot < possible; ++slot)
    if (row_in(slot)) slots.push_back(slot);
  return slots;
}

// Rows claimed from now on start at slot 0; rows claimed earlier are removed.
void SharedStore::clear() {
  // This is done before the load of head and is sequentially consistent with it, as claiming and raising are. An
  // explorer whose rows survive because it claimed them after that load finds the largest priority lowered, and raises
  // it.
  header_->max_priority.store(1.0, release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  raise(header_->cleared, round_up(head(), capacity()));
}

void SharedStore::expect_holes_until(std::uint64_t head) {
  raise(header_->holes_until, head);
  header_->holes_made.fetch_add(1, acquire_release);
}

// This is sequentially consistent, as lowering is, so that two processes do not miss each other: an explorer that adds
// a large priority and finds the maximum large enough, and a learner that lowers the maximum and then looks at the rows
// again.
void SharedStore::raise_max_priority(double priority) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  double known = header_->max_priority.load(relaxed);
  while (priority > known && !header_->max_priority.compare_exchange_weak(known, priority, release, relaxed)) {
  }
}

void SharedStore::lower_max_priority(double known, double priority) {
  header_->max_priority.compare_exchange_strong(known, priority);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void SharedStore::set_max_priority(double priority) {
  const double known = max_priority();
  priority < known ? lower_max_priority(known, priority) : raise_max_priority(priority);
}

}  // namespace rb
