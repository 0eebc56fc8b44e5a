#include "model.hpp"

#include <pthread.h>
#include <ucontext.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "../../cpprb_impl/core/points.hpp"
#include "../../cpprb_impl/core/random.hpp"

namespace weak {
namespace {

constexpr std::size_t kUnit = 4, kMaxThreads = 8, kStack = std::size_t{1} << 18, kMaxSteps = 20'000;

constexpr std::size_t kMaxEvents = 512;
using Events = std::bitset<kMaxEvents>;

// What is known: by location the number of a store in its history, 0 for what was there at first; and which
// sequentially consistent operations happened before.
struct View {
  std::vector<std::uint16_t> stores;
  Events events;
  void clear() {
    stores.clear();
    events.reset();
  }
};

// A sequentially consistent operation on a word. Their order S is not the order of execution: it is built as it is
// needed, and a choice that would close a circle is not made.
struct Event {
  std::size_t location;
  std::uint16_t store;  // that it wrote, or read
  bool writes;
  Events before;  // in S, as far as is settled
};

struct Store {
  std::uint64_t value;
  int message;  // the view that it carries, in `messages`; -1: none
  bool taken;   // a read-modify-write has read it: nothing comes between them
};

struct Location {
  const char* at;
  std::size_t bytes;
  std::vector<Store> stores;         // in the order of execution
  std::vector<std::uint16_t> order;  // modification order: numbers of stores
  std::vector<std::uint16_t> place;  // by number of a store: where it is in that order
};

struct Lock {
  int holder = -1;
  bool orphaned = false;
  View view;
};

enum class State { ready, waiting, done, dead };

struct Thread {
  ucontext_t context;
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStack);
  std::function<void()> body;
  State state = State::done;
  int priority = 0;
  std::uint64_t operations = 0, dies_at = 0;  // 0: never
  const char* step = "";
  View view, unjoined, released;  // what it knows; what relaxed loads found; what it knew at its last release fence
  bool has_released = false;
};

struct Weakened {
  std::string file, region, part;
  unsigned line, column;
};

char* memory = nullptr;
std::size_t memory_bytes = 0;
std::function<const char*(const void*)> region_of;

std::vector<int> table;  // by unit of the memory: its location; -1: not touched yet
std::vector<Location> locations;
std::size_t used_locations = 0;
std::vector<View> messages;
std::size_t used_messages = 0;
std::map<void*, Lock> locks;
View fenced, told_to_fences;  // what sequentially consistent fences know, and what operations tell the next one
std::vector<Event> events;

Thread threads[kMaxThreads];
std::size_t thread_count = 0;
int current = -1;
bool running = false;  // an execution
ucontext_t outside;
const Options* options = nullptr;
Outcome outcome;
bool died = false;
rb::Random choices;
std::uint64_t steps = 0;

// How this execution chooses; drawn for each anew, so that some switch often and others read what is old.
struct Style {
  bool by_priority;
  double switches, old_reads, early_stores;
  std::vector<std::uint64_t> changes;  // steps at which the running thread's priority falls
  int lowest;
} style;
std::uint64_t usual_steps = 200;

std::vector<Site> all_sites;
std::map<std::pair<const void*, std::uint64_t>, std::size_t> known_sites;
std::vector<Weakened> weakened;

// Choices.
bool chance(double probability) { return probability > 0 && choices.uniform() < probability; }

// Threads.
void switch_to(int next) {
  const int before = current;
  if (next == before) return;
  current = next;
  swapcontext(&threads[before].context, &threads[next].context);
}

[[noreturn]] void leave() {
  setcontext(&outside);
  std::abort();
}

void join(View& into, const View& from) {
  into.events |= from.events;
  if (into.stores.size() < from.stores.size()) into.stores.resize(from.stores.size());
  for (std::size_t i = 0; i < from.stores.size(); ++i)
    if (locations[i].place[from.stores[i]] > locations[i].place[into.stores[i]]) into.stores[i] = from.stores[i];
}

// The next thread to go on, or none that can: then those that wait may.
int pick(bool let_go) {
  std::size_t ready[kMaxThreads], count = 0;
  for (std::size_t i = 0; i < thread_count; ++i)
    if (threads[i].state == State::ready) ready[count++] = i;
  if (count == 0) {
    View all;
    for (std::size_t i = 0; i < thread_count; ++i) join(all, threads[i].view);
    for (std::size_t i = 1; i < thread_count; ++i)
      if (threads[i].state == State::waiting) threads[ready[count++] = i].state = State::ready;
    // Main waits for the others' end.
    if (count == 0) threads[ready[count++] = 0].state = State::ready;
    for (std::size_t i = 0; i < count; ++i) threads[ready[i]].view = all;
  }
  const bool here = current >= 0 && threads[current].state == State::ready;
  if (style.by_priority) {
    if (let_go && here) threads[current].priority = --style.lowest;
    return static_cast<int>(*std::max_element(
        ready, ready + count, [](auto a, auto b) { return threads[a].priority < threads[b].priority; }));
  }
  if (here && !let_go && !chance(style.switches)) return current;
  return static_cast<int>(ready[choices.below(count)]);
}

void trace(const char* format, ...) __attribute__((format(printf, 1, 2)));
void trace(const char* format, ...) {
  if (!options->trace) return;
  std::printf("  %d %-3s ", current, threads[current].step);
  va_list values;
  va_start(values, format);
  std::vprintf(format, values);
  va_end(values);
  std::printf("\n");
}

// Before each operation: others may run.
void before_operation() {
  if (++steps > kMaxSteps) {
    outcome.cut = true;
    leave();
  }
  Thread& self = threads[current];
  if (current == 0) return;
  if (++self.operations == self.dies_at) {
    trace("dies");
    died = true;
    self.state = State::dead;
    for (auto& [mutex, lock] : locks)
      if (lock.holder == current) lock = {-1, true, self.view};
    switch_to(pick(false));
  }
  const bool falls = style.by_priority && std::erase(style.changes, steps) > 0;
  switch_to(pick(falls));
}

void fiber() {
  threads[current].body();
  if (current == 0) leave();
  threads[current].state = State::done;
  trace("ends");
  switch_to(pick(false));
}

void start(std::size_t i, const std::function<void()>& body) {
  Thread& self = threads[i];
  self.body = body;
  self.state = State::ready;
  self.operations = self.dies_at = 0;
  self.step = "";
  self.view = i == 0 ? View() : threads[0].view;
  self.unjoined.clear();
  self.released.clear();
  self.has_released = false;
  getcontext(&self.context);
  self.context.uc_stack.ss_sp = self.stack.get();
  self.context.uc_stack.ss_size = kStack;
  self.context.uc_link = nullptr;
  makecontext(&self.context, fiber, 0);
}

// Memory.
bool is_shared(const void* at) {
  const auto* byte = static_cast<const char*>(at);
  return running && byte >= memory && byte < memory + memory_bytes;
}

std::uint64_t plain(const void* at, std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, bytes);
  return value;
}

