#include "store.hpp"

#include <new>
#include <stdexcept>

namespace rb {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto release = std::memory_order_release;
constexpr std::size_t kPage = 4096;

std::uint64_t round_up(std::uint64_t n, std::uint64_t unit) { return (n + unit - 1) / unit * unit; }

struct Plan {
  std::uint64_t tree_at, rows_at, description_at, bytes;
};

Plan plan(const Store::Shape& shape) {
  // 2^62 bytes is beyond every address space; checked so that the sums below can't wrap around.
  if (shape.capacity > (std::uint64_t{1} << 62) / (shape.stride + 16)) throw std::bad_alloc();
  Plan p{};
  p.tree_at = round_up(sizeof(SegmentHeader), 64);
  p.rows_at = round_up(p.tree_at + (shape.prioritized ? PriorityTree::bytes(shape.capacity) : 0), kPage);
  p.description_at = p.rows_at + shape.capacity * shape.stride;
  p.bytes = round_up(p.description_at + shape.description.size(), kPage);
  return p;
}

}  // namespace

Store::Store(const Shape& shape) {
  const Plan p = plan(shape);
  memory_ = shape.discipline == Discipline::unshared ? Memory::make_private(p.bytes) : Memory::make_shared(p.bytes);
  header_ = new (memory_.data()) SegmentHeader{};
  header_->capacity = shape.capacity;
  header_->stride = shape.stride;
  header_->tree_at = p.tree_at;
  header_->rows_at = p.rows_at;
  header_->description_at = p.description_at;
  header_->description_bytes = shape.description.size();
  std::copy(shape.description.begin(), shape.description.end(), memory_.data() + p.description_at);
  header_->bytes = p.bytes;
  header_->discipline = shape.discipline;
  header_->prioritized = shape.prioritized;
  header_->max_priority = 1.0;
  header_->gate.format();
  header_->index.format();
  for (auto& seat : header_->seats) seat.lock.format();
  if (shape.prefault) memory_.prefault();
  view_memory();
  if (shape.prioritized) tree_.format();
  header_->magic = SegmentHeader::kMagic;
}

Store::Store(const std::string& name, const Shape& shape) : memory_(Memory::attach(name)) {
  const Plan p = plan(shape);
  header_ = reinterpret_cast<SegmentHeader*>(memory_.data());
  const bool same = memory_.bytes() == p.bytes && header_->magic == SegmentHeader::kMagic &&
                    header_->capacity == shape.capacity && header_->stride == shape.stride &&
                    header_->prioritized == (shape.prioritized ? 1u : 0u) && header_->discipline == shape.discipline;
  if (!same)
    throw std::runtime_error("shared segment " + name +
                             " is laid out otherwise: made by another version, or for other fields");
  if (shape.prefault) memory_.prefault();
  view_memory();
}

void Store::view_memory() {
  rows_ = memory_.data() + header_->rows_at;
  if (header_->prioritized) tree_ = PriorityTree(memory_.data() + header_->tree_at, header_->capacity);
}

void Store::raise_max_priority(double priority) {
  double known = max_priority();
  while (priority > known && !header_->max_priority.compare_exchange_weak(known, priority, relaxed)) {
  }
}

void Store::draw_uniform(Random& random, std::size_t count, std::size_t* slots) const {
  const std::uint64_t first = tail(), rows = head() - first, first_slot = first % capacity();
  const bool holes = header_->holes.used != 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t nth;
    do nth = random.below(rows);
    while (holes && header_->holes.contain(first + nth));
    const std::uint64_t slot = first_slot + nth;
    slots[i] = slot < capacity() ? slot : slot - capacity();
  }
}

std::vector<std::size_t> Store::stored_slots() const {
  std::vector<std::size_t> slots;
  slots.reserve(stored());
  for (std::uint64_t slot = 0; slot < capacity(); ++slot)
    if (holds(slot)) slots.push_back(slot);
  return slots;
}

void Store::bring_tree_up_to_date() {
  const std::uint64_t last = head();
  const std::uint64_t known = header_->in_tree.load(relaxed);
  const bool abandoned = header_->tree_dirty.exchange(1, relaxed) != 0;
  if (abandoned) {
    // Whoever died may have left priorities in slots that hold nothing any more.
    for (std::uint64_t slot = 0; slot < capacity(); ++slot)
      if (!holds(slot)) tree_.leaves()[slot] = 0.0f;
    tree_.rebuild();
  } else if (last - known >= capacity()) {
    tree_.rebuild();
  } else if (last != known) {
    const std::uint64_t from = known % capacity(), count = last - known;
    const std::uint64_t before_end = std::min(count, capacity() - from);
    tree_.refresh(from, before_end);
    tree_.refresh(0, count - before_end);
  }
  header_->in_tree.store(last, relaxed);
  header_->tree_dirty.store(0, release);
}

