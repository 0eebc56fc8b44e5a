// The descriptor of an open file that other code may close behind our back, as daemons do, who close all there are: its
// number is then free, or another file's.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace rb {

class Descriptor {
 public:
  Descriptor() = default;
  // Takes over what open() returned; errno stays as it is when that is negative.
  Descriptor(int opened) : number_(opened) {
    if (number_ < 0) return;
    // Where other code has closed the standard streams, what it prints would go into our file.
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

  // Its number; -1 where there is none, or none any more.
  operator int() const {
    File now;
    return number_ >= 0 && known(now) && now == file_ ? number_ : -1;
  }

  // Becomes `again`, what open() returned, if that is of the very file that this one is, or was, of.
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