std::size_t location_of(const void* at, std::size_t bytes) {
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(at) - memory);
  int& known = table[offset / kUnit];
  if (known < 0) {
    known = static_cast<int>(used_locations);
    if (used_locations == locations.size()) locations.emplace_back();
    Location& made = locations[used_locations++];
    made.at = static_cast<const char*>(at);
    made.bytes = bytes;
    made.stores.assign(1, {plain(at, bytes), -1, false});
    made.order.assign(1, 0);
    made.place.assign(1, 0);
  }
  const Location& found = locations[static_cast<std::size_t>(known)];
  if (found.bytes != bytes || found.at != at) {
    std::fprintf(stderr, "words of different sizes at one place\n");
    std::abort();
  }
  return static_cast<std::size_t>(known);
}

std::uint16_t& seen(View& view, std::size_t location) {
  if (view.stores.size() <= location) view.stores.resize(location + 1);
  return view.stores[location];
}

int message_of(const View& view) {
  if (used_messages == messages.size()) messages.emplace_back();
  messages[used_messages] = view;
  return static_cast<int>(used_messages++);
}

// From there on a thread may read.
std::size_t oldest(std::size_t location, const Order& order) {
  const Location& all = locations[location];
  std::size_t from = all.place[seen(threads[current].view, location)];
  // What a fence knew counts for operations as well: stronger than C++ where the fence is only executed earlier.
  if (order.consistent) from = std::max<std::size_t>(from, all.place[seen(fenced, location)]);
  return from;
}

