#include "total_order.hpp"

#include <vector>

namespace weak::model {
namespace {

// A sequentially consistent operation.
struct Event {
  std::size_t location;
  std::uint16_t store;  // that it wrote, or read
  bool writes;
  Events before;  // in S, as far as is settled
};

std::vector<Event> events;

// These, and all that is settled to come before them.
Events with_earlier(const Events& some) {
  Events all = some;
  for (std::size_t i = 0; i < events.size(); ++i)
    if (some[i]) all |= events[i].before;
  return all;
}

// Which operations on this word modification order puts before or after one.
struct Relation {
  Events before, after;
};
Relation related(std::size_t location, HalfPlace half_place, bool writes) {
  const auto& place = history_of(location).place;
  Relation all;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].location != location) continue;
    const HalfPlace there = 2 * std::size_t{place[events[i].store]};
    if (there < half_place || (there == half_place && events[i].writes)) all.before[i] = true;
    if (there > half_place || (there == half_place && writes && !events[i].writes)) all.after[i] = true;
  }
  return all;
}

}  // namespace

bool fits_total_order(const View& known, std::size_t location, HalfPlace half_place, bool writes) {
  if (events.size() >= kMaxEvents) return true;
  const Relation all = related(location, half_place, writes);
  const Events before = with_earlier(known.events | all.before);
  return (before & all.after).none();
}

void add_to_total_order(View& known, std::size_t location, std::uint16_t number, bool writes) {
  if (events.size() >= kMaxEvents) return;
  const Relation all = related(location, 2 * std::size_t{history_of(location).place[number]}, writes);
  const Event made{location, number, writes, with_earlier(known.events | all.before)};
  const std::size_t mine = events.size();
  const Events earlier = Events(made.before).set(mine);
  events.push_back(made);
  for (std::size_t i = 0; i < mine; ++i)
    if (all.after[i] || (events[i].before & all.after).any()) events[i].before |= earlier;
  known.events[mine] = true;
}

void clear_total_order() { events.clear(); }

}  // namespace weak::model
