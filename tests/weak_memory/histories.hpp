// Histories of words: their stores, in modification order. A view says how much of each history a thread knows.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weak::model {

// Sequentially consistent operations, by number (total_order.hpp).
constexpr std::size_t kMaxEvents = 512;
using Events = std::bitset<kMaxEvents>;

// What is known: by location the number of a store in its history, 0 for the value from before the execution; and which
// sequentially consistent operations happened before.
struct View {
  std::vector<std::uint16_t> stores;
  Events events;
  void clear() {
    stores.clear();
    events.reset();
  }
};

struct Store {
  std::uint64_t value;
  int message;  // the view that it carries, see message(); -1: none
  bool taken;   // a read-modify-write has read it: no other store may come between them
};

struct History {
  const char* at;
  std::size_t bytes;
  std::vector<Store> stores;         // in the order of execution
  std::vector<std::uint16_t> order;  // modification order: numbers of stores
  std::vector<std::uint16_t> place;  // by number of a store: where it is in that order

  std::uint16_t newest() const { return order.back(); }
  // Inserts a store at a place of the modification order, and returns its number.
  std::uint16_t insert(std::size_t to, std::uint64_t value);
};

// Whether a word lies in the memory that share() named, and where.
bool is_in_memory(const void* at);
std::size_t offset_of(const void* at);
// The value of a word apart from its history.
std::uint64_t plain(const void* at, std::size_t bytes);

// Locations are numbered as executions first touch them.
std::size_t location_of(const void* at, std::size_t bytes);
History& history_of(std::size_t location);

// The store that a view knows of a location.
std::uint16_t& seen(View& view, std::size_t location);
void join(View& into, const View& from);

// Views that stores carry, by number.
int make_message(const View& view);
View& message(int number);

void clear_histories();

}  // namespace weak::model
