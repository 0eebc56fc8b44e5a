#include "world.hpp"

#include "../../cpprb_impl/core/protocol/segment_header.hpp"

namespace weak {
namespace {

std::string number(std::uint64_t n) { return std::to_string(n); }

}  // namespace

World::World(const Setting& given)
    : setting(given),
      shape_{.capacity = given.capacity,
             .prioritized = given.prioritized,
             .discipline = given.discipline,
             .sequences = given.linked ? std::optional(rb::SequenceOptions{.size = 2}) : std::nullopt},
      maker_(std::make_unique<rb::SharedStore>(rows(), shape_)) {
  const char *memory = maker_->memory_.data(), *frames = memory + maker_->header_->frames_at;
  regions([=](const void* at) { return at >= frames ? "frames" : "rows"; });
}

std::unique_ptr<rb::Rows> World::rows() const {
  rb::FieldStorage field{.bytes = words() * sizeof(Id), .alignment = 8};
  if (setting.framed) {
    field.framed = true;
    field.shape = {2, 1, 2 * sizeof(Id)};
  }
  return std::make_unique<rb::Rows>(std::vector{field}, rb::SharedStore::front(setting.prioritized, setting.linked));
}

World::Store World::attach() const {
  Store made = std::make_unique<rb::SharedStore>(rows(), shape_, maker_->name());
  if (setting.journal != 0) made->priorities().entries_ = setting.journal;
  return made;
}

void World::add(rb::SharedStore& store, Id id, std::size_t count, float leaf, double largest) const {
  add(store, id, count, leaf, largest, nullptr);
}

void World::add_steps(rb::SharedStore& store, rb::StreamLinks& links, Id id, std::size_t count) const {
  add(store, id, count, 0, 0, &links);
}

void World::add(rb::SharedStore& store, Id id, std::size_t count, float leaf, double largest,
                rb::StreamLinks* links) const {
  std::vector<Id> values;
  std::vector<float> leaves;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < words(); ++k) values.push_back(id + i + k / 2);
    leaves.push_back(leaf > 0 ? leaf : static_cast<float>(id + i));
  }
  const char* data = reinterpret_cast<const char*>(values.data());
  rb::Waiting waiting;
  rb::NewRows rows{&data, count, leaves.data(), 0, largest};
  rows.links = links;
  if (links != nullptr) rows.steps = links->begin_call(count, {nullptr, 1}, std::vector<char>(count).data());
  store.add(rows, waiting);
  if (links != nullptr) links->end_call();
}

void World::add_each(rb::SharedStore& store, Id first, Id last) const {
  for (Id id = first; id <= last; id += 100) add(store, id);
}

Id World::whole(const Id* row) const {
  for (std::size_t k = 0; k < words(); ++k)
    if (row[k] != row[0] + k / 2 || row[0] == 0)
      fail("a torn row: " + number(row[0]) + ", and " + number(row[k]) + " at " + number(k));
  return row[0];
}

std::vector<Id> World::look(rb::SharedStore& store, std::size_t first) const {
  std::vector<Id> values(setting.capacity * words()), ids(setting.capacity);
  char* to = reinterpret_cast<char*>(values.data());
  rb::Drawn drawn;
  for (std::uint64_t slot = 0; slot < setting.capacity; ++slot) drawn.slots.push_back(slot);
  drawn.rows.resize(drawn.slots.size());
  store.read_tile(drawn, first, setting.capacity, &to);
  for (std::uint64_t slot = first; slot < setting.capacity; ++slot)
    if (std::find(drawn.failed.begin(), drawn.failed.end(), slot) == drawn.failed.end())
      ids[slot] = whole(values.data() + slot * words());
  return ids;
}

std::vector<std::uint64_t> World::rows_of_sequence(rb::SharedStore& store, std::uint64_t slot) const {
  const rb::SharedSequenceView view(store, *store.sequences_, store.priorities());
  std::vector<std::uint64_t> slots, rows;
  view.follow(slot, [&](std::size_t at, std::uint64_t row, rb::LinkWord) { slots.push_back(at), rows.push_back(row); });
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (!store.is_still(rows[i], slots[i])) return {};
  return rows;
}

void World::look_at_sequences(rb::SharedStore& store) const {
  std::vector<Id> values(2 * words());
  char is_first[2];
  const rb::SequencePlaces to{
      .steps = {reinterpret_cast<char*>(values.data())}, .first = {nullptr}, .is_first = is_first};
  rb::DrawnSequences drawn;
  rb::SharedSequenceView view(store, *store.sequences_, store.priorities(), {&drawn, &to});
  rb::Waiting waiting;
  for (std::uint64_t slot = 0; slot < setting.capacity; ++slot) {
    drawn.ends.slots = {slot};
    if (setting.prioritized) drawn.ends.leaves = {store.priorities().leaf_in(slot)};
    view.read(drawn.ends, nullptr, waiting);
    if (!drawn.ends.failed.empty()) continue;
    const Id one = whole(values.data()), next = whole(values.data() + words());
    if (next != one + 1) fail("a sequence of " + number(one) + " and " + number(next));
  }
}

