#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

// A seeded generator whose every result is fixed by the seed, on every machine and standard library
// (xoshiro256**, Blackman and Vigna 2021, seeded through SplitMix64). Not for secrets.
class Random {
 public:
  explicit Random(std::uint64_t seed);

  std::uint64_t next();
  // Uniform in [0, bound), without modulo bias (Lemire 2019). bound > 0.
  std::uint64_t below(std::uint64_t bound);
  // Uniform in [0, 1): 53 random bits.
  double uniform();
  // Standard normal (Box and Muller 1958, one value per two uniforms).
  double normal();
  // Gamma(shape, 1), shape > 0 (Marsaglia and Tsang 2000).
  double gamma(double shape);

  // Fisher and Yates, in place.
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::array<std::uint64_t, 4> state_;
};

// A seed for one purpose out of a job's seed: SHA-256 over the seed and the labels, first 8 bytes.
// Equal arguments give equal seeds everywhere; different labels give independent streams.
std::uint64_t derive_seed(std::uint64_t seed, std::initializer_list<std::string_view> labels);

}  // namespace muster
