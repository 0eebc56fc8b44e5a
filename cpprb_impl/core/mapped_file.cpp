#include "mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "reserve.hpp"

namespace rb {
namespace {

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

MappedFile::MappedFile(const std::string& path, Files files) : path_(path), files_(files) {
  int how = O_RDWR | O_CLOEXEC;
  if (files == Files::made) {
    how |= O_CREAT | O_TRUNC;
    // Removed, not cut: another buffer, in this process or another, may have it in its memory still, and would die
    // of a bus error beyond the file's end.
    struct stat old;
    if (::lstat(path.c_str(), &old) == 0 && S_ISREG(old.st_mode) && ::unlink(path.c_str()) != 0) fail(errno, path);
  }
  descriptor_ = ::open(path.c_str(), how, 0666);
  if (descriptor_ < 0) fail(errno, path);
}

MappedFile::~MappedFile() {
  for (const auto& [at, bytes] : pieces_) ::munmap(at, bytes);
  if (descriptor_ >= 0) ::close(descriptor_);
}

struct stat MappedFile::status() const {
  struct stat status;
  if (::fstat(descriptor_, &status) != 0) fail(errno, path_);
  return status;
}

MappedFile::Identity MappedFile::identity() const {
  const struct stat now = status();
  return {now.st_dev, now.st_ino};
}

char* MappedFile::grow(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t at = (bytes_ + page - 1) / page * page;
  pieces_.reserve(pieces_.size() + 1);
  if (files_ == Files::made) {
    int error = reserve(descriptor_, at, bytes);
    // Some file systems can't reserve; a file that is only made longer is the best there is then.
    if (error == EOPNOTSUPP || error == EINVAL)
      error = ::ftruncate(descriptor_, static_cast<off_t>(at + bytes)) == 0 ? 0 : errno;
    if (error != 0) fail(error, path_);
  } else if (static_cast<std::size_t>(status().st_size) < at + bytes) {
    throw std::runtime_error(path_ + " was cut short");
  }
  void* piece = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, static_cast<off_t>(at));
  if (piece == MAP_FAILED) fail(errno, path_);
  bytes_ = at + bytes;
  pieces_.emplace_back(static_cast<char*>(piece), bytes);
  return static_cast<char*>(piece);
}

}  // namespace rb