std::vector<Id> World::sample(rb::SharedStore& store, rb::Drawn& drawn) const {
  store.priorities().catch_up();
  rb::PriorityTree& tree = store.priorities().tree();
  drawn = {};
  for (std::uint64_t slot = 0; slot < setting.capacity; ++slot)
    if (tree.leaves()[slot] > 0) drawn.slots.push_back(slot), drawn.leaves.push_back(tree.leaves()[slot]);
  const std::size_t count = drawn.slots.size();
  drawn.rows.resize(count);
  std::vector<Id> values(count * words() + 1), ids(count);
  char* to = reinterpret_cast<char*>(values.data());
  store.read_tile(drawn, 0, count, &to);
  for (std::size_t i = 0; i < count; ++i)
    if (std::find(drawn.failed.begin(), drawn.failed.end(), i) == drawn.failed.end())
      ids[i] = whole(values.data() + i * words());
  return ids;
}

void World::update(rb::SharedStore& store, const rb::Drawn& drawn, float leaf) const {
  store.priorities().remember(drawn);
  const std::vector<std::int64_t> index(drawn.slots.begin(), drawn.slots.end());
  const std::vector<float> leaves(index.size(), leaf);
  store.update(index.data(), index.size(), leaves.data(), 0, 0);
}

void World::change(rb::SharedStore& store, std::size_t slot, float leaf) const {
  rb::Drawn drawn;
  sample(store, drawn);
  const auto at = std::find(drawn.slots.begin(), drawn.slots.end(), slot) - drawn.slots.begin();
  if (at == static_cast<std::ptrdiff_t>(drawn.slots.size())) return;
  drawn.rows = {drawn.rows[static_cast<std::size_t>(at)]};
  drawn.slots = {slot};
  update(store, drawn, leaf);
}

void World::check_tree(rb::SharedStore& learner) const {
  learner.priorities().catch_up();
  for (std::uint64_t slot = 0; slot < setting.capacity; ++slot) {
    const float known = learner.priorities().tree().leaves()[slot], there = learner.priorities().leaf_in(slot);
    // A leaf of a row that is gone is corrected when it is drawn.
    if (there > 0 && known != there)
      fail("the tree has " + std::to_string(known) + " for slot " + number(slot) + ", whose priority is " +
           std::to_string(there));
  }
}

void World::check_ring(rb::SharedStore& store) const {
  const std::uint64_t stored = store.stored();  // reclaims
  const std::vector<std::size_t> slots = store.stored_slots();
  if (stored != slots.size()) fail(number(stored) + " rows are counted, and " + number(slots.size()) + " are there");
  const std::vector<Id> ids = look(store);
  for (const auto slot : slots)
    if (ids[slot] == 0) fail("slot " + number(slot) + " can't be read");
  for (std::uint64_t slot = 0; slot < setting.capacity; ++slot) {
    std::uint64_t newest = 0;
    const auto words = history(&store.word(slot));
    for (const auto bits : words) {
      if (rb::SlotWord{bits}.row() < newest) fail("the numbers of slot " + number(slot) + " decrease");
      newest = rb::SlotWord{bits}.row();
    }
    const rb::SlotWord last{words.back()};
    if (last.is_writing()) fail("slot " + number(slot) + " is held by nobody");
    if (last.is_written() && setting.prioritized && ids[slot] != 0 &&
        !rb::PriorityWord{history(&store.priority(slot)).back()}.is_of(last.row()))
      fail("the priority of slot " + number(slot) + " is another row's");
  }
}

std::string World::name_of(const void* at) const {
  const auto* byte = static_cast<const char*>(at);
  const rb::SegmentHeader& header = *maker_->header_;
  const auto is = [&](const auto& member) { return at == &member; };
  if (is(header.head)) return "head";
  if (is(header.cleared)) return "cleared";
  if (is(header.holes_until)) return "holes_until";
  if (is(header.max_priority)) return "max_priority";
  if (is(header.registrations_used)) return "registrations_used";
  if (is(header.holes_made)) return "holes_made";
  if (is(header.learner_tickets)) return "learner_tickets";
  if (is(header.learners_used)) return "learners_used";
  for (std::size_t place = 0; place < rb::kLearners; ++place)
    if (is(header.learners[place])) return "learner's place " + number(place);
  if (is(header.journal_head)) return "journal_head";
  if (is(header.gate_closed)) return "gate_closed";
  for (std::size_t registration = 0; registration < rb::kRegistrations; ++registration)
    if (is(header.registrations[registration].claim)) return "claim of " + number(registration);
  for (std::size_t registration = 0; registration < rb::kRegistrations; ++registration)
    if (is(header.registrations[registration].owner)) return "owner of " + number(registration);
  const char *memory = maker_->memory_.data(), *rows = memory + header.rows_at;
  const auto offset = static_cast<std::uint64_t>(byte - rows);
  if (byte >= rows && offset < setting.capacity * header.stride) {
    const std::uint64_t slot = offset / header.stride, word = offset % header.stride / 8;
    if (word == 0) return "slot " + number(slot);
    if (word == 1 && setting.prioritized) return "priority of " + number(slot);
    return "row " + number(slot) + "[" + number(word - (setting.prioritized ? 2 : 1)) + "]";
  }
  if (byte >= memory + header.frames_at)
    return "frames + " + number(static_cast<std::uint64_t>(byte - memory) - header.frames_at);
  if (byte >= memory + header.tables_at)
    return "table + " + number(static_cast<std::uint64_t>(byte - memory) - header.tables_at);
  return "journal + " + number(static_cast<std::uint64_t>(byte - memory) - header.journal_at);
}

}  // namespace weak
