// The memory a buffer lives in: private to the process, or one named shared segment.
#pragma once

#include <cstddef>
#include <string>

#include "descriptor.hpp"

namespace rb {

class Memory {
 public:
  // Zero-filled, taken from the system page by page as it is first touched. Throws std::bad_alloc.
  static Memory make_private(std::size_t bytes);

  // A new segment under a name of its own, readable by its owner only. The space of its first `reserved` bytes is: a
  // full /dev/shm is an exception here (std::system_error, ENOSPC) and not a bus error later.
  static Memory make_shared(std::size_t reserved, std::size_t bytes);
  // Takes the space of more of a shared segment, for all processes; throws likewise.
  void allocate(std::size_t at, std::size_t bytes);

  // The common beginning of the names of this process's segments, and of no other process's. Known before the first
  // one is made, so that the watchdog can be started in time.
  static const std::string& own_prefix();

  // The segment that another process of the same user made. Throws std::system_error (ENOENT when it is gone, EACCES
  // when it is another user's), std::invalid_argument for an empty file.
  static Memory attach(const std::string& name);

  Memory() = default;
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  // Brings every page of the first `bytes` into this process's mapping now, so that no later call waits for the system.
  // A forked child has none of a shared segment's pages: it calls forked(). Throws std::bad_alloc.
  void prefault(std::size_t bytes);
  void forked();

  // Unmaps; the process that made a shared segment also removes its name. The memory stays until
  // the last process that has it mapped lets go.
  void release() noexcept;

  char* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  const std::string& name() const { return name_; }  // empty when private

 private:
  char* data_ = nullptr;
  std::size_t bytes_ = 0;
  Descriptor descriptor_;
  int maker_ = 0;               // process id of the maker; 0 in every other process
  std::size_t prefaulted_ = 0;  // bytes
  std::string name_;
};

}  // namespace rb
