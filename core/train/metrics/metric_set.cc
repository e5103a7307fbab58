#include "core/train/metrics/metric_set.h"

#include <algorithm>
#include <utility>

#include "core/base/invariant.h"
#include "core/train/metrics/registry.h"

namespace muster {
namespace {

Error bad_field(const std::string& message) {
  return {ErrorCode::kInvalidArgument, message, "bad_field"};
}

Result<std::unique_ptr<Metric>> metric_from_json(const Json& json, const std::string& where,
                                                 const PredictionForm& form) {
  if (!json.is_string() && !json.is_object()) {
    return bad_field(where + ": " + describe(json) +
                     " found, the name of a metric or an object with its \"type\" is wanted");
  }
  const Json named = json.is_string() ? Json{{"type", json}} : json;
  JsonObject object(named, where);
  std::vector<std::string> known;
  for (const metrics::MetricKind& kind : metrics::builtin_metrics()) known.emplace_back(kind.name);
  const std::string type = object.choice("type", known);
  if (!object.ok()) return object.finish().error();
  for (const metrics::MetricKind& kind : metrics::builtin_metrics()) {
    if (kind.name != type) continue;
    Result<std::unique_ptr<Metric>> metric = kind.create(object, form);
    MUSTER_TRY_STATUS(object.finish());
    if (!metric) {
      return with_context(std::move(metric).error(), where + ": the metric " + type);
    }
    return metric;
  }
  return Error{ErrorCode::kInternal, where + ": no metric of type " + type};
}

}  // namespace

Json MetricSet::to_json() const {
  Json json = Json::array();
  for (const auto& metric : metrics_) json.push_back(metric->to_json());
  return json;
}

void MetricSet::add(std::span<const float> prediction, const TargetView& target) {
  for (const auto& metric : metrics_) metric->add(prediction, target);
}

Status MetricSet::merge(const MetricSet& other) {
  const bool same =
      std::equal(metrics_.begin(), metrics_.end(), other.metrics_.begin(), other.metrics_.end(),
                 [](const auto& one, const auto& another) {
                   return one->name() == another->name() && one->form() == another->form();
                 });
  if (!same) {
    return Error{ErrorCode::kInvalidArgument, "merge metrics " + to_json().dump() +
                                                  ": the others are " + other.to_json().dump() +
                                                  ", or of a model with other predictions"};
  }
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    MUSTER_TRY_STATUS(metrics_[i]->merge(*other.metrics_[i]));
  }
  return {};
}

MetricSet MetricSet::fresh() const {
  MetricSet set;
  for (const auto& metric : metrics_) set.metrics_.push_back(metric->fresh());
  return set;
}

std::int64_t MetricSet::bytes_per_example() const {
  std::int64_t bytes = 0;
  for (const auto& metric : metrics_) bytes += metric->bytes_per_example();
  return bytes;
}

Metrics MetricSet::values() const {
  Metrics values;
  for (const auto& metric : metrics_) {
    if (const std::optional<double> value = metric->value()) values[metric->name()] = *value;
  }
  return values;
}

Status MetricSet::check_fits(const Loss& loss) const {
  const PredictionForm form = prediction_form(loss);
  for (const auto& metric : metrics_) {
    if (metric->form() == form) continue;
    return Error{ErrorCode::kInvalidArgument,
                 "the metric " + metric->name() +
                     " was made for another model's predictions than " + std::string(loss.type()) +
                     " gets",
                 "metric_unfit"};
  }
  return {};
}

Result<MetricSet> metrics_from_json(const Json& json, const std::string& where, const Loss& loss) {
  constexpr std::size_t kMost = 32;
  if (!json.is_array() || json.size() > kMost) {
    return bad_field(where + ": " + describe(json) + " found, a list of at most " +
                     std::to_string(kMost) + " metrics is wanted");
  }
  const PredictionForm form = prediction_form(loss);
  MetricSet set;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string path = where + "[" + std::to_string(i) + "]";
    MUSTER_TRY(std::unique_ptr<Metric> metric, metric_from_json(json[i], path, form));
    for (const auto& other : set.metrics_) {
      if (other->name() == metric->name()) {
        return bad_field(path + ": the metric " + metric->name() + " is in the list already");
      }
    }
    set.metrics_.push_back(std::move(metric));
  }
  return set;
}

Result<MetricSet> metrics_from_json(const Json& json, const std::string& where,
                                    const Graph& graph) {
  return metrics_from_json(json, where, graph.loss());
}

MetricSet default_metrics(const Loss& loss) {
  const Json names = Json::array({loss.task() == Loss::Task::kValues ? "rmse" : "accuracy"});
  Result<MetricSet> set = metrics_from_json(names, "default metrics", loss);
  if (!set) invariant_broken(set.error().message);
  return *std::move(set);
}

}  // namespace muster
