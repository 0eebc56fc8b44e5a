// Space in a file, taken before it is used: a full disk is an error then, and not a bus error later.
#pragma once

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace rb {

// `bytes` from `at` on. Returns 0, or an errno: what was taken until then stays.
inline int allocate(int descriptor, std::size_t at, std::size_t bytes) {
  // Asked first, because the system would fill what room there is before it fails.
  struct statvfs room;
  if (::fstatvfs(descriptor, &room) == 0 && room.f_blocks > 0 && bytes / room.f_frsize > room.f_bfree) return ENOSPC;
  // In pieces: where a signal breaks into one (Linux before 6.17), the system gives back all of that piece, and under
  // a profiler's timer a large one would never end.
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

// The same from the file's end on. Returns 0, or an errno; the file is as it was then.
inline int reserve(int descriptor, std::size_t end, std::size_t bytes) {
  const int code = allocate(descriptor, end, bytes);
  return code != 0 && ::ftruncate(descriptor, static_cast<off_t>(end)) != 0 ? errno : code;
}

}  // namespace rb
