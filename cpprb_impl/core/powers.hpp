// Powers of many numbers at once: priorities to the alpha, importance weights to the beta.
//
// In float, within 5e-6 of the true value; several times as fast as the C library's powf, which has no
// form for many numbers. Where a result is beyond a normal float the C library is asked, so infinities,
// zeros and NaN are as they should be.
#pragma once

#include <cstddef>

namespace rb {

// to[i] = (from[i] + shift)^exponent
void shifted_powers(const double* from, std::size_t count, double shift, double exponent, float* to);
void shifted_powers(const float* from, std::size_t count, double shift, double exponent, float* to);
// to[i] = (from[i] / unit)^exponent
void ratio_powers(const float* from, std::size_t count, float unit, double exponent, float* to);

}  // namespace rb
