// Powers of many numbers at once: priorities to the power alpha, importance weights to the power beta.
//
// Computed in float, within 5e-6 of the true value, and several times as fast as the C library's powf, which only takes
// single numbers. If a result is not a normal float, the C library is used, so infinities, zeros and NaN are correct.
#pragma once

#include <cstddef>

namespace rb {

// to[i] = (from[i] + shift)^exponent
void shifted_powers(const double* from, std::size_t count, double shift, double exponent, float* to);
void shifted_powers(const float* from, std::size_t count, double shift, double exponent, float* to);
// to[i] = (from[i] / unit)^exponent
void ratio_powers(const float* from, std::size_t count, float unit, double exponent, float* to);

}  // namespace rb