// Sequentially consistent operations that come before the next one of this thread, whatever it does.
Events before_next() {
  Events all = threads[current].view.events;
  for (std::size_t i = 0; i < events.size(); ++i)
    if (threads[current].view.events[i]) all |= events[i].before;
  return all;
}

// Which of them come before or after one on this word, by modification order: by half places, for a store that is not
// there yet stands between two.
struct Relation {
  Events before, after;
};
Relation related(std::size_t location, std::size_t half_place, bool writes) {
  Relation all;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].location != location) continue;
    const std::size_t there = 2 * std::size_t{locations[location].place[events[i].store]};
    if (there < half_place || (there == half_place && events[i].writes)) all.before[i] = true;
    if (there > half_place || (there == half_place && writes && !events[i].writes)) all.after[i] = true;
  }
  return all;
}

// Whether S stays without a circle.
bool is_possible(std::size_t location, std::size_t half_place, bool writes, const Order& order) {
  if (!order.consistent || events.size() >= kMaxEvents) return true;
  const Relation all = related(location, half_place, writes);
  Events before = before_next() | all.before;
  for (std::size_t i = 0; i < events.size(); ++i)
    if (all.before[i]) before |= events[i].before;
  return (before & all.after).none();
}

// An operation has read or written store `number`.
void note(std::size_t location, std::uint16_t number, bool writes, const Order& order) {
  Thread& self = threads[current];
  seen(self.view, location) = number;
  if (!order.consistent) return;
  std::uint16_t& last = seen(told_to_fences, location);
  if (locations[location].place[number] > locations[location].place[last]) last = number;
  if (events.size() >= kMaxEvents) return;
  Relation all = related(location, 2 * std::size_t{locations[location].place[number]}, writes);
  Event made{location, number, writes, before_next() | all.before};
  for (std::size_t i = 0; i < events.size(); ++i)
    if (all.before[i]) made.before |= events[i].before;
  const std::size_t mine = events.size();
  const Events earlier = Events(made.before).set(mine);
  events.push_back(made);
  for (std::size_t i = 0; i < mine; ++i)
    if (all.after[i] || (events[i].before & all.after).any()) events[i].before |= earlier;
  self.view.events[mine] = true;
}

void receive(int message, const Order& order) {
  if (message < 0) return;
  Thread& self = threads[current];
  join(order.acquire ? self.view : self.unjoined, messages[static_cast<std::size_t>(message)]);
}

std::uint16_t choose_read(std::size_t location, const Order& order, bool writes = false) {
  const Location& all = locations[location];
  const std::size_t from = oldest(location, order), last = all.order.size() - 1;
  if (from == last || !chance(style.old_reads)) return all.order[last];
  const std::size_t place = from + choices.below(last - from + 1);
  return is_possible(location, 2 * place + (writes ? 1 : 0), writes, order) ? all.order[place] : all.order[last];
}

// Puts a store at a place of the modification order.
std::uint16_t insert(std::size_t location, std::size_t place, std::uint64_t value) {
  Location& all = locations[location];
  const auto number = static_cast<std::uint16_t>(all.stores.size());
  all.stores.push_back({value, -1, false});
  all.order.insert(all.order.begin() + static_cast<std::ptrdiff_t>(place), number);
  all.place.push_back(0);
  for (std::size_t i = place; i < all.order.size(); ++i) all.place[all.order[i]] = static_cast<std::uint16_t>(i);
  return number;
}

