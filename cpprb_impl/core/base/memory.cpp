// Its memory orders are all relaxed and have no line in tests/weak_memory/orders: `make orders` replaces this file.
#include "memory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "failpoints.hpp"
#include "reserve.hpp"

// Linux 5.14; not defined in older headers.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace rb {
namespace {

constexpr const char* kFolder = "/dev/shm";
constexpr const char* kPrefix = "cpprb_impl-";
constexpr const char* kRemedy =
    ": give a container more with docker run --shm-size=8g (in Kubernetes, mount a volume with medium: Memory there), "
    "elsewhere with mount -o remount,size=8G /dev/shm, or make the buffer smaller";

[[noreturn]] void fail(int code, const std::string& doing) {
  throw std::system_error(code, std::generic_category(), doing);
}

std::string random_text() {
  std::uint64_t word = 0;
  if (getrandom(&word, sizeof word, 0) != sizeof word) fail(errno, "getrandom");
  static const char* digits = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < 16; ++i, word >>= 4) text += digits[word & 15];
  return text;
}

std::string amount(std::size_t bytes) {
  return bytes >> 20 ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes >> 10) + " KiB";
}

void check(int code, std::size_t bytes, const char* what) {
  if (code == 0) return;
  struct statvfs room{};
  statvfs(kFolder, &room);
  const std::size_t free_bytes = room.f_bavail * room.f_frsize;
  fail(code, "the buffer needs " + amount(bytes) + " of shared memory" + what + ", but " + kFolder + " has " +
                 amount(free_bytes) + " free" + (code == ENOSPC ? kRemedy : ""));
}

char* map(std::size_t bytes, int flags, int descriptor) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (at == MAP_FAILED) {
    if (errno == ENOMEM) throw std::bad_alloc();
    fail(errno, "mmap");
  }
  // MADV_HUGEPAGE is not used: it made samples from a 48 MB ring 7% faster, but the first pass through new memory up to
  // four times slower (2 MB are cleared at a time, which takes milliseconds).
  return static_cast<char*>(at);
}

// Maps pages in. Returns 0 or an errno: ENOSPC if /dev/shm is full, EINVAL before Linux 5.14.
int populate(char* data, std::size_t bytes) {
  int code;
  do code = madvise(data, bytes, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
  while (code == EAGAIN || code == EINTR);
  return code == EFAULT ? ENOSPC : code;
}

}  // namespace

Memory Memory::make_private(std::size_t bytes) {
  Memory memory;
  memory.data_ = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  memory.bytes_ = bytes;
  return memory;
}

// Each process that has a segment open holds a shared flock on it, which the kernel releases when the process ends for
// any reason, in any PID namespace. It is not released earlier: the lock belongs to the open file description, which
// the mapping keeps alive even if other code closes the descriptor.
void Memory::remove_abandoned() {
  DIR* folder = opendir(kFolder);
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): no other thread has this DIR
    if (std::strncmp(entry->d_name, kPrefix, std::strlen(kPrefix)) != 0) continue;
    const std::string name = std::string("/").append(entry->d_name);
    const int descriptor = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0);
    if (descriptor < 0) continue;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
      RB_FAILPOINT(M0);
      shm_unlink(name.c_str());
    }
    close(descriptor);
  }
  closedir(folder);
}

const std::string& Memory::own_prefix() {
  static pid_t process = 0;
  static std::string prefix;
  if (process != getpid()) {  // a forked child creates its own segments
    prefix = std::string("/").append(kPrefix) + std::to_string(getpid()) + "-" + random_text() + "-";
    process = getpid();
  }
  return prefix;
}

