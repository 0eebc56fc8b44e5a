// A robust mutex in shared memory: it survives the death of the process that holds it.
#pragma once

#include <pthread.h>
#include <time.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "../base/waiting.hpp"

namespace rb {

// pthread_mutex_clocklock(), or null if glibc is older than 2.30, so that the module can still be loaded. The name is
// different because old headers lack the function, and new headers declare it without `weak`.
extern "C" int clock_lock(pthread_mutex_t*, clockid_t, const timespec*) __asm__("pthread_mutex_clocklock")
    __attribute__((weak));

// Process-shared and robust: when the holder dies, the next process gets the lock and is notified of the death.
class RobustMutex {
 public:
  enum class Got { no, yes, from_the_dead };

  void format() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    const int failed = pthread_mutex_init(&mutex_, &attributes);
    pthread_mutexattr_destroy(&attributes);
    if (failed) throw std::system_error(failed, std::generic_category(), "pthread_mutex_init");
  }

  Got try_lock() { return result(pthread_mutex_trylock(&mutex_)); }

  Got lock(Waiting& waiting) {
    Got got = try_lock();
    if (got != Got::no) return got;
    waiting.begin();
    for (;;) {
      got = lock_within(50'000'000);
      if (got != Got::no) break;
      if (!waiting.go_on()) {
        waiting.end();
        throw Interrupted();
      }
    }
    waiting.end();
    return got;
  }

  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  Got lock_within(std::int64_t nanoseconds) {
    // pthread_mutex_timedlock() uses the real-time clock. If the clock is set back, the time-out occurs that much
    // later.
    const clockid_t clock = clock_lock ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    timespec until;
    clock_gettime(clock, &until);
    until.tv_nsec += nanoseconds;
    until.tv_sec += until.tv_nsec / 1'000'000'000;
    until.tv_nsec %= 1'000'000'000;
    return result(clock_lock ? clock_lock(&mutex_, clock, &until) : pthread_mutex_timedlock(&mutex_, &until));
  }

  Got result(int code) {
    if (code == 0) return Got::yes;
    if (code == EBUSY || code == ETIMEDOUT) return Got::no;
    if (code == EOWNERDEAD) {
      // Mark it consistent at once: what the dead holder left incomplete is recorded in the segment (its claim), not in
      // the lock.
      pthread_mutex_consistent(&mutex_);
      return Got::from_the_dead;
    }
    throw std::system_error(code, std::generic_category(), "pthread_mutex_lock");
  }

  pthread_mutex_t mutex_;
};

}  // namespace rb
