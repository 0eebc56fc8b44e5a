#include "number_loops.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace rb {

namespace {

// npy_bool is an unsigned char like npy_ubyte, and half-precision numbers are converted via doubles.
struct Truth {};
struct Half {};

template <class Type>
struct Stored {
  using type = Type;
};
template <>
struct Stored<Truth> {
  using type = npy_bool;
};
template <>
struct Stored<Half> {
  using type = double;
};

// npy_long has the size of another type, so it needs no loops of its own.
template <class Type>
using OfSize =
    std::conditional_t<sizeof(Type) == sizeof(npy_int), std::conditional_t<std::is_signed_v<Type>, npy_int, npy_uint>,
                       std::conditional_t<std::is_signed_v<Type>, npy_longlong, npy_ulonglong>>;

// Both results are computed without branches, so that the loops can be vectorised.
template <class To, class From>
unsigned put(From from, typename Stored<To>::type& to) {
  if constexpr (std::is_same_v<To, Truth>) {
    to = from != 0;
    unsigned found = kChanged * static_cast<unsigned>((from != 0) & (from != 1));
    if constexpr (std::is_floating_point_v<From>) found |= kRefused * static_cast<unsigned>(!is_finite(from));
    return found;
  } else if constexpr (std::is_same_v<To, Half>) {
    to = static_cast<double>(from);
    bool too_large = std::abs(to) >= kRoundsToInfiniteHalf;
    if constexpr (std::is_floating_point_v<From>) too_large &= is_finite(from);
    to = too_large ? std::copysign(std::numeric_limits<double>::infinity(), to) : to;
    return kChanged * static_cast<unsigned>(too_large);
  } else if constexpr (std::is_floating_point_v<To>) {
    to = static_cast<To>(from);
    if constexpr (std::is_floating_point_v<From> && sizeof(To) < sizeof(From))
      return kChanged * static_cast<unsigned>(is_finite(from) & !is_finite(to));
    return 0;
  } else if constexpr (std::is_floating_point_v<From>) {
    constexpr From low = std::numeric_limits<To>::min();
    constexpr From end = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;  // exact, unlike the maximum
    const bool inside = (from >= low) & (from < end);                                    // not if it is NaN
    to = inside ? static_cast<To>(from) : To{0};
    return kChanged * static_cast<unsigned>(inside & (static_cast<From>(to) != from)) |
           kRefused * static_cast<unsigned>(!inside);
  } else {
    to = static_cast<To>(from);
    return kRefused * static_cast<unsigned>(!std::in_range<To>(from));
  }
}

template <class From, class To>
unsigned convert_all(const void* from, npy_intp count, void* to) {
  const auto* numbers = static_cast<const From*>(from);
  auto* results = static_cast<typename Stored<To>::type*>(to);
  unsigned found = 0;
  for (npy_intp i = 0; i < count; ++i) found |= put<To>(numbers[i], results[i]);
  return found;
}

// In the order of Wide.
template <class To>
constexpr std::array<NumberLoop, kWideTypes> kLoopsTo = {convert_all<npy_int, To>, convert_all<npy_longlong, To>,
                                                         convert_all<npy_ulonglong, To>, convert_all<double, To>,
                                                         convert_all<npy_longdouble, To>};

using Kind = NumberType::Kind;

template <class To>
constexpr NumberType integers(int type) {
  return {
      Kind::integer, type, sizeof(To), kLoopsTo<To>, std::numeric_limits<To>::min(), std::numeric_limits<To>::max()};
}

template <class To>
constexpr NumberType reals(int type, Kind kind = Kind::real) {
  return {kind, type, sizeof(typename Stored<To>::type), kLoopsTo<To>};
}

// By NumPy's number of the type, without half-precision numbers.
constexpr std::array kNumberTypes = {NumberType{Kind::truth, NPY_BOOL, 1, kLoopsTo<Truth>},
                                     integers<npy_byte>(NPY_BYTE),
                                     integers<npy_ubyte>(NPY_UBYTE),
                                     integers<npy_short>(NPY_SHORT),
                                     integers<npy_ushort>(NPY_USHORT),
                                     integers<npy_int>(NPY_INT),
                                     integers<npy_uint>(NPY_UINT),
                                     integers<OfSize<npy_long>>(NPY_LONG),
                                     integers<OfSize<npy_ulong>>(NPY_ULONG),
                                     integers<npy_longlong>(NPY_LONGLONG),
                                     integers<npy_ulonglong>(NPY_ULONGLONG),
                                     reals<float>(NPY_FLOAT),
                                     reals<double>(NPY_DOUBLE),
                                     reals<npy_longdouble>(NPY_LONGDOUBLE),
                                     reals<float>(NPY_FLOAT, Kind::complex),
                                     reals<double>(NPY_DOUBLE, Kind::complex),
                                     reals<npy_longdouble>(NPY_LONGDOUBLE, Kind::complex)};
constexpr NumberType kHalf = reals<Half>(NPY_DOUBLE);

template <class From, class To>
void widen_all(const void* from, npy_intp count, void* to) {
  const auto* numbers = static_cast<const typename Stored<From>::type*>(from);
  auto* results = static_cast<To*>(to);
  for (npy_intp i = 0; i < count; ++i)
    if constexpr (std::is_same_v<From, Truth>)
      results[i] = numbers[i] != 0;  // the numbers may be a view of other bytes
    else
      results[i] = numbers[i];
}

// How numbers of a C type are converted to a wide type.
struct GivenType {
  Wide wide;
  void (*widen)(const void* from, npy_intp count, void* to) = nullptr;  // null if they already have that type
  npy_intp bytes = 0;                                                   // of a number that is widened
};

template <class From, class To>
constexpr GivenType narrow(Wide wide) {
  return {wide, widen_all<From, To>, sizeof(typename Stored<From>::type)};
}

constexpr GivenType kUInt = narrow<npy_uint, npy_longlong>(kLongLong);
constexpr GivenType kGivenTypes[] = {narrow<Truth, npy_int>(kInt),
                                     narrow<npy_byte, npy_int>(kInt),
                                     narrow<npy_ubyte, npy_int>(kInt),
                                     narrow<npy_short, npy_int>(kInt),
                                     narrow<npy_ushort, npy_int>(kInt),
                                     {kInt},
                                     kUInt,
                                     {sizeof(npy_long) == sizeof(npy_int) ? kInt : kLongLong},
                                     sizeof(npy_ulong) == sizeof(npy_uint) ? kUInt : GivenType{kULongLong},
                                     {kLongLong},
                                     {kULongLong},
                                     narrow<float, double>(kDouble),
                                     {kDouble},
                                     {kLongDouble}};

}  // namespace

const NumberType* number_type_of(PyArray_Descr* dtype) {
  const auto type = static_cast<std::size_t>(dtype->type_num);
  if (type == NPY_HALF) return &kHalf;
  return type < kNumberTypes.size() ? &kNumberTypes[type] : nullptr;
}

unsigned convert_numbers(const NumberType& to_type, int type, const char* from, npy_intp count, char* to) {
  const GivenType& given = kGivenTypes[type];
  const NumberLoop loop = to_type.loops[given.wide];
  if (given.widen == nullptr) return loop(from, count, to);
  constexpr npy_intp kAtOnce = 256;  // so many stay in the L1 cache
  alignas(npy_longlong) std::byte wide[kAtOnce * sizeof(npy_longlong)];
  unsigned found = 0;
  for (npy_intp first = 0; first < count; first += kAtOnce) {
    const npy_intp some = std::min(kAtOnce, count - first);
    given.widen(from + first * given.bytes, some, wide);
    found |= loop(wide, some, to + first * to_type.bytes);
  }
  return found;
}

}  // namespace rb
