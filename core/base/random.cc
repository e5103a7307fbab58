#include "core/base/random.h"

#include <bit>
#include <cmath>

#include "core/base/bytes.h"
#include "core/base/digest.h"

// log, exp and cos differ in their last bits between C libraries, and even between processors with
// one library. The three below use only operations that IEEE 754 fixes (+ - * / sqrt, scaling by
// powers of two), so that normal() and gamma() give the same bits everywhere. Their relative error
// is a few units in the last place.
namespace muster {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 32 bits, so that k * kLn2High is exact
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// x > 0. With x = m 2^k and s = (m-1)/(m+1): log x = k log 2 + 2 (s + s^3/3 + s^5/5 + ...), |s| <
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

std::uint64_t split_mix(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

__extension__ using Wide = unsigned __int128;

}  // namespace

Random::Random(std::uint64_t seed) : state_{} {
  for (std::uint64_t& word : state_) word = split_mix(seed);
}

std::uint64_t Random::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Random::below(std::uint64_t bound) {
  Wide product = Wide{next()} * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t threshold = (0 - bound) % bound;  // 2^64 mod bound
    while (static_cast<std::uint64_t>(product) < threshold) product = Wide{next()} * bound;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

double Random::uniform() {
  return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

double Random::normal() {
  const double radius = std::sqrt(-2 * exact_log(1 - uniform()));  // 1 - u is in (0, 1]
  return radius * exact_cos_of_turns(uniform());
}

double Random::gamma(double shape) {
  if (shape < 1) {
    // Gamma(a) = Gamma(a + 1) U^(1/a) (the paper's closing note).
    const double boosted = gamma(shape + 1);
    return boosted * exact_exp(exact_log(1 - uniform()) / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = 1 - uniform();
    if (u < 1 - 0.0331 * x * x * x * x) return d * v;
    if (exact_log(u) < 0.5 * x * x + d * (1 - v + exact_log(v))) return d * v;
  }
}

std::uint64_t derive_seed(std::uint64_t seed, std::initializer_list<std::string_view> labels) {
  // Each label follows its length, so that {"ab", "c"} and {"a", "bc"} differ.
  Sha256 hash;
  std::array<std::byte, 8> word{};
  store_le64(seed, word);
  hash.update(word);
  for (const std::string_view label : labels) {
    store_le64(label.size(), word);
    hash.update(word);
    hash.update(as_bytes(label));
  }
  return load_le64(hash.finish().bytes);
}

}  // namespace muster
