#include "core/base/random.h"

#include <bit>
#include <cmath>

#include "core/base/bytes.h"
#include "core/base/digest.h"
#include "core/base/exact_math.h"

namespace muster {
namespace {

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