Memory Memory::make_shared(std::size_t reserved, std::size_t bytes) {
  static std::atomic<unsigned> made = 0;
  remove_abandoned();
  Memory memory;
  for (;;) {
    memory.name_ = own_prefix() + std::to_string(++made);
    RB_FAILPOINT(M1);
    memory.descriptor_ = shm_open(memory.name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (memory.descriptor_ < 0) {
      const int code = errno;
      memory.name_.clear();
      if (code == EEXIST) continue;
      fail(code, "shm_open");
    }
    memory.maker_ = getpid();
    struct stat status;
    RB_FAILPOINT(M2);
    // Another process may have removed the segment before we locked it. If so, start again.
    if (flock(memory.descriptor_, LOCK_SH | LOCK_NB) == 0 && fstat(memory.descriptor_, &status) == 0 &&
        status.st_nlink > 0)
      break;
    memory.release();
  }
  RB_FAILPOINT(M3);
  check(reserve(memory.descriptor_, 0, reserved), reserved, "");
  RB_FAILPOINT(M4);
  if (ftruncate(memory.descriptor_, static_cast<off_t>(bytes)) != 0) fail(errno, "ftruncate");
  memory.bytes_ = bytes;
  memory.data_ = map(bytes, MAP_SHARED, memory.descriptor_);
  return memory;
}

Memory Memory::attach(const std::string& name) {
  Memory memory;
  memory.descriptor_ = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (memory.descriptor_ < 0) fail(errno, "shared segment " + name);
  memory.name_ = name;
  struct stat status;
  // Does not wait: only a process that is about to remove an abandoned segment holds the lock exclusively.
  const bool locked = flock(memory.descriptor_, LOCK_SH | LOCK_NB) == 0;
  if (!locked || fstat(memory.descriptor_, &status) != 0)
    fail(!locked && errno == EWOULDBLOCK ? ENOENT : errno, "shared segment " + name);
  // Root, or a permissive mode, can open another user's segment, which that user could change or truncate at any time.
  if (status.st_uid != geteuid()) fail(EACCES, "shared segment " + name + " belongs to another user");
  if (status.st_nlink == 0) fail(ENOENT, "shared segment " + name);  // removed before we locked it
  memory.bytes_ = static_cast<std::size_t>(status.st_size);
  if (memory.bytes_ == 0) throw std::invalid_argument("shared segment " + name + " is empty");
  memory.data_ = map(memory.bytes_, MAP_SHARED, memory.descriptor_);
  return memory;
}

void Memory::allocate(std::size_t at, std::size_t bytes) {
  if (descriptor_ < 0) descriptor_.replace(shm_open(name_.c_str(), O_RDWR | O_CLOEXEC, 0));
  // Without a descriptor or a name, memory can only be allocated by touching it.
  const int code = descriptor_ < 0 ? populate(data_ + at, bytes) : rb::allocate(descriptor_, at, bytes);
  if (code == EINVAL) fail(EBADF, "other code has closed the descriptor of shared segment " + name_);
  check(code, bytes, " for more frames");
}

void Memory::prefault(std::size_t bytes) {
  prefaulted_ = bytes;
  const int code = populate(data_, bytes);
  if (code == ENOMEM) throw std::bad_alloc();
  if (code == 0) return;
  // On older kernels, touch each page. A byte is rewritten only if it is unchanged, because other processes may be
  // writing there.
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at < bytes; at += page) {
    const std::atomic_ref<char> byte(data_[at]);
    char was = byte.load(std::memory_order_relaxed);
    byte.compare_exchange_strong(was, was, std::memory_order_relaxed);
  }
}

void Memory::forked() {
  if (prefaulted_ != 0) prefault(prefaulted_);
}

Memory::Memory(Memory&& other) noexcept { *this = std::move(other); }

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(maker_, other.maker_);
  std::swap(prefaulted_, other.prefaulted_);
  std::swap(name_, other.name_);
  return *this;
}

Memory::~Memory() { release(); }

void Memory::release() noexcept {
  if (data_ != nullptr) munmap(data_, bytes_);
  descriptor_.close();
  // A forked child has a copy of this object, but must not remove the name.
  if (maker_ != 0 && maker_ == getpid()) shm_unlink(name_.c_str());
  data_ = nullptr;
  bytes_ = 0;
  maker_ = 0;
}

}  // namespace rb
