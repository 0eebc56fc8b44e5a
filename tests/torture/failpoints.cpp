// A process counts its passes through a failpoint (core/base/failpoints.hpp), and at the chosen one sends itself a
// signal. Compiled in with FAILPOINTS=ON only; failpoints.py calls it.
#include "../../cpprb_impl/core/base/failpoints.hpp"

#include <atomic>
#include <csignal>
#include <cstring>

namespace {
char armed[16];
std::atomic<long> left{0};  // 0: none is armed
std::atomic<int> signal_then{0};
}  // namespace

namespace rb {
void reached(const char* failpoint) {
  if (left.load(std::memory_order_relaxed) > 0 && std::strcmp(failpoint, armed) == 0 &&
      left.fetch_sub(1, std::memory_order_relaxed) == 1)
    std::raise(signal_then.load(std::memory_order_relaxed));
}
}  // namespace rb

// This process raises `signal` on itself the nth time from now that it comes to the failpoint. nth = 0: never.
extern "C" __attribute__((visibility("default"))) void cpprb_impl_arm_failpoint(const char* failpoint, long nth,
                                                                                int signal) {
  left = 0;
  std::strncpy(armed, failpoint, sizeof armed - 1);
  signal_then = signal;
  left = nth;
}
