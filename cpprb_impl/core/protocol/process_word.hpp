// A process encoded in one word, from which other processes can tell whether it has ended.
#pragma once

#include <cstdint>

namespace rb {

// The word of this process; never 0.
std::uint64_t this_process();

// Whether /proc lists the process. A process in another PID namespace is assumed to be alive, since /proc does not show
// it; a process that /proc does not list for any other reason is assumed to have ended.
bool may_be_alive(std::uint64_t process);

}  // namespace rb
