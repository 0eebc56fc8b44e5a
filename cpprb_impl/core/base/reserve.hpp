// Allocates space in a file before it is used, so that a full disk causes an error now rather than a bus error later.
#pragma once

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace rb {

// Allocates `bytes` starting at `at`. Returns 0 or an errno. What was allocated before an error remains allocated.
inline int allocate(int descriptor, std::size_t at, std::size_t bytes) {
  // Checked first, because the system would use up the remaining space before it fails.
  struct statvfs room;
  if (::fstatvfs(descriptor, &room) == 0 && room.f_blocks > 0 && bytes / room.f_frsize > room.f_bfree) return ENOSPC;
  // Allocates in pieces, because Linux before 6.17 releases a whole piece if a signal interrupts it. Under a profiler's
  // timer, a large piece would never finish.
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t piece = std::min(kPiece, bytes - done);
    const int code = ::posix_fallocate(descriptor, static_cast<off_t>(at + done), static_cast<off_t>(piece));
    if (code == 0)
      done += piece;
    else if (code != EINTR)
      return code;
  }
  return 0;
}

// Allocates `bytes` at the file's end. Returns 0 or an errno; on error, the file is unchanged.
inline int reserve(int descriptor, std::size_t end, std::size_t bytes) {
  const int code = allocate(descriptor, end, bytes);
  return code != 0 && ::ftruncate(descriptor, static_cast<off_t>(end)) != 0 ? errno : code;
}

}  // namespace rb
