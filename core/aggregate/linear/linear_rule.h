#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/aggregate/aggregator.h"

namespace muster {

// A rule that needs no more of the updates than weighted sums: what tells FedAvg, FedNova,
// the server optimisers, SCAFFOLD, FedDyn, norm clipping and FedBuff apart. LinearAggregator does
// the sums.
//
// Immutable, owned by its aggregator. Each `sum` asks for one mean over the model; most rules want
// one, SCAFFOLD two.
class LinearRule {
 public:
  virtual ~LinearRule() = default;

  // What one contribution adds.
  struct Term {
    std::vector<double> weights;  // one a sum, 0 or more
    double divisor = 0;           // its share of what the first sum is divided by, 0 or more
    std::vector<double> scalars;  // summed over contributors, for `pace`
    bool clipped = false, filtered = false;  // for the report
  };

  virtual std::size_t num_sums() const { return 1; }
  virtual std::size_t num_scalars() const { return 0; }
  // What a mean is of: the states that came, their changes from the global state, or that state
  // moved: it plus `pace` times the mean change, which is rounded once like the others.
  enum class Wanted { kState, kChange, kMovedState };
  virtual Wanted wanted(std::size_t sum) const = 0;
  // Of what a round's terms come to; over 0.
  virtual double pace(double divisor, const std::vector<double>& scalars) const {
    (void)divisor;
    (void)scalars;
    return 1;
  }
  // Whether `term` needs the norm of the change, which takes a pass over the values.
  virtual bool wants_change_norm() const { return false; }
  // Errors: kInvalidArgument, reason "bad_steps", "bad_loss", ...: the contribution lacks what the
  // rule needs. Asked by validate.
  virtual Status check(const Contribution&) const { return {}; }
  // The term of a checked contribution. A term whose weights are all zero counts as a contributor,
  // but if all are, there is nothing to average.
  virtual Result<Term> term(const Contribution& contribution, double change_norm) const = 0;

  // From the means (first: divided by the sum of divisors; further ones: plain sums rounded to
  // float32) to the outcome. `means` may be overwritten and moved from.
  struct Sums {
    std::vector<StateDict> means;
    std::int64_t contributors = 0;
  };
  virtual Result<Outcome> apply(Sums sums, const AggregationBase& base, Workers* workers) const = 0;
};

// The rule of these settings; null when they need more than weighted sums.
// Errors: as make_aggregator.
Result<std::unique_ptr<LinearRule>> make_linear_rule(const AggregationSettings& settings,
                                                     const AggregationBase& base);

std::unique_ptr<Aggregator> make_linear_aggregator(const AggregationSettings& settings,
                                                   const AggregationBase& base,
                                                   std::unique_ptr<LinearRule> rule);

}  // namespace muster
