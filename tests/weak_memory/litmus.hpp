#pragma once

#include <cstdint>

// Whether each outcome that C++ allows was seen in so many executions, and no other.
bool litmus_tests(std::uint64_t executions);
