// Replaces two operations of the core that ThreadSanitizer does not follow by equivalents that it does.
//
// It identifies memory by its address, so it would miss a race through two mappings of one segment: here, mapping a
// segment a second time returns the existing mapping (linked with --wrap=mmap,--wrap=munmap). It does not know
// pthread_mutex_clocklock(), so it would not see the lock: here, that function calls trylock until the time is up.
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include <cerrno>
#include <cstddef>
#include <map>
#include <mutex>

namespace {

std::mutex lock;
std::map<ino_t, void*> segments;  // mapped until the program's end, so that no number comes twice

}  // namespace

extern "C" {

void* __real_mmap(void*, std::size_t, int, int, int, off_t);
int __real_munmap(void*, std::size_t);

void* __wrap_mmap(void* wanted, std::size_t bytes, int protection, int flags, int file, off_t from) {
  if (!(flags & MAP_SHARED)) return __real_mmap(wanted, bytes, protection, flags, file, from);
  struct stat status;
  if (fstat(file, &status) != 0) return MAP_FAILED;
  const std::lock_guard guard(lock);
  void*& mapped = segments[status.st_ino];
  if (mapped == nullptr) mapped = __real_mmap(wanted, bytes, protection, flags, file, from);
  return mapped;
}

int __wrap_munmap(void* mapped, std::size_t bytes) {
  const std::lock_guard guard(lock);
  for (const auto& [number, segment] : segments)
    if (segment == mapped) return 0;
  return __real_munmap(mapped, bytes);
}

int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* until) noexcept {
  for (;;) {
    if (const int code = pthread_mutex_trylock(mutex); code != EBUSY) return code;
    timespec now;
    clock_gettime(clock, &now);
    if (now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec)) return ETIMEDOUT;
    sched_yield();
  }
}

}  // extern "C"
