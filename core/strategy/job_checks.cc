#include "core/strategy/job_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/graph/model.h"

namespace muster {
namespace {

Error contradiction(const std::string& path, std::string what) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}: {}", path, what), "bad_field"};
}

template <typename Rule>
bool is(const AggregationSettings& aggregation) {
  return std::holds_alternative<Rule>(aggregation);
}

// The least local learning rate that a rule divides by.
constexpr double kLeastUndone = 1e-30;

// The steps of the local optimiser enter the rule's formula.
bool undoes_local_steps(const AggregationSettings& aggregation) {
  return is<Scaffold>(aggregation) || is<FedNova>(aggregation) || is<QFedAvg>(aggregation);
}

// The next state may be further from the last than any update was.
bool goes_further(const AggregationSettings& aggregation) {
  return is<FedAvgM>(aggregation) || is<FedAdaptive>(aggregation) || is<Scaffold>(aggregation) ||
         is<FedDyn>(aggregation) || is<FedNova>(aggregation) || is<FedBuff>(aggregation);
}

// Time grows with the square of the updates, Bulyan's with the third power, memory with the square.
bool compares_pairs(const AggregationSettings& aggregation) {
  return is<Krum>(aggregation) || is<MultiKrum>(aggregation) || is<Bulyan>(aggregation);
}
constexpr std::int64_t kMostInPairs = 2000;

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
  if (!enough) return contradiction(where + ".min_updates", enough.error().message);
  if (compares_pairs(aggregation) && round.target_updates > kMostInPairs) {
    return contradiction(where + ".target_updates",
                         fmt::format("{}, but {} compares all pairs of updates; wanted at most {}",
                                     round.target_updates, method_name(aggregation), kMostInPairs));
  }
  return {};
}

Status check_kind_of_model(const AggregationSettings& aggregation, const Json& model,
                           const std::string& model_path, const std::string& method_path) {
  const bool of_json = is_json_model(model);
  if (of_json == is<JsonMean>(aggregation)) return {};
  if (of_json) {
    return contradiction(method_path, fmt::format("{}, but {} is a JSON state; wanted JsonMean",
                                                  method_name(aggregation), model_path));
  }
  return contradiction(method_path, fmt::format("JsonMean, but {} is no JSON state; wanted "
                                                "another method, or a model {{\"json\": {{...}}}} "
                                                "or {{\"statistics\": {{...}}}}",
                                                model_path));
}

Status check_untrained(const AggregationSettings& aggregation, const Graph& graph,
                       const std::string& method_path) {
  if (!goes_further(aggregation)) return {};
  const StateLayout& layout = *graph.layout();
  std::int64_t trained = 0;
  for (const Graph::Range& range : graph.trained_ranges()) trained += range.size;
  if (trained == layout.num_elements()) return {};
  return contradiction(
      method_path,
      fmt::format("{}, but the model has {} values that no gradient moves, such as the running "
                  "variance of a batch_norm, and {} may put them where they cannot be; wanted "
                  "FedAvg, FedProx or a robust rule, or a model with group_norm",
                  method_name(aggregation), layout.num_elements() - trained,
                  method_name(aggregation)));
}

Result<UpdateLimits> limits_for(const AggregationSettings& aggregation, const Json& json,
                                const std::string& where) {
  constexpr double kFurthest = 1e15;
  Json with_default = json;
  const bool wants_default = json.is_object() && !json.contains("max_change_norm");
  if (goes_further(aggregation) && wants_default) with_default["max_change_norm"] = kFurthest;
  MUSTER_TRY(const UpdateLimits limits, update_limits_from_json(with_default, where));
  if (!is<JsonMean>(aggregation) || limits.max_change_norm == 0) return limits;
  return contradiction(where + ".max_change_norm",
                       fmt::format("{}, but the change of a JSON state has no norm; wanted 0",
                                   limits.max_change_norm));
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
  if (local.optimizer.lr < kLeastUndone) {
    return contradiction(
        where + ".optimizer.lr",
        fmt::format("{}, but {} a rate of {} or more", local.optimizer.lr, wants, kLeastUndone));
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
  const bool of_deltas = is<FedBuff>(aggregation);
  Json with_default = json;
  if (of_deltas && json.is_object() && !json.contains("content")) with_default["content"] = "delta";
  MUSTER_TRY(UpdateEncoding encoding, update_encoding_from_json(with_default, where));
  if (of_deltas && encoding.content != UpdateContent::kDelta) {
    return contradiction(where + ".content",
                         fmt::format("state, but {} adds changes to a state that is newer than "
                                     "the one they began from; wanted delta",
                                     method_name(aggregation)));
  }
  if (is<JsonMean>(aggregation) && encoding.format != UpdateEncoding::Format::kFloat32) {
    return contradiction(where + ".format",
                         fmt::format("{}, but JsonMean wants float32: the numbers of a JSON state "
                                     "are not rounded",
                                     describe(encoding)));
  }
  if (is<JsonMean>(aggregation) && encoding.content != UpdateContent::kState) {
    return contradiction(where + ".content", "delta, but JsonMean wants state");
  }
  return encoding;
}

}  // namespace muster
