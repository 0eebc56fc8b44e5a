// A file that is used as memory, for buffers larger than the machine's.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "descriptor.hpp"

namespace rb {

enum class Files {
  made,   // by this process: new and empty
  found,  // those that another process made, and grew
};

class MappedFile {
 public:
  // No other file has the same, as long as somebody has this one open.
  struct Identity {
    std::uint64_t device, number;
    bool operator==(const Identity&) const = default;
  };

  // A file of this name that is not to be `found` is replaced, and stays what it was for whoever uses it. Address
  // space for `most` bytes is reserved, as one mapping: the kernel limits the number of those (vm.max_map_count), and
  // what is in the file stays where it is. Throws std::system_error, which names the size if there is not that much.
  MappedFile(const std::string& path, std::uint64_t most, Files files = Files::made);
  MappedFile(const MappedFile&) = delete;
  ~MappedFile();

  // The file grows by `bytes` zeros, and this is where they are. Their space on disk is reserved: a full disk is
  // an exception here (std::system_error) and not a bus error later.
  // A file that was found has them: std::runtime_error if it has not.
  char* grow(std::uint64_t bytes);

  Identity identity() const;  // throws std::system_error

 private:
  struct stat status() const;

  std::string path_;
  Files files_;
  Descriptor descriptor_;
  char* base_ = nullptr;
  std::uint64_t most_;
  std::uint64_t bytes_ = 0;  // that it has grown to
};

}  // namespace rb
