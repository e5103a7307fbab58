#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/base/error.h"
#include "core/tensor/state.h"

namespace muster {

// One device's part in an aggregate. Views; nothing is kept after the call.
struct Contribution {
  std::string_view contributor;   // for error messages
  const StateLayout& layout;      // of `values`
  std::span<const float> values;  // layout.num_elements() floats
  std::int64_t examples = 0;      // its weight
};

// Turns the updates of one round into the next global state.
//
// One object serves one round: `accumulate` once per contributor in a canonical order chosen by the
// caller (the coordinator sorts by device id, so that the bits do not depend on who came first),
// then `finish` once. One thread at a time. After an error of `accumulate` the aggregate is bit for
// bit what it was before.
class Aggregator {
 public:
  virtual ~Aggregator() = default;

  // Whether `accumulate` would take it. Changes nothing.
  // Errors: kInvalidArgument naming contributor and tensor; reason "missing_tensor",
  // "extra_tensor", "shape_mismatch", "non_finite" or "bad_examples".
  virtual Status validate(const Contribution& contribution) const = 0;

  virtual Status accumulate(const Contribution& contribution) = 0;

  // Errors: kFailedPrecondition, reason "no_contributors" (none, or all weights zero), "non_finite"
  // (the result does not fit a float32), "finished" (second call).
  virtual Result<StateDict> finish() = 0;
};

// The weighted mean of states (McMahan et al. 2017, Algorithm 1: w <- sum_k n_k / n * w_k).
//   layout   of the global state; every contribution must have it
// Products with the weight are exact, sums are kept in double-double and the quotient is rounded
// once, so an element is within 1 ulp of the exact weighted mean unless terms that are 2^70 times
// larger than the mean cancel each other; then the error is at most 2^-90 of the largest input for
// up to a thousand contributors. Two contributors' -0.0 stay -0.0. A contributor of zero examples
// is ignored; a negative count is refused. One contributor is the identity, bit for bit. Memory: 16
// bytes a parameter and the result. Time: one pass over each contribution.
std::unique_ptr<Aggregator> make_weighted_mean(LayoutPtr layout);

}  // namespace muster