// What the new store carries; `read` is the message of what a read-modify-write has read.
void send(std::size_t location, std::uint16_t number, const Order& order, int read) {
  Thread& self = threads[current];
  int message = -1;
  if (order.release)
    message = message_of(self.view);
  else if (self.has_released)
    message = message_of(self.released);
  if (message >= 0 && read >= 0)
    join(messages[static_cast<std::size_t>(message)], messages[static_cast<std::size_t>(read)]);
  locations[location].stores[number].message = message >= 0 ? message : read;
}

std::string name_of(const void* at) {
  return options->name ? options->name(at) : std::to_string(static_cast<const char*>(at) - memory);
}

std::size_t site_of(const char* kind, const void* at, Order order, Order on_failure, const Where& where) {
  const char* region = at != nullptr && region_of ? region_of(at) : "";
  const std::pair key{static_cast<const void*>(where.file_name()),
                      std::uint64_t{where.line()} << 32 | where.column() << 8 | static_cast<unsigned char>(region[0])};
  const auto [found, is_new] = known_sites.try_emplace(key, 0);
  if (is_new) {
    const char* file = std::strrchr(where.file_name(), '/');
    file = file == nullptr ? where.file_name() : file + 1;
    std::size_t i = 0;
    while (i < all_sites.size() && !(all_sites[i].file == file && all_sites[i].line == where.line() &&
                                     all_sites[i].column == where.column() && all_sites[i].region == region))
      ++i;
    if (i == all_sites.size())
      all_sites.push_back(
          {file, where.function_name(), kind, where.line(), where.column(), region, order, on_failure, {}});
    found->second = i;
  }
  Site& site = all_sites[found->second];
  const char* step = current >= 0 ? threads[current].step : "";
  if (std::find(site.steps.begin(), site.steps.end(), step) == site.steps.end()) site.steps.push_back(step);
  return found->second;
}

// The orders of an operation as they are in force: with what is weakened.
void in_force(std::size_t i, Order& order, Order& on_failure) {
  const Site& site = all_sites[i];
  for (const Weakened& each : weakened) {
    if (each.line != site.line || each.column != site.column || each.file != site.file) continue;
    if (!each.region.empty() && each.region != site.region) continue;
    if (each.part == "failure") {
      on_failure = {};
      continue;
    }
    order.consistent = false;
    if (each.part == "acquire") order.acquire = false;
    if (each.part == "release") order.release = false;
  }
}

}  // namespace

Order order_of(std::memory_order order) {
  using enum std::memory_order;
  return {order == acquire || order == consume || order == acq_rel || order == seq_cst,
          order == release || order == acq_rel || order == seq_cst, order == seq_cst};
}

std::uint64_t load(const void* at, std::size_t bytes, std::memory_order given, Where where) {
  if (!is_shared(at)) return plain(at, bytes);
  before_operation();
  Order order = order_of(given), none;
  order.release = false;
  in_force(site_of("load", at, order, none, where), order, none);
  const std::size_t location = location_of(at, bytes);
  const std::uint16_t number = choose_read(location, order);
  const Store found = locations[location].stores[number];
  note(location, number, false, order);
  receive(found.message, order);
  if (options->trace)
    trace("reads  %-16s %llx%s", name_of(at).c_str(), static_cast<unsigned long long>(found.value),
          number == locations[location].order.back() ? "" : "  (old)");
  return found.value;
}

void store(void* at, std::size_t bytes, std::uint64_t value, std::memory_order given, Where where) {
  if (!is_shared(at)) {
    std::memcpy(at, &value, bytes);
    return;
  }
  before_operation();
  Order order = order_of(given), none;
  order.acquire = false;
  in_force(site_of("store", at, order, none, where), order, none);
  const std::size_t location = location_of(at, bytes);
  const Location& all = locations[location];
  std::size_t place = all.order.size();
  if (chance(style.early_stores)) {
    const std::size_t from = oldest(location, order) + 1;
    place = from + choices.below(all.order.size() - from + 1);
    while (place < all.order.size() &&
           (all.stores[all.order[place - 1]].taken || !is_possible(location, 2 * place - 1, true, order)))
      ++place;
  }
  const bool early = place < all.order.size();
  const std::uint16_t number = insert(location, place, value);
  note(location, number, true, order);
  send(location, number, order, -1);
  if (options->trace)
    trace("writes %-16s %llx%s", name_of(at).c_str(), static_cast<unsigned long long>(value),
          early ? "  (before newer ones)" : "");
}

