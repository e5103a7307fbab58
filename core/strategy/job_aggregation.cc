#include "core/strategy/job_aggregation.h"

#include <memory>
#include <variant>

namespace muster {

AggregationBase JobAggregation::base(const StateDict& global, const StateDict* rule_state) const {
  return {.global = &global,
          .content = encoding.content,
          .rule_state = rule_state,
          .population = population,
          .local_lr = local_lr,
          .local_momentum = local_momentum,
          .local_mu = local_mu};
}

JobAggregation aggregation_of(const JobDescription& job) {
  const auto& federated = std::get<Federated>(job.strategy);
  JobAggregation aggregation{.rule = federated.aggregation,
                             .encoding = job.encoding,
                             .population = federated.num_clients,
                             .local_lr = job.local.optimizer.lr,
                             .local_momentum = 0,
                             .local_mu = job.local.mu};
  if (const auto* sgd = std::get_if<SgdSettings>(&job.local.optimizer.rule)) {
    aggregation.local_momentum = sgd->momentum;
  }
  return aggregation;
}

Status check_for_rule(const JobAggregation& job, const StateDict& global,
                      const Contribution& contribution) {
  MUSTER_TRY(const std::unique_ptr<Aggregator> aggregator,
             make_aggregator(job.rule, job.base(global, nullptr)));
  return aggregator->validate(contribution);
}

DriftCorrection drift_correction_of(const AggregationSettings& rule) {
  if (std::holds_alternative<Scaffold>(rule)) return DriftCorrection::kScaffold;
  if (std::holds_alternative<FedDyn>(rule)) return DriftCorrection::kFedDyn;
  return DriftCorrection::kNone;
}

Json report_counts(const Json& report) {
  Json counts = Json::object();
  for (const char* what : {"selected", "clipped", "filtered"}) {
    if (report.contains(what)) counts[what] = report.at(what).size();
  }
  return counts;
}

}  // namespace muster
