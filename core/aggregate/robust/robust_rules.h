#pragma once

#include <cstdint>
#include <span>

#include "core/aggregate/aggregator.h"
#include "core/base/workers.h"

namespace muster {

bool is_robust(const AggregationSettings& settings);

// floor(beta n), where a product that is whole but for its rounding counts as whole: 29 for beta
// 0.29 and n 100, whose product in double is 28.999999999999996. At most (n - 1) / 2, which is no
// less than floor(beta n) for any beta below 0.5: one value or two are always left.
//   beta  0 to below 0.5
//   n     from 1
std::int64_t trimmed_count(double beta, std::int64_t n);

// What Aggregator::finish does for a robust rule.
//   contributions  sorted by contributor, with the base's layout
// Errors: those of Aggregator::finish but "finished".
Result<Outcome> run_robust_rule(const AggregationSettings& settings, const AggregationBase& base,
                                std::span<const Contribution> contributions, Workers& workers);

}  // namespace muster
