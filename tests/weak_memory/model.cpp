// The operations: each lets other threads run, and then reads or writes a history as its orders allow.
#include "model.hpp"

#include <pthread.h>
#include <time.h>

#include <cerrno>
#include <cstring>

#include "choices.hpp"
#include "histories.hpp"
#include "knowledge.hpp"
#include "locks.hpp"
#include "sites.hpp"
#include "threads.hpp"
#include "total_order.hpp"

namespace weak {
namespace {

using namespace model;

bool is_shared(const void* at) { return is_running() && is_in_memory(at); }

std::string name_of(const void* at) { return options().name ? options().name(at) : std::to_string(offset_of(at)); }

// For a format of trace(): %llx.
unsigned long long hex(std::uint64_t value) { return value; }

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
  come_by("load", at, step(), order, none, where);
  const std::size_t location = location_of(at, bytes);
  const History& all = history_of(location);
  const std::uint16_t number = choose_read(mine(), location, order);
  read(mine(), location, number, order);
  const std::uint64_t found = all.stores[number].value;
  if (options().trace)
    trace("reads  %-16s %llx%s", name_of(at).c_str(), hex(found), number == all.newest() ? "" : "  (old)");
  return found;
}

void store(void* at, std::size_t bytes, std::uint64_t value, std::memory_order given, Where where) {
  if (!is_shared(at)) {
    std::memcpy(at, &value, bytes);
    return;
  }
  before_operation();
  Order order = order_of(given), none;
  order.acquire = false;
  come_by("store", at, step(), order, none, where);
  const std::size_t location = location_of(at, bytes), place = choose_place(mine(), location, order);
  const bool early = place < history_of(location).order.size();
  write(mine(), location, place, value, order);
  if (options().trace)
    trace("writes %-16s %llx%s", name_of(at).c_str(), hex(value), early ? "  (before newer ones)" : "");
}

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
  come_by("compare_exchange", at, step(), order, on_failure, where);
  const std::size_t location = location_of(at, bytes);
  const History& all = history_of(location);
  const Order either{false, false, order.consistent || on_failure.consistent};
  std::uint16_t number = choose_read(mine(), location, either, true);
  if (all.stores[number].value == expected && all.stores[number].taken) number = all.newest();
  const std::uint64_t found = all.stores[number].value;
  const bool same = found == expected;
  if (options().trace)
    trace("%s %-16s %llx to %llx, found %llx", same ? "swaps " : "leaves", name_of(at).c_str(), hex(expected),
          hex(value), hex(found));
  if (same) {
    modify(mine(), location, number, value, order);
  } else {
    read(mine(), location, number, on_failure);
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
  come_by("fetch_add", at, step(), order, none, where);
  const std::size_t location = location_of(at, bytes);
  const History& all = history_of(location);
  std::uint16_t number = choose_read(mine(), location, order, true);
  if (all.stores[number].taken) number = all.newest();
  const std::uint64_t found = all.stores[number].value;
  if (options().trace) trace("adds   %-16s %llx to %llx", name_of(at).c_str(), hex(more & mask), hex(found));
  modify(mine(), location, number, (found + more) & mask, order);
  return found;
}

void fence(std::memory_order given, Where where) {
  if (!is_running()) return;
  before_operation();
  Order order = order_of(given), none;
  come_by("fence", nullptr, step(), order, none, where);
  pass_fence(mine(), order);
  trace("fence");
}

int try_lock(void* mutex) {
  if (!is_running()) return 0;
  before_operation();
  const int code = take_lock(mutex, me(), mine().view);
  trace(code == EBUSY ? "finds a lock taken" : "locks");
  return code;
}

int unlock(void* mutex) {
  if (!is_running()) return 0;
  before_operation();
  return_lock(mutex, mine().view);
  trace("unlocks");
  return 0;
}

Outcome execute(const Options& given, const std::function<void()>& main) {
  begin_choices(given.seed);
  const Outcome outcome = run(given, main);
  clear_histories();
  clear_total_order();
  clear_fences();
  clear_locks();
  return outcome;
}

}  // namespace weak

// By the linker, since the core declares it under another name. A time-out needs no time here.
extern "C" int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t, const timespec*) noexcept {
  const int code = weak::try_lock(mutex);
  if (code != EBUSY) return code;
  weak::yield();
  return ETIMEDOUT;
}
