// Whether two frames that are alive at once have two numbers, although more than 2^32 frames lie between them. A stream
// that is not written to can be moved on for nothing. Compiled and run by test_far_frames.py.
#include <cstdio>
#include <vector>

#include "../../cpprb_impl/core/rows/frames.hpp"

int main() {
  char memory[2] = {};
  std::size_t given = 0;
  const rb::StackShape one_byte{1, 1, 1};
  rb::FrameStream stream(one_byte, 1, [&](std::size_t) { return &memory[given++]; });  // a chunk is one frame
  const char first = 'a', second = 'b';
  const auto early = stream.append(&first);
  stream.back_to((std::uint64_t{1} << 32) + early);  // on, rather
  const auto late = stream.append(&second);
  std::printf("%llu %llu\n", static_cast<unsigned long long>(early), static_cast<unsigned long long>(late));
  return early == late ? 1 : 0;
}
