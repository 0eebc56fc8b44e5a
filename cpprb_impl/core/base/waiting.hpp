// Hooks around waits and long copies. The core is independent of Python: the binding's hooks let other threads run
// meanwhile, and check for signals.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>

namespace rb {

// Thrown when a wait is abandoned (Ctrl-C); no lock is held then.
struct Interrupted : std::exception {};

struct Waiting {
  virtual ~Waiting() = default;
  virtual void begin() {}
  virtual bool go_on() { return true; }  // called from time to time; false: give up
  virtual void end() {}

  // Copies of at least this many bytes are long enough to let other threads run.
  std::size_t long_copy = ~std::size_t{0};
  virtual void copy(const std::function<void()>& work) { work(); }
};

}  // namespace rb
