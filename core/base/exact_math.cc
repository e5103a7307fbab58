#include "core/base/exact_math.h"

#include <cmath>

namespace muster {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 32 bits, so that k * kLn2High is exact
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

}  // namespace

// With x = m 2^k and s = (m-1)/(m+1): log x = k log 2 + 2 (s + s^3/3 + s^5/5 + ...), |s| <
// 0.172.
double exact_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // in [1/2, 1)
  if (mantissa < 0x1.6a09e667f3bcdp-1) {       // sqrt(1/2)
    mantissa *= 2;
    --exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1);
  const double s2 = s * s;
  double series = 0;
  for (int power = 23; power >= 3; power -= 2) series = (series + 1.0 / power) * s2;
  const double k = exponent;
  return k * kLn2High + (k * kLn2Low + 2 * (s + s * series));
}

// With x = k log 2 + r, |r| <= log(2)/2: 2^k times the Taylor series of exp r.
double exact_exp(double x) {
  if (std::isnan(x)) return x;
  if (x < -745.2) return 0;
  if (x > 709.7) x = 709.7;
  const double k = std::floor(x / (kLn2High + kLn2Low) + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double series = 1;
  for (int n = 14; n >= 1; --n) series = 1 + series * r / n;
  return std::ldexp(series, static_cast<int>(k));
}

// cos(2 pi t), t in [0, 1). t - q/4 is exact and in [-1/8, 1/8]; there the Taylor series are short.
double exact_cos_of_turns(double t) {
  const int quarter = static_cast<int>(4 * t + 0.5);
  const double x = 2 * kPi * (t - quarter / 4.0);
  const double x2 = x * x;
  double cosine = 1;
  for (int n = 18; n >= 2; n -= 2) cosine = 1 - cosine * x2 / (n * (n - 1));
  double sine = 1;
  for (int n = 19; n >= 3; n -= 2) sine = 1 - sine * x2 / (n * (n - 1));
  sine *= x;
  switch (quarter % 4) {
    case 0:
      return cosine;
    case 1:
      return -sine;
    case 2:
      return -cosine;
    default:
      return sine;
  }
}

double integer_power(double base, std::int64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power *= base;
    base *= base;
  }
  return power;
}

}  // namespace muster
