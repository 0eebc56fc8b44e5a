// What the core does in ways that ThreadSanitizer does not follow, done in ways that it does.
//
// It knows memory by its address, and would see nothing of a race through two mappings of one segment: instead of
// core/memory.cpp, whoever attaches gets the very mapping that the maker has. And it does not know
// pthread_mutex_clocklock(), so that a lock taken by it would seem to be none: here it tries until it is time.
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <cstdlib>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <tuple>
#include <utility>

#include "../../cpprb_impl/core/memory.hpp"

extern "C" int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* until) noexcept {
  for (;;) {
    if (const int code = pthread_mutex_trylock(mutex); code != EBUSY) return code;
    timespec now;
    clock_gettime(clock, &now);
    if (now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec)) return ETIMEDOUT;
    sched_yield();
  }
}

namespace rb {
namespace {

std::mutex lock;
std::map<std::string, std::pair<char*, std::size_t>> segments;  // they stay until the program's end

char* zeroed(std::size_t bytes) {
  auto* data = static_cast<char*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  if (data == nullptr) throw std::bad_alloc();
  std::fill_n(data, bytes, 0);
  return data;
}

}  // namespace

Memory Memory::make_private(std::size_t bytes) {
  Memory memory;
  memory.data_ = zeroed(bytes);
  memory.bytes_ = bytes;
  return memory;
}

Memory Memory::make_shared(std::size_t bytes) {
  Memory memory = make_private(bytes);
  const std::lock_guard guard(lock);
  memory.name_ = "segment " + std::to_string(segments.size());
  segments[memory.name_] = {memory.data_, bytes};
  return memory;
}

Memory Memory::attach(const std::string& name) {
  Memory memory;
  const std::lock_guard guard(lock);
  std::tie(memory.data_, memory.bytes_) = segments.at(name);
  memory.name_ = name;
  return memory;
}

Memory::Memory(Memory&& other) noexcept { *this = std::move(other); }

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(name_, other.name_);
  return *this;
}

Memory::~Memory() { release(); }

void Memory::release() noexcept {
  if (name_.empty()) std::free(data_);
  data_ = nullptr;
}

}  // namespace rb
