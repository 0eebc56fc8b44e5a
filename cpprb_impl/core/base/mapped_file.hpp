// A file used as memory, for buffers larger than the machine's memory.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "descriptor.hpp"

namespace rb {

enum class Files {
  made,   // created by this process, empty
  found,  // created and grown by another process
};

class MappedFile {
 public:
  // Identifies the file: no other file has the same identity while any process has this one open.
  struct Identity {
    std::uint64_t device, number;
    bool operator==(const Identity&) const = default;
  };

  // With Files::made, an existing file of this name is replaced; buffers that map it keep its contents. Reserves
  // address space for `most` bytes as a single mapping, because the kernel limits the number of mappings
  // (vm.max_map_count) and the contents must never move. Throws std::system_error, which names the size if the address
  // space is not available.
  MappedFile(const std::string& path, std::uint64_t most, Files files = Files::made);
  MappedFile(const MappedFile&) = delete;
  ~MappedFile();

  // Grows the file by `bytes` zeros and returns their address. Disk space is reserved, so that a full disk causes an
  // exception here (std::system_error) and not a bus error later. With Files::found, the file must already be that
  // long: otherwise throws std::runtime_error.
  char* grow(std::uint64_t bytes);

  Identity identity() const;  // throws std::system_error

 private:
  struct stat status() const;

  std::string path_;
  Files files_;
  Descriptor descriptor_;
  char* base_ = nullptr;
  std::uint64_t most_;
  std::uint64_t bytes_ = 0;  // current size
};

}  // namespace rb
