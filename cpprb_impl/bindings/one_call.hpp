// Exclusive access to something during one call: other threads may run while the call waits.
#pragma once

#include "../core/base/waiting.hpp"

namespace rb {

class OneCall {
 public:
  // Waits until no other call has taken it. `taken` is guarded by the interpreter's lock. Throws Interrupted.
  OneCall(bool& taken, Waiting& waiting);
  ~OneCall() { taken_ = false; }
  OneCall(const OneCall&) = delete;

 private:
  bool& taken_;
};

}  // namespace rb
