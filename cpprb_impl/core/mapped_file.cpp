#include "mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "reserve.hpp"

namespace rb {
namespace {

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

// A new file, which no other buffer uses. One of that name is removed, not cut: another buffer, in this process or
// another, may have it in its memory still, and would die of a bus error beyond the file's end. Whoever makes one at
// the same moment removes it in turn, and each keeps its own: hence O_EXCL, which follows no links.
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

}  // namespace

MappedFile::MappedFile(const std::string& path, Files files)
    : path_(path), files_(files), descriptor_(files == Files::made ? make(path) : find(path)) {}

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
