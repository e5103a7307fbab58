#include <utility>

#include "core/aggregate/keeping_aggregator.h"
#include "core/aggregate/robust/robust.h"
#include "core/aggregate/robust/robust_rules.h"

namespace muster {
namespace {

class KeepingRobustRule final : public KeepingRule {
 public:
  KeepingRobustRule(const AggregationSettings& settings, const AggregationBase& base)
      : settings_(settings), base_(base) {}

  Result<Outcome> run(std::span<const Contribution> contributions,
                      Workers& workers) const override {
    return run_robust_rule(settings_, base_, contributions, workers);
  }

 private:
  const AggregationSettings settings_;
  const AggregationBase base_;
};

}  // namespace

std::unique_ptr<KeepingAggregator> make_robust_aggregator(const AggregationSettings& settings,
                                                          const AggregationBase& base) {
  if (!is_robust(settings)) return nullptr;
  return std::make_unique<KeepingAggregator>(settings, base,
                                             std::make_unique<KeepingRobustRule>(settings, base));
}

}  // namespace muster
