// A real SharedStore on a weak memory, for scenarios: tiny rings whose rows certify themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../../cpprb_impl/core/shared/priority_view.hpp"
#include "../../cpprb_impl/core/shared/shared_sequences.hpp"
#include "../../cpprb_impl/core/shared/shared_store.hpp"
#include "model.hpp"

namespace weak {

using Id = std::uint64_t;

struct Setting {
  std::uint64_t capacity = 1;
  bool prioritized = false;
  bool framed = false;
  rb::Discipline discipline = rb::Discipline::none;
  std::uint64_t journal = 0;  // entries, at least 8; 0: as many as the core would have
  bool linked = false;        // rows are steps of streams, and sequences are two of them
};

// A row is its id, twice; with frames it is a stack of two frames of two words each, (id, id) and (id + 1, id + 1). Its
// leaf is its id.
class World {
 public:
  explicit World(const Setting& setting);

  // One process's store.
  using Store = std::unique_ptr<rb::SharedStore>;
  Store attach() const;
  // Adds rows id, id + 1 ... in one call; all with the leaf `leaf` if that is not 0.
  void add(rb::SharedStore& store, Id id, std::size_t count = 1, float leaf = 0, double largest = 0) const;
  // The same, as the next steps of a stream.
  void add_steps(rb::SharedStore& store, rb::StreamLinks& links, Id id, std::size_t count = 1) const;
  // Adds rows first, first + 100 ... last, each in a call of its own.
  void add_each(rb::SharedStore& store, Id first, Id last) const;

  // Steps L1 to L4, once for each slot of the ring from `first` on: what is read must be whole. Returns the ids of the
  // rows, by slot; 0 where none could be read.
  std::vector<Id> look(rb::SharedStore& store, std::size_t first = 0) const;
  // The numbers of the rows of the sequence that ends in a slot, the last one first, by steps L1 and L3 alone. None if
  // a check fails.
  std::vector<std::uint64_t> rows_of_sequence(rb::SharedStore& store, std::uint64_t slot) const;
  // Reads the sequence that ends in each slot: what is read must be two consecutive steps of one stream.
  void look_at_sequences(rb::SharedStore& store) const;
  // One sample by priority, and steps L1 to L4 with the leaves that were drawn.
  std::vector<Id> sample(rb::SharedStore& store, rb::Drawn& drawn) const;
  void update(rb::SharedStore& store, const rb::Drawn& drawn, float leaf) const;
  // Samples and updates one row alone.
  void change(rb::SharedStore& store, std::size_t slot, float leaf) const;

  // Once all is quiet: the learner's tree has the priority of each row that is there.
  void check_tree(rb::SharedStore& learner) const;
  // Each slot has a whole row, unless somebody died; no number of a slot decreases; the rows counted are those that are
  // there; nothing is left marked or claimed.
  void check_ring(rb::SharedStore& store) const;

  const Setting setting;
  std::string name_of(const void* at) const;

 private:
  void add(rb::SharedStore& store, Id id, std::size_t count, float leaf, double largest, rb::StreamLinks* links) const;
  std::unique_ptr<rb::Rows> rows() const;
  std::size_t words() const { return setting.framed ? 4 : 2; }
  Id whole(const Id* words) const;

  rb::SharedStore::Shape shape_;
  Store maker_;
};

// So many times the first thread can have memory for frames; -1: always (memory.cpp).
extern int allocations_left;

struct Scenario {
  const char* name;
  Setting setting;
  void (*run)(const World& world);
};
const std::vector<Scenario>& scenarios();

}  // namespace weak