namespace {

// A read-modify-write of what was read.
void modify(std::size_t location, std::uint16_t read, std::uint64_t value, const Order& order) {
  const int message = locations[location].stores[read].message;
  seen(threads[current].view, location) = read;
  receive(message, order);
  locations[location].stores[read].taken = true;
  const std::uint16_t number = insert(location, std::size_t{locations[location].place[read]} + 1, value);
  note(location, number, true, order);
  send(location, number, order, message);
}

}  // namespace

bool compare_exchange(void* at, std::size_t bytes, std::uint64_t& expected, std::uint64_t value,
                      std::memory_order success, std::memory_order failure, Where where) {
  if (!is_shared(at)) {
    const std::uint64_t found = plain(at, bytes);
    const bool same = found == expected;
    same ? static_cast<void>(std::memcpy(at, &value, bytes)) : static_cast<void>(expected = found);
    return same;
  }
  before_operation();
  Order order = order_of(success), on_failure = order_of(failure);
  on_failure.release = false;
  in_force(site_of("compare_exchange", at, order, on_failure, where), order, on_failure);
  const std::size_t location = location_of(at, bytes);
  Location& all = locations[location];
  const Order either{false, false, order.consistent || on_failure.consistent};
  std::uint16_t read = choose_read(location, either, true);
  if (all.stores[read].value == expected && all.stores[read].taken) read = all.order.back();
  const std::uint64_t found = all.stores[read].value;
  const bool same = found == expected;
  if (options->trace)
    trace("%s %-16s %llx to %llx, found %llx", same ? "swaps " : "leaves", name_of(at).c_str(),
          static_cast<unsigned long long>(expected), static_cast<unsigned long long>(value),
          static_cast<unsigned long long>(found));
  if (same) {
    modify(location, read, value, order);
  } else {
    note(location, read, false, on_failure);
    receive(all.stores[read].message, on_failure);
    expected = found;
  }
  return same;
}

std::uint64_t fetch_add(void* at, std::size_t bytes, std::uint64_t more, std::memory_order given, Where where) {
  const std::uint64_t mask = bytes == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * bytes) - 1;
  if (!is_shared(at)) {
    const std::uint64_t found = plain(at, bytes), sum = (found + more) & mask;
    std::memcpy(at, &sum, bytes);
    return found;
  }
  before_operation();
  Order order = order_of(given), none;
  in_force(site_of("fetch_add", at, order, none, where), order, none);
  const std::size_t location = location_of(at, bytes);
  std::uint16_t read = choose_read(location, order, true);
  if (locations[location].stores[read].taken) read = locations[location].order.back();
  const std::uint64_t found = locations[location].stores[read].value;
  if (options->trace)
    trace("adds   %-16s %llx to %llx", name_of(at).c_str(), static_cast<unsigned long long>(more & mask),
          static_cast<unsigned long long>(found));
  modify(location, read, (found + more) & mask, order);
  return found;
}

void fence(std::memory_order given, Where where) {
  if (!running) return;
  before_operation();
  Order order = order_of(given), none;
  in_force(site_of("fence", nullptr, order, none, where), order, none);
  Thread& self = threads[current];
  if (order.acquire) join(self.view, self.unjoined);
  if (order.consistent) {
    join(self.view, fenced);
    join(self.view, told_to_fences);
    join(fenced, self.view);
  }
  if (order.release) {
    self.released = self.view;
    self.has_released = true;
  }
  trace("fence");
}

