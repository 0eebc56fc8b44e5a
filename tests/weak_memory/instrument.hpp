// Included before everything else in each source file of the core (g++ -include): replaces its atomics, fences, words
// and locks by those of model.hpp. The core itself is not changed, and atomics added to it later are replaced as well.
#pragma once

#include <bits/stdc++.h>
#include <pthread.h>
#include <sched.h>

#include "model.hpp"

namespace weak {

template <class T>
class atomic {
 public:
  static constexpr bool is_always_lock_free = true;
  using Order = std::memory_order;

  atomic() = default;
  atomic(T value) : value_(value) {}
  atomic(const atomic&) = delete;
  T operator=(T value) {
    store(value);
    return value;
  }

  // Of what is not shared: without the place where it is read.
  operator T() const { return load(); }

  T load(Order order = Order::seq_cst, Where where = Where::current()) const {
    return value(weak::load(this, sizeof(T), order, where));
  }
  void store(T to, Order order = Order::seq_cst, Where where = Where::current()) {
    weak::store(this, sizeof(T), bits(to), order, where);
  }
  T fetch_add(T more, Order order = Order::seq_cst, Where where = Where::current()) {
    return value(weak::fetch_add(this, sizeof(T), bits(more), order, where));
  }
  T fetch_sub(T less, Order order = Order::seq_cst, Where where = Where::current()) {
    return value(weak::fetch_add(this, sizeof(T), bits(static_cast<T>(-less)), order, where));
  }
  bool compare_exchange_strong(T& expected, T to, Order success, Order failure, Where where = Where::current()) {
    std::uint64_t found = bits(expected);
    const bool done = weak::compare_exchange(this, sizeof(T), found, bits(to), success, failure, where);
    if (!done) expected = value(found);
    return done;
  }
  bool compare_exchange_strong(T& expected, T to, Order order = Order::seq_cst, Where where = Where::current()) {
    const Order failure = order == Order::acq_rel ? Order::acquire : order == Order::release ? Order::relaxed : order;
    return compare_exchange_strong(expected, to, order, failure, where);
  }
  bool compare_exchange_weak(T& expected, T to, Order success, Order failure, Where where = Where::current()) {
    return compare_exchange_strong(expected, to, success, failure, where);
  }
  bool compare_exchange_weak(T& expected, T to, Order order = Order::seq_cst, Where where = Where::current()) {
    return compare_exchange_strong(expected, to, order, where);
  }

 private:
  static std::uint64_t bits(T value) {
    std::uint64_t all = 0;
    std::memcpy(&all, &value, sizeof value);
    return all;
  }
  static T value(std::uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  T value_{};
};

template <class Word>
Word load_word(const Word* at, int order, Where where = Where::current()) {
  return static_cast<Word>(load(at, sizeof(Word), static_cast<std::memory_order>(order), where));
}
template <class Word>
void store_word(Word* at, std::uint64_t value, int order, Where where = Where::current()) {
  store(at, sizeof(Word), value, static_cast<std::memory_order>(order), where);
}

}  // namespace weak

namespace std {
template <class T>
using weak_atomic = ::weak::atomic<T>;
inline void weak_fence(memory_order order, ::weak::Where where = ::weak::Where::current()) {
  ::weak::fence(order, where);
}
}  // namespace std

#define atomic weak_atomic
#define atomic_thread_fence weak_fence
#define __atomic_load_n(from, order) ::weak::load_word(from, order)
#define __atomic_store_n(to, word, order) ::weak::store_word(to, word, order)
#define pthread_mutex_trylock ::weak::try_lock
#define pthread_mutex_unlock ::weak::unlock
#define pthread_mutex_consistent(mutex) static_cast<void>(0)
#define sched_yield ::weak::yield
