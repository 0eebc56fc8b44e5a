#include "knowledge.hpp"

#include <algorithm>

#include "choices.hpp"
#include "total_order.hpp"

namespace weak::model {
namespace {

View fenced, passed_to_fences;  // what sequentially consistent fences know, and what operations pass on to the next one

// From there on a thread may read.
std::size_t oldest(Knowledge& mine, std::size_t location, const Order& order) {
  const History& all = history_of(location);
  std::size_t from = all.place[seen(mine.view, location)];
  // What a fence knew counts for operations as well: stronger than C++ where the fence is only executed earlier.
  if (order.consistent) from = std::max<std::size_t>(from, all.place[seen(fenced, location)]);
  return from;
}

bool is_possible(const Knowledge& mine, std::size_t location, HalfPlace half_place, bool writes, const Order& order) {
  return !order.consistent || fits_total_order(mine.view, location, half_place, writes);
}

// An operation has read or written store `number`.
void note(Knowledge& mine, std::size_t location, std::uint16_t number, bool writes, const Order& order) {
  seen(mine.view, location) = number;
  if (!order.consistent) return;
  const History& all = history_of(location);
  std::uint16_t& last = seen(passed_to_fences, location);
  if (all.place[number] > all.place[last]) last = number;
  add_to_total_order(mine.view, location, number, writes);
}

void receive(Knowledge& mine, int carried, const Order& order) {
  if (carried >= 0) join(order.acquire ? mine.view : mine.unjoined, message(carried));
}

// What a new store carries: `continued` is the message of the store that a read-modify-write has read.
int send(const Knowledge& mine, const Order& order, int continued) {
  if (!order.release && !mine.has_released) return continued;
  const int made = make_message(order.release ? mine.view : mine.released);
  if (continued >= 0) join(message(made), message(continued));
  return made;
}

void put(Knowledge& mine, std::size_t location, std::size_t place, std::uint64_t value, const Order& order,
         int continued) {
  const std::uint16_t number = history_of(location).insert(place, value);
  note(mine, location, number, true, order);
  history_of(location).stores[number].message = send(mine, order, continued);
}

}  // namespace

void Knowledge::begin(const View& with) {
  view = with;
  unjoined.clear();
  released.clear();
  has_released = false;
}

std::uint16_t choose_read(Knowledge& mine, std::size_t location, const Order& order, bool writes) {
  const History& all = history_of(location);
  const std::size_t from = oldest(mine, location, order), last = all.order.size() - 1;
  if (from == last || !chance(style().old_reads)) return all.newest();
  const std::size_t place = from + choose(last - from + 1);
  return is_possible(mine, location, 2 * place + (writes ? 1 : 0), writes, order) ? all.order[place] : all.newest();
}

std::size_t choose_place(Knowledge& mine, std::size_t location, const Order& order) {
  const History& all = history_of(location);
  if (!chance(style().early_stores)) return all.order.size();
  const std::size_t from = oldest(mine, location, order) + 1;
  std::size_t place = from + choose(all.order.size() - from + 1);
  while (place < all.order.size() &&
         (all.stores[all.order[place - 1]].taken || !is_possible(mine, location, 2 * place - 1, true, order)))
    ++place;
  return place;
}

void read(Knowledge& mine, std::size_t location, std::uint16_t number, const Order& order) {
  note(mine, location, number, false, order);
  receive(mine, history_of(location).stores[number].message, order);
}

void write(Knowledge& mine, std::size_t location, std::size_t place, std::uint64_t value, const Order& order) {
  put(mine, location, place, value, order, -1);
}

void modify(Knowledge& mine, std::size_t location, std::uint16_t number, std::uint64_t value, const Order& order) {
  History& all = history_of(location);
  const int carried = all.stores[number].message;
  seen(mine.view, location) = number;
  receive(mine, carried, order);
  all.stores[number].taken = true;
  put(mine, location, std::size_t{all.place[number]} + 1, value, order, carried);
}

void pass_fence(Knowledge& mine, const Order& order) {
  if (order.acquire) join(mine.view, mine.unjoined);
  if (order.consistent) {
    join(mine.view, fenced);
    join(mine.view, passed_to_fences);
    join(fenced, mine.view);
  }
  if (order.release) {
    mine.released = mine.view;
    mine.has_released = true;
  }
}

void clear_fences() {
  fenced.clear();
  passed_to_fences.clear();
}

}  // namespace weak::model
