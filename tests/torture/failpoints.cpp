// What a process does at a numbered point (core/failpoints.hpp): count, and at the chosen time raise a signal on itself.
// Compiled in with POINTS=ON only; failpoints.py calls it.
#include "../../cpprb_impl/core/failpoints.hpp"

#include <atomic>
#include <csignal>
#include <cstring>

namespace {
char chosen[16];
std::atomic<long> left{0};  // 0: nothing is chosen
std::atomic<int> signal_then{0};
}  // namespace

namespace rb {
void reached(const char* point) {
  if (left.load(std::memory_order_relaxed) > 0 && std::strcmp(point, chosen) == 0 &&
      left.fetch_sub(1, std::memory_order_relaxed) == 1)
    std::raise(signal_then.load(std::memory_order_relaxed));
}
}  // namespace rb

// At the nth time from now that this process comes to the point it raises the signal. nth = 0: never.
extern "C" __attribute__((visibility("default"))) void cpprb_impl_at_point(const char* point, long nth, int signal) {
  left = 0;
  std::strncpy(chosen, point, sizeof chosen - 1);
  signal_then = signal;
  left = nth;
}
