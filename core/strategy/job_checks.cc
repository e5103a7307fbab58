#include "core/strategy/job_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster {
namespace {

Error contradiction(const std::string& path, std::string what) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}: {}", path, what), "bad_field"};
}

template <typename Rule>
bool is(const AggregationSettings& aggregation) {
  return std::holds_alternative<Rule>(aggregation);
}

// The steps of the local optimiser enter the rule's formula.
bool undoes_local_steps(const AggregationSettings& aggregation) {
  return is<Scaffold>(aggregation) || is<FedNova>(aggregation) || is<QFedAvg>(aggregation);
}

Status check_sgd(const AggregationSettings& aggregation, const SgdSettings& sgd,
                 const std::string& where, const std::string& wants) {
  if (is<Scaffold>(aggregation) && sgd.momentum != 0) {
    return contradiction(where + ".momentum", fmt::format("{}, but {} 0", sgd.momentum, wants));
  }
  if (is<FedNova>(aggregation) && sgd.nesterov) {
    return contradiction(where + ".nesterov", fmt::format("true, but {} false", wants));
  }
  if (is<FedNova>(aggregation) && sgd.dampening != 0) {
    return contradiction(where + ".dampening", fmt::format("{}, but {} 0", sgd.dampening, wants));
  }
  return {};
}

}  // namespace

AggregationNeeds aggregation_needs(const AggregationSettings& aggregation) {
  AggregationNeeds needs;
  needs.rule = describe(aggregation);
  needs.fewest_updates = fewest_contributors(aggregation);
  if (const auto* krum = std::get_if<MultiKrum>(&aggregation)) {
    needs.fewest_updates = std::max(needs.fewest_updates, krum->m);
  }
  if (const auto* buffer = std::get_if<FedBuff>(&aggregation)) {
    needs.buffer_size = buffer->buffer_size;
  }
  return needs;
}

Status check_round(const AggregationSettings& aggregation, const RoundSettings& round,
                   const std::string& where) {
  const Status enough = check_contributors(aggregation, round.min_updates);
  if (enough) return {};
  return contradiction(where + ".min_updates", enough.error().message);
}

Status check_selection(const AggregationSettings& aggregation, const ClientSelection& selection,
                       const std::string& where) {
  if (!is<FedBuff>(aggregation) || selection.method != ClientSelection::Method::kRandom) return {};
  return contradiction(where + ".method",
                       fmt::format("Random, but {} invites a device when it comes; wanted All or "
                                   "ByCapability",
                                   method_name(aggregation)));
}

Status check_local(const AggregationSettings& aggregation, const LocalSettings& local,
                   const std::string& where) {
  if (!undoes_local_steps(aggregation)) return {};
  const std::string wants = method_name(aggregation) + " wants";
  const auto* sgd = std::get_if<SgdSettings>(&local.optimizer.rule);
  if (sgd == nullptr) {
    return contradiction(where + ".optimizer.type",
                         fmt::format("{}, but {} sgd", local.optimizer.type(), wants));
  }
  if (local.optimizer.lr <= 0) {
    return contradiction(where + ".optimizer.lr",
                         fmt::format("{}, but {} a rate over 0", local.optimizer.lr, wants));
  }
  if (!std::holds_alternative<ConstantSchedule>(local.schedule.shape)) {
    const bool step = std::holds_alternative<StepSchedule>(local.schedule.shape);
    return contradiction(where + ".schedule.type",
                         fmt::format("{}, but {} constant", step ? "step" : "cosine", wants));
  }
  if (local.schedule.warmup_steps != 0) {
    return contradiction(where + ".schedule.warmup_steps",
                         fmt::format("{}, but {} 0", local.schedule.warmup_steps, wants));
  }
  if (local.clip_norm != 0) {
    return contradiction(where + ".clip_norm", fmt::format("{}, but {} 0", local.clip_norm, wants));
  }
  return check_sgd(aggregation, *sgd, where + ".optimizer", wants);
}

double local_mu(const AggregationSettings& aggregation) {
  if (const auto* prox = std::get_if<FedProx>(&aggregation)) return prox->mu;
  if (const auto* dyn = std::get_if<FedDyn>(&aggregation)) return dyn->alpha;
  return 0;
}

Result<UpdateEncoding> encoding_for(const AggregationSettings& aggregation, const Json& json,
                                    const std::string& where) {
  if (!is<FedBuff>(aggregation)) return update_encoding_from_json(json, where);
  Json with_default = json;
  if (json.is_object() && !json.contains("content")) with_default["content"] = "delta";
  MUSTER_TRY(UpdateEncoding encoding, update_encoding_from_json(with_default, where));
  if (encoding.content == UpdateContent::kDelta) return encoding;
  return contradiction(where + ".content",
                       fmt::format("state, but {} adds changes to a state that is newer than the "
                                   "one they began from; wanted delta",
                                   method_name(aggregation)));
}

}  // namespace muster
