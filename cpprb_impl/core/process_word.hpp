// A process in one word, by which other processes see whether it has ended.
#pragma once

#include <cstdint>

namespace rb {

// This one's; never 0.
std::uint64_t this_process();

// Whether /proc lists the process. A process in another PID namespace is taken to be alive, since /proc says nothing
// about it; a process that /proc does not list for any other reason is taken to have ended.
bool may_be_alive(std::uint64_t process);

}  // namespace rb