void Store::set_leaves(std::vector<std::size_t>& slots, const float* leaves) {
  // A mark that stands already is a dead process's, or says that leaves were buried: whoever samples
  // next must find it, and rebuild.
  const std::uint32_t marked = header_->tree_dirty.exchange(1, relaxed);
  for (std::size_t i = 0; i < slots.size(); ++i) tree_.leaves()[slots[i]] = leaves[i];
  tree_.refresh_scattered(slots);
  header_->tree_dirty.store(marked, release);
}

void Store::clear(std::uint64_t slot) {
  const std::uint64_t rounds = (next_row() + capacity() - 1) / capacity();
  const std::uint64_t start = rounds * capacity() + slot;
  // First of all: who dies below leaves the mark, and the next one zeroes the leaves.
  if (header_->prioritized) header_->tree_dirty.store(1, release);
  header_->tail.store(start, relaxed);
  header_->head.store(start, release);
  header_->holes.used = 0;
  if (header_->prioritized) {
    tree_.format();
    header_->in_tree.store(start, relaxed);
    header_->max_priority.store(1.0, relaxed);
    header_->tree_dirty.store(0, release);
  }
}

// The claim is written down before the head moves: a claimer that dies in between has claimed nothing
// (its claim starts at the head, which no living one's does), one that dies later leaves a hole.
void Store::claim(std::size_t seat, std::uint64_t count) {
  const std::uint64_t first = next_row();
  const std::uint64_t last = first + count;
  if (last > capacity() && last - capacity() > header_->tail.load(relaxed)) {
    header_->tail.store(last - capacity(), relaxed);
    if (header_->holes.used) header_->holes.forget_before(last - capacity());
  }
  header_->claims[seat].first.store(first, release);
  header_->claims[seat].count.store(count, release);
  header_->head.store(last, release);
}

bool Store::would_lap_a_writer(std::uint64_t count) const {
  const std::uint64_t last = next_row() + count;
  for (const auto& claim : header_->claims)
    if (claim.count.load(std::memory_order_acquire) != 0 && claim.first.load(relaxed) + capacity() < last) return true;
  return false;
}

void Store::lock_index(Waiting& waiting) {
  if (header_->index.lock(waiting) != RobustMutex::Got::from_the_dead) return;
  // It died while claiming. If its claim starts at the head, the head never moved: nothing was claimed.
  for (auto& claim : header_->claims)
    if (claim.first.load(relaxed) >= head()) claim.count.store(0, release);
  distrust_tree();
}

// A dead claimer may have moved the tail past rows whose priorities still stand in the tree.
void Store::distrust_tree() {
  if (header_->prioritized) header_->tree_dirty.store(1, release);
}

void Store::bury_behind_index(std::size_t seat, Waiting& waiting) {
  if (header_->claims[seat].count.load(relaxed) == 0) return;
  lock_index(waiting);
  bury_open_claim(seat);
  header_->index.unlock();
}

// The holder of `seat` died; its claim, if it has one, becomes a hole. Needs the seat's lock, and the
// lock under which rows are claimed.
void Store::bury_open_claim(std::size_t seat) {
  Claim& claim = header_->claims[seat];
  const std::uint64_t first = claim.first.load(relaxed);
  const std::uint64_t count = claim.count.load(relaxed);
  if (count == 0) return;
  if (first < head()) {
    Holes& holes = header_->holes;
    holes.forget_before(tail());
    // It may be known already, from somebody who died while doing this.
    if (!holes.cover(first, count)) {
      if (holes.used == kHoles) holes.join_the_two_oldest();
      holes.ranges[holes.used++] = {first, count};
    }
    if (header_->prioritized) {
      for (std::uint32_t i = 0; i < holes.used; ++i)
        for (std::uint64_t row = std::max(holes.ranges[i].first, tail()); row < holes.ranges[i].end(); ++row)
          tree_.leaves()[row % capacity()] = 0.0f;
      header_->tree_dirty.store(1, release);
    }
  }
  claim.count.store(0, release);
}

}  // namespace rb
