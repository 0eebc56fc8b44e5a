#include "powers.hpp"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "dispatch.hpp"

namespace rb {
namespace {

// x^exponent = 2^(exponent log2 x), without branches, so that many values are computed at once. Returns false if x or
// the result is not a normal float.
inline bool power(float x, float exponent, float& result) {
  // x = m 2^e with m in [1/sqrt 2, sqrt 2); log2 m as a series in (m - 1) / (m + 1).
  // Unsigned, because the bits of a negative x overflow; the result is then not used.
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::int32_t e = static_cast<std::int32_t>(bits - 0x3f3504f3u) >> 23;  // the bits of 1/sqrt 2
  const float m = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(e) << 23));
  const float t = (m - 1) / (m + 1), t2 = t * t;
  const float log2_m = t * (2.88539008f + t2 * (0.961796694f + t2 * (0.577078016f + t2 * (0.412198583f + t2 * 0.32f))));
  const float y = exponent * static_cast<float>(e) + exponent * log2_m;
  const bool normal = (x >= FLT_MIN) & (x <= FLT_MAX) & (y > -126.0f) & (y < 127.0f);
  const float tame = normal ? y : 0.0f;
  // 2^y: the integer part goes into the exponent's bits, and the rest is a series. Adding 1.5 * 2^23 rounds to an
  // integer.
  const float rounded = tame + 12582912.0f;
  const float f = (tame - (rounded - 12582912.0f)) * 0.693147181f;
  const float series =
      1 + f * (1 + f * (0.5f + f * (0.166666667f + f * (0.0416666667f + f * (0.00833333333f + f * 0.00138888889f)))));
  const std::uint32_t whole = std::bit_cast<std::uint32_t>(rounded) << 23;
  result = std::bit_cast<float>(std::bit_cast<std::uint32_t>(series) + whole);
  return normal;
}

// Replaces x[i] by x[i]^exponent.
RB_FOR_EACH_CPU void powers(float* x, std::size_t count, float exponent) {
  constexpr std::size_t kTile = 64;
  float results[kTile];
  for (std::size_t at = 0; at < count; at += kTile) {
    const std::size_t end = std::min(kTile, count - at);
    int normal = 1;
    for (std::size_t i = 0; i < end; ++i) normal &= power(x[at + i], exponent, results[i]);
    if (normal == 0)
      for (std::size_t i = 0; i < end; ++i) results[i] = std::pow(x[at + i], exponent);
    std::copy_n(results, end, x + at);
  }
}

template <class Number>
void shift_and_power(const Number* from, std::size_t count, double shift, double exponent, float* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(static_cast<double>(from[i]) + shift);
  powers(to, count, static_cast<float>(exponent));
}

}  // namespace

void shifted_powers(const double* from, std::size_t count, double shift, double exponent, float* to) {
  shift_and_power(from, count, shift, exponent, to);
}

void shifted_powers(const float* from, std::size_t count, double shift, double exponent, float* to) {
  shift_and_power(from, count, shift, exponent, to);
}

void ratio_powers(const float* from, std::size_t count, float unit, double exponent, float* to) {
  bool finite = true;
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = from[i] / unit;
    finite &= to[i] <= FLT_MAX;
  }
  powers(to, count, static_cast<float>(exponent));
  if (finite) [[likely]]
    return;
  for (std::size_t i = 0; i < count; ++i)
    to[i] = static_cast<float>(std::pow(static_cast<double>(from[i]) / static_cast<double>(unit), exponent));
}

}  // namespace rb
