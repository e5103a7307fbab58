#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/aggregate/double_double.h"
#include "core/aggregate/linear/exact_mean.h"
#include "core/aggregate/linear/linear_rule.h"

namespace muster {

// The parts of a linear aggregate that are numbers, not models. Sums are double-doubles: exact, and
// so the same in any order, as long as what is summed spans fewer than 106 bits.
struct Totals {
  std::vector<DoubleDouble> weights;  // one a sum
  DoubleDouble divisor{0, 0};
  std::vector<DoubleDouble> scalars;
  std::vector<std::string> clipped;  // contributors, in no order
  std::vector<std::string> filtered;

  Totals(std::size_t num_sums, std::size_t num_scalars)
      : weights(num_sums, DoubleDouble{0, 0}), scalars(num_scalars, DoubleDouble{0, 0}) {}

  void add(const std::string& contributor, const LinearRule::Term& term) {
    for (std::size_t i = 0; i < weights.size(); ++i) plus(weights[i], term.weights[i]);
    plus(divisor, term.divisor);
    for (std::size_t i = 0; i < scalars.size(); ++i) plus(scalars[i], term.scalars[i]);
    if (term.clipped) clipped.push_back(contributor);
    if (term.filtered) filtered.push_back(contributor);
  }

  void add(const Totals& other) {
    for (std::size_t i = 0; i < weights.size(); ++i) plus(weights[i], other.weights[i]);
    plus(divisor, other.divisor);
    for (std::size_t i = 0; i < scalars.size(); ++i) plus(scalars[i], other.scalars[i]);
    clipped.insert(clipped.end(), other.clipped.begin(), other.clipped.end());
    filtered.insert(filtered.end(), other.filtered.begin(), other.filtered.end());
  }

  static void plus(DoubleDouble& sum, double value) { DoubleDouble::add(sum.high, sum.low, value); }
  static void plus(DoubleDouble& sum, const DoubleDouble& value) {
    plus(sum, value.high);
    plus(sum, value.low);
  }
};

// What of a linear aggregate was read into sums: everything that its saved form holds.
struct FoldedSums {
  Totals totals;
  std::vector<PartialSums> sums;  // one a sum; empty as long as nobody is in
};

}  // namespace muster
