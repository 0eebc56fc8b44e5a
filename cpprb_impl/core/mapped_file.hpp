// A file that is used as memory, for buffers larger than the machine's.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace rb {

class MappedFile {
 public:
  // A new, empty file; one of this name is replaced, and stays what it was for whoever uses it. Throws
  // std::system_error.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept
      : path_(std::move(other.path_)),
        descriptor_(std::exchange(other.descriptor_, -1)),
        bytes_(other.bytes_),
        pieces_(std::move(other.pieces_)) {
    other.pieces_.clear();
  }
  MappedFile(const MappedFile&) = delete;
  ~MappedFile();

  // The file grows by `bytes` zeros, and this is where they are. Their space is reserved: a full disk is
  // an exception here (std::system_error) and not a bus error later. Pieces begin at pages.
  char* grow(std::size_t bytes);

 private:
  std::string path_;
  int descriptor_ = -1;
  std::size_t bytes_ = 0;
  std::vector<std::pair<char*, std::size_t>> pieces_;
};

}  // namespace rb
