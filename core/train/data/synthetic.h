#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/error.h"
#include "core/train/data/dataset.h"

// FedProx's synthetic(alpha, beta) (Li et al. 2020, section 5.1, as the paper's code draws it).
// Device k has
//   n_k = floor(lognormal(4, 2)) + 50 examples
//   u_k ~ N(0, alpha), B_k ~ N(0, beta); each entry of W_k and b_k ~ N(u_k, 1), of v_k ~ N(B_k, 1)
//   x_j ~ N(v_k,j, variance j^-1.2), j = 1 to 60;   y = argmax(softmax(W_k x + b_k)), 10 classes
// alpha and beta are standard deviations, as in the code. Every device has a model of its own even
// with alpha 0. u_k shifts the logits of all classes by the same amount, u_k (1 + sum of x), so
// alpha changes the models and not the labels (but for rounding): that is the paper's generator.
//
// Everything is a function of (alpha, beta, seed, k): the same bits on every machine, no matter how
// many devices there are or who else draws. So a device makes its own data alone. Sizes depend on
// the seed and k only. Functions without state; any thread may call them.
namespace muster {

struct SyntheticOptions {
  double alpha = 1;           // standard deviation of u_k, 0 to SyntheticLimits::spread
  double beta = 1;            // of B_k
  std::int64_t devices = 30;  // 1 to SyntheticLimits::devices
};

struct SyntheticLimits {
  double spread = 100;
  std::int64_t devices = 1000;
  // Made in one call, 244 bytes each. The median device has 104 examples and the mean one 453, but
  // the largest of many can have any number; one over the limit is refused and not cut, because a
  // cut one would be another data set.
  std::int64_t examples = 2'000'000;
};

// What labels a device's examples, and around what they lie.
struct SyntheticModel {
  static constexpr std::size_t kFeatures = 60;
  static constexpr std::size_t kClasses = 10;

  std::array<std::array<double, kFeatures>, kClasses> weights{};  // W_k
  std::array<double, kClasses> bias{};                            // b_k
  std::array<double, kFeatures> means{};                          // v_k
};

// n_k, as drawn.
std::int64_t synthetic_size(std::uint64_t seed, std::int64_t device);

SyntheticModel synthetic_model(const SyntheticOptions& options, std::uint64_t seed,
                               std::int64_t device);

// The examples of one device, from 0: float features of shape [60] and a label each, which is the
// one of the features as they are stored.
// Errors: kInvalidArgument, reason "bad_data_spec", with the field: an option out of range, no such
// device; kResourceExhausted, reason "too_many_examples": the seed gives it more than the limit.
Result<Dataset> synthetic_device(const SyntheticOptions& options, std::uint64_t seed,
                                 std::int64_t device, const SyntheticLimits& limits = {});

// Those of all devices, one device after another. Errors: the same, the limit is for all together.
Result<Dataset> synthetic_all(const SyntheticOptions& options, std::uint64_t seed,
                              const SyntheticLimits& limits = {});

}  // namespace muster
