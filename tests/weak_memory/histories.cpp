#include "histories.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "model.hpp"

namespace weak {
namespace model {
namespace {

constexpr std::size_t kUnit = 4;

char* memory = nullptr;
std::size_t memory_bytes = 0;

std::vector<int> table;  // by unit of the memory: its location; -1: not touched yet
// Both keep what they have allocated for the next execution.
std::vector<History> histories;
std::size_t used_histories = 0;
std::vector<View> messages;
std::size_t used_messages = 0;

}  // namespace

std::uint16_t History::insert(std::size_t to, std::uint64_t value) {
  const auto number = static_cast<std::uint16_t>(stores.size());
  stores.push_back({value, -1, false});
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), number);
  place.push_back(0);
  for (std::size_t i = to; i < order.size(); ++i) place[order[i]] = static_cast<std::uint16_t>(i);
  return number;
}

bool is_in_memory(const void* at) {
  const auto* byte = static_cast<const char*>(at);
  return byte >= memory && byte < memory + memory_bytes;
}

std::size_t offset_of(const void* at) { return static_cast<std::size_t>(static_cast<const char*>(at) - memory); }

std::uint64_t plain(const void* at, std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, bytes);
  return value;
}

std::size_t location_of(const void* at, std::size_t bytes) {
  int& known = table[offset_of(at) / kUnit];
  if (known < 0) {
    known = static_cast<int>(used_histories);
    if (used_histories == histories.size()) histories.emplace_back();
    History& made = histories[used_histories++];
    made.at = static_cast<const char*>(at);
    made.bytes = bytes;
    made.stores.assign(1, {plain(at, bytes), -1, false});
    made.order.assign(1, 0);
    made.place.assign(1, 0);
  }
  const auto location = static_cast<std::size_t>(known);
  if (histories[location].bytes != bytes || histories[location].at != at) {
    std::fprintf(stderr, "words of different sizes at one place\n");
    std::abort();
  }
  return location;
}

History& history_of(std::size_t location) { return histories[location]; }

std::uint16_t& seen(View& view, std::size_t location) {
  if (view.stores.size() <= location) view.stores.resize(location + 1);
  return view.stores[location];
}

void join(View& into, const View& from) {
  into.events |= from.events;
  if (into.stores.size() < from.stores.size()) into.stores.resize(from.stores.size());
  for (std::size_t i = 0; i < from.stores.size(); ++i)
    if (histories[i].place[from.stores[i]] > histories[i].place[into.stores[i]]) into.stores[i] = from.stores[i];
}

int make_message(const View& view) {
  if (used_messages == messages.size()) messages.emplace_back();
  messages[used_messages] = view;
  return static_cast<int>(used_messages++);
}

View& message(int number) { return messages[static_cast<std::size_t>(number)]; }

void clear_histories() {
  for (std::size_t i = 0; i < used_histories; ++i) table[offset_of(histories[i].at) / kUnit] = -1;
  used_histories = used_messages = 0;
}

}  // namespace model

void share(char* data, std::size_t bytes) {
  model::memory = data;
  model::memory_bytes = bytes;
  model::table.assign(bytes / model::kUnit + 1, -1);
}

std::vector<std::uint64_t> history(const void* at) {
  const int known = model::table[model::offset_of(at) / model::kUnit];
  if (known < 0) return {model::plain(at, 8)};
  const model::History& found = model::histories[static_cast<std::size_t>(known)];
  std::vector<std::uint64_t> all;
  for (const auto number : found.order) all.push_back(found.stores[number].value);
  return all;
}

}  // namespace weak
