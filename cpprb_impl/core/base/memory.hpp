// The memory of a buffer: private to the process, or one named shared segment.
#pragma once

#include <cstddef>
#include <string>

#include "descriptor.hpp"

namespace rb {

class Memory {
 public:
  // Zero-filled memory, allocated by the system page by page on first access. Throws std::bad_alloc.
  static Memory make_private(std::size_t bytes);

  // Removes segments that no live process has open: their creators were killed together with their watchdogs.
  static void remove_abandoned();

  // Removes abandoned segments, and creates one with a unique name, readable only by its owner. Space for its first
  // `reserved` bytes is allocated, so that a full /dev/shm causes an exception here (std::system_error, ENOSPC) and not
  // a bus error later.
  static Memory make_shared(std::size_t reserved, std::size_t bytes);
  // Allocates space for an additional part of a shared segment, for all processes; throws the same exceptions.
  void allocate(std::size_t at, std::size_t bytes);

  // The prefix of the names of this process's segments, which no other process uses. It is known before the first
  // segment is created, so that the watchdog can be started in time.
  static const std::string& own_prefix();

  // Attaches to a segment created by another process of the same user. Throws std::system_error (ENOENT if the segment
  // is gone, EACCES if it belongs to another user), std::invalid_argument if the file is empty.
  static Memory attach(const std::string& name);

  Memory() = default;
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  // Maps every page of the first `bytes` into this process now, so that no later call waits for the system. A forked
  // child starts without the pages of a shared segment, so it must call forked(). Throws std::bad_alloc.
  void prefault(std::size_t bytes);
  void forked();

  // Unmaps the memory. The process that created a shared segment also removes its name. A shared segment's memory
  // remains until no process has it mapped.
  void release() noexcept;

  char* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  const std::string& name() const { return name_; }  // empty when private

 private:
  char* data_ = nullptr;
  std::size_t bytes_ = 0;
  Descriptor descriptor_;
  int maker_ = 0;               // process id of the creator; 0 in every other process
  std::size_t prefaulted_ = 0;  // bytes
  std::string name_;
};

}  // namespace rb