void yield() {
  if (!running || current == 0) return;
  if (++steps > kMaxSteps) {
    outcome.cut = true;
    leave();
  }
  switch_to(pick(true));
}

int try_lock(void* mutex) {
  if (!running) return 0;
  before_operation();
  Lock& lock = locks[mutex];
  if (lock.holder >= 0) {
    trace("finds a lock taken");
    return EBUSY;
  }
  lock.holder = current;
  join(threads[current].view, lock.view);
  trace("locks");
  return std::exchange(lock.orphaned, false) ? EOWNERDEAD : 0;
}

int unlock(void* mutex) {
  if (!running) return 0;
  before_operation();
  Lock& lock = locks[mutex];
  lock.holder = -1;
  lock.view = threads[current].view;
  trace("unlocks");
  return 0;
}

void share(char* data, std::size_t bytes) {
  memory = data;
  memory_bytes = bytes;
  table.assign(bytes / kUnit + 1, -1);
}

Outcome execute(const Options& given, const std::function<void()>& main) {
  options = &given;
  outcome = {};
  died = false;
  steps = 0;
  choices.reseed(given.seed);
  style.by_priority = chance(0.5);
  style.switches = 0.02 + 0.4 * choices.uniform();
  style.old_reads = chance(0.2) ? 0 : 0.8 * choices.uniform();
  style.early_stores = chance(0.5) ? 0 : 0.6 * choices.uniform();
  style.lowest = 0;
  style.changes.clear();
  for (std::uint64_t left = choices.below(5); left > 0; --left) style.changes.push_back(choices.below(usual_steps));
  thread_count = 1;
  current = 0;
  running = true;
  start(0, main);
  // setcontext() leads here as well.
  volatile bool begun = false;
  getcontext(&outside);
  if (!begun) {
    begun = true;
    setcontext(&threads[0].context);
  }
  running = false;
  current = -1;
  for (std::size_t i = 0; i < used_locations; ++i)
    table[static_cast<std::size_t>(locations[i].at - memory) / kUnit] = -1;
  used_locations = used_messages = 0;
  locks.clear();
  fenced.clear();
  told_to_fences.clear();
  events.clear();
  return outcome;
}

void thread(const std::function<void()>& body, bool may_die) {
  start(thread_count, body);
  Thread& self = threads[thread_count++];
  self.priority = static_cast<int>(choices.below(1000)) + 1;
  if (may_die && chance(0.7)) self.dies_at = 1 + choices.below(60);
}

void run_threads() {
  threads[0].state = State::waiting;
  const std::uint64_t before = steps;
  for (std::size_t i = 1; i < thread_count; ++i) threads[i].view = threads[0].view;
  for (auto& at : style.changes) at += before;
  switch_to(pick(false));
  usual_steps = (7 * usual_steps + (steps - before)) / 8 + 1;
}

void wait_for_all() {
  threads[current].state = State::waiting;
  switch_to(pick(false));
}

void fail(const std::string& what) {
  outcome.failure = what;
  if (options->trace) trace("FAILS: %s", what.c_str());
  leave();
}

bool anybody_died() { return died; }
std::uint64_t choose(std::uint64_t count) { return choices.below(count); }
int me() { return current; }

std::vector<std::uint64_t> history(const void* at) {
  const int known = table[static_cast<std::size_t>(static_cast<const char*>(at) - memory) / kUnit];
  if (known < 0) return {plain(at, 8)};
  std::vector<std::uint64_t> all;
  const Location& location = locations[static_cast<std::size_t>(known)];
  for (const auto number : location.order) all.push_back(location.stores[number].value);
  return all;
}

const std::vector<Site>& sites() { return all_sites; }

void regions(const std::function<const char*(const void*)>& of) { region_of = of; }

void weaken(const std::string& file, unsigned line, unsigned column, const std::string& region,
            const std::string& part) {
  weakened.push_back({file, region, part, line, column});
}

}  // namespace weak

namespace rb {
void reached(const char* point) {
  if (weak::running && weak::current >= 0) weak::threads[weak::current].step = point;
}
}  // namespace rb
