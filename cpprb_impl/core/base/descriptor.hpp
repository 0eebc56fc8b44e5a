// The descriptor of an open file. Other code may close it unexpectedly (a daemon closes all its descriptors): the
// number is then unused or refers to another file.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace rb {

class Descriptor {
 public:
  Descriptor() = default;
  // Takes over the result of open(). If it is negative, errno is left unchanged.
  Descriptor(int opened) : number_(opened) {
    if (number_ < 0) return;
    // If the standard streams are closed, open() may return one of their numbers, and output would go into our file.
    if (number_ <= STDERR_FILENO) {
      number_ = ::fcntl(opened, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
      ::close(opened);
    }
    if (!known(file_)) number_ = -1;
  }
  Descriptor(Descriptor&& other) noexcept { *this = std::move(other); }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    std::swap(file_, other.file_);
    return *this;
  }
  ~Descriptor() { close(); }

  // The number; -1 if there is no file, or other code has closed it.
  operator int() const {
    File now;
    return number_ >= 0 && known(now) && now == file_ ? number_ : -1;
  }

  // Takes over `again` if it refers to the same file as this descriptor does, or did before it was closed.
  void replace(Descriptor again) {
    if (again >= 0 && again.file_ == file_) *this = std::move(again);
  }

  void close() noexcept {
    if (const int mine = *this; mine >= 0) ::close(mine);
    number_ = -1;
  }

 private:
  struct File {
    dev_t device = 0;
    ino_t number = 0;
    bool operator==(const File&) const = default;
  };

  bool known(File& file) const {
    struct stat status;
    if (::fstat(number_, &status) != 0) return false;
    file = {status.st_dev, status.st_ino};
    return true;
  }

  int number_ = -1;
  File file_;
};

}  // namespace rb
