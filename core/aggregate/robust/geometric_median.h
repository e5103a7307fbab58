#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/aggregate/robust/rows.h"
#include "core/base/workers.h"
#include "core/tensor/state.h"

namespace muster {

struct WeiszfeldSettings {
  double nu = 1e-6;                   // distances below it count as it
  std::int64_t max_iterations = 100;  // 0 gives the weighted mean
  double tolerance = 1e-6;
};

struct WeiszfeldResult {
  std::int64_t iterations = 0;
  bool finite = true;  // false: a value is not finite, and `out` is unspecified
};

// The geometric median of whole models by the smoothed Weiszfeld algorithm (RFA: Pillutla, Kakade,
// Harchaoui 2022, algorithm 2): from the weighted mean on
//   b_i = w_i / max(nu, ||v - x_i||),  v = sum b_i x_i / sum b_i,
// until no coefficient b_i / sum b moved by more than `tolerance` of itself, or max_iterations. v
// is formed in blocks, in double, and met at once by its distances, so an iteration is one pass
// over the rows and v is written only at the end: plus `added` when not null, rounded once.
//   weights  one a row, over 0
WeiszfeldResult geometric_median(const Rows& rows, std::span<const double> weights,
                                 const WeiszfeldSettings& settings, const StateDict* added,
                                 std::span<float> out, Workers& workers);

}  // namespace muster
