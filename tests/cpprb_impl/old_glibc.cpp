// A robust mutex where glibc has no pthread_mutex_clocklock() (link with --defsym=pthread_mutex_clocklock=0), and one
// where it has. Prints how often the fallback was called, or exits with the line of a failed check.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "../../cpprb_impl/core/protocol/locks.hpp"

namespace {

using rb::RobustMutex;
using Got = RobustMutex::Got;

int fallbacks = 0;

void check(bool right, int line) {
  if (!right) std::_Exit(line % 256);
}

// Lets a wait go on for some rounds, after each of which it may do something.
struct Rounds : rb::Waiting {
  explicit Rounds(int left, int release = -1) : left(left), release(release) {}
  bool go_on() override {
    if (release >= 0) close(release);
    release = -1;
    return left-- > 0;
  }
  int left, release;
};

// A process that holds the mutex until `release` is closed; it then unlocks it, or dies with it.
struct Holder {
  Holder(RobustMutex& mutex, bool dies) {
    int ready[2], done[2];
    check(pipe(ready) == 0 && pipe(done) == 0, __LINE__);
    process = fork();
    char byte;
    if (process == 0) {
      close(done[1]);
      mutex.try_lock();
      close(ready[1]);
      check(read(done[0], &byte, 1) == 0, __LINE__);
      if (!dies) mutex.unlock();
      std::_Exit(0);
    }
    close(ready[1]);
    close(done[0]);
    check(read(ready[0], &byte, 1) == 0, __LINE__);
    release = done[1];
  }
  void join() const { waitpid(process, nullptr, 0); }
  pid_t process;
  int release;
};

}  // namespace

extern "C" {

int __real_pthread_mutex_timedlock(pthread_mutex_t*, const timespec*);

int __wrap_pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) {
  ++fallbacks;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  check(std::abs(until->tv_sec - now.tv_sec) < 3600, __LINE__);  // by this clock, or each call would return at once
  return __real_pthread_mutex_timedlock(mutex, until);
}
}

int main() {
  void* shared = mmap(nullptr, sizeof(RobustMutex), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& mutex = *new (shared) RobustMutex;
  mutex.format();
  Rounds none(0);
  check(mutex.lock(none) == Got::yes, __LINE__);
  mutex.unlock();

  for (const bool dies : {false, true}) {
    const Holder holder(mutex, dies);
    bool interrupted = false;
    Rounds few(2);
    try {
      mutex.lock(few);
    } catch (const rb::Interrupted&) {
      interrupted = true;
    }
    check(interrupted && few.left == -1, __LINE__);
    Rounds many(1'000'000, holder.release);
    check(mutex.lock(many) == (dies ? Got::from_the_dead : Got::yes), __LINE__);
    mutex.unlock();
    holder.join();
  }
  std::printf("%d\n", fallbacks);
}
