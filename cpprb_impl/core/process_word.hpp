// A process in one word, from which others learn whether it has ended.
#pragma once

#include <cstdint>

namespace rb {

// This one's; never 0.
std::uint64_t this_process();

// Whether the process is there, by /proc. One of another namespace, of which nothing is known here, is taken to be; one
// that can't be seen for another reason is not.
bool may_be_alive(std::uint64_t process);

}  // namespace rb
