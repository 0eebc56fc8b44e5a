// Deliberately slowed calls, to determine which slow-downs the gate detects. RB_SLOWED(add, f) is the method f, in a
// normal build. In a build with CMake's -DSLOWED=ON, each call afterwards burns a share of the time that it took, and
// runs an empty loop: a tenth and 50 turns, if the environment variable RB_SLOWED is "add=0.1,sample=0.5,loops=50".
#pragma once

#include "python.hpp"

#ifdef RB_SLOWED_BUILD
#include <chrono>
#include <cstdlib>
#include <string>

namespace rb {

inline double slowed_by(const std::string& what) {
  const char* set = std::getenv("RB_SLOWED");
  const std::string text = std::string(",") + (set == nullptr ? "" : set);
  const auto at = text.find("," + what + "=");
  return at == std::string::npos ? 0.0 : std::strtod(text.c_str() + at + what.size() + 2, nullptr);
}

inline const double share_of_add = slowed_by("add"), share_of_sample = slowed_by("sample"),
                    share_of_update = slowed_by("update"), loops = slowed_by("loops");

template <auto function, const double& share>
PyObject* slowed(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  PyObject* result = function(self, arguments, count, names);
  const std::chrono::duration<double> burnt = share * (Clock::now() - begin);
  for (const auto from = Clock::now(); Clock::now() - from < burnt;) {
  }
  for (long turn = 0; turn < static_cast<long>(loops); ++turn) asm volatile("");  // not optimised away
  return result;
}

}  // namespace rb
#define RB_SLOWED(call, ...) method(slowed<__VA_ARGS__, share_of_##call>)
#else
#define RB_SLOWED(call, ...) method(__VA_ARGS__)
#endif
