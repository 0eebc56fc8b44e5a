#include "mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "reserve.hpp"
#include "sizes.hpp"

namespace rb {
namespace {

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

// Creates a file that no other buffer uses. An existing file of that name is removed rather than truncated: a buffer
// that still maps it would get a bus error beyond the file's end. O_EXCL ensures that two processes never open the same
// new file; O_EXCL does not follow links, so they are resolved here.
int make(std::filesystem::path path) {
  constexpr int kMostLinks = 40;  // as many as the kernel follows
  for (int links = 0;;) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, 0666);
    if (descriptor >= 0) return descriptor;
    if (errno != EEXIST) fail(errno, path);
    struct stat old;
    if (::lstat(path.c_str(), &old) != 0) {
      if (errno != ENOENT) fail(errno, path);
    } else if (S_ISLNK(old.st_mode)) {
      if (++links > kMostLinks) fail(ELOOP, path);
      std::error_code gone;
      if (auto target = std::filesystem::read_symlink(path, gone); !gone) path = path.parent_path() / target;
    } else if (!S_ISREG(old.st_mode)) {
      fail(S_ISDIR(old.st_mode) ? EISDIR : EEXIST, path);
    } else if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      fail(errno, path);
    }
  }
}

int find(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) fail(errno, path);
  return descriptor;
}

// No page beyond the file's end may be accessed until the file has grown. The mapping itself takes no memory.
char* map(int descriptor, std::uint64_t bytes, const std::string& path) {
  constexpr int how = MAP_SHARED | MAP_NORESERVE;
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, how, descriptor, 0);
  if (at != MAP_FAILED) return static_cast<char*>(at);
  const int error = errno;
  char size[32];
  std::snprintf(size, sizeof size, "%.3g", static_cast<double>(bytes) / (1 << 30));
  fail(error, path + " needs " + size + " GiB of address space");
}

}  // namespace

MappedFile::MappedFile(const std::string& path, std::uint64_t most, Files files)
    : path_(path),
      files_(files),
      descriptor_(files == Files::made ? make(path) : find(path)),
      base_(map(descriptor_, most, path)),
      most_(most) {}

MappedFile::~MappedFile() { ::munmap(base_, most_); }

struct stat MappedFile::status() const {
  struct stat status;
  if (::fstat(descriptor_, &status) != 0) fail(errno, path_);
  return status;
}

MappedFile::Identity MappedFile::identity() const {
  const struct stat now = status();
  return {now.st_dev, now.st_ino};
}

char* MappedFile::grow(std::uint64_t bytes) {
  const std::uint64_t at = bytes_, end = plus(at, bytes);
  if (end > most_) fail(EFBIG, path_ + " must have at most " + std::to_string(most_) + " bytes");
  if (descriptor_ < 0) descriptor_.replace(::open(path_.c_str(), O_RDWR | O_CLOEXEC));  // other code has closed it
  if (files_ == Files::made) {
    int error = reserve(descriptor_, at, bytes);
    // Some file systems cannot reserve space; extending the file is the best alternative.
    if (error == EOPNOTSUPP || error == EINVAL)
      error = ::ftruncate(descriptor_, static_cast<off_t>(end)) == 0 ? 0 : errno;
    if (error != 0) fail(error, path_);
  } else if (static_cast<std::uint64_t>(status().st_size) < end) {
    throw std::runtime_error(path_ + " was cut short");
  }
  bytes_ = end;
  return base_ + at;
}

}  // namespace rb
