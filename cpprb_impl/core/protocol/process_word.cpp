// Its memory orders are all relaxed and have no line in tests/weak_memory/orders: `make orders` replaces this file.
#include "process_word.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace rb {
namespace {

// Process ids are reused, so the word includes the start time. They are meaningless in a different PID namespace, so
// the word also includes part of the namespace's number. A process id has up to 22 bits, which leaves only 10 for the
// namespace: if two namespaces have the same 10 bits, a live process may be mistaken for one that has ended.
struct ProcessWord {
  std::uint64_t bits;

  static ProcessWord of(std::uint64_t space, std::uint64_t number, std::uint32_t start) {
    return {space << 54 | number << 32 | start};
  }
  std::uint64_t space() const { return bits >> 54; }
  pid_t number() const { return static_cast<pid_t>(bits >> 32 & 0x3f'ffff); }
  std::uint32_t start() const { return static_cast<std::uint32_t>(bits); }
};

std::uint64_t this_space() {
  struct stat status;
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino & 1023 : 0;
}

// Returns when the process started, in clock ticks since boot; 0 if it does not exist or is a zombie.
std::uint32_t start_of(pid_t number) {
  char path[32], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(number));
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return 0;
  text[length] = 0;
  const char* at = std::strrchr(text, ')');  // the name before it may contain anything
  if (at == nullptr || std::strlen(at) < 3 || at[2] == 'Z' || at[2] == 'X') return 0;
  ++at;
  for (int field = 3; field < 22; ++field) {  // proc_pid_stat(5)
    at = std::strchr(at + 1, ' ');
    if (at == nullptr) return 0;
  }
  return static_cast<std::uint32_t>(std::strtoull(at, nullptr, 10));
}

}  // namespace

std::uint64_t this_process() {
  static std::atomic<std::uint64_t> known = 0;
  const pid_t number = getpid();
  ProcessWord us{known.load(std::memory_order_relaxed)};
  if (us.number() != number) {  // the first time, or in a forked child
    us = ProcessWord::of(this_space(), static_cast<std::uint64_t>(number), start_of(number));
    known.store(us.bits, std::memory_order_relaxed);
  }
  return us.bits;
}

bool may_be_alive(std::uint64_t process) {
  const ProcessWord it{process}, us{this_process()};
  return it.bits == us.bits || it.space() != us.space() || (it.start() != 0 && start_of(it.number()) == it.start());
}

}  // namespace rb
