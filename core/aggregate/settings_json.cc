#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "core/aggregate/settings.h"
#include "core/base/invariant.h"

namespace muster {
namespace {

constexpr JsonObject::NumberRange kRates{0.0, 1e6};
constexpr JsonObject::NumberRange kShares{0.0, 1.0};
constexpr JsonObject::NumberRange kNorms{0.0, 1e30};
constexpr JsonObject::IntegerRange kFaulty{0, 1'000'000};
constexpr JsonObject::IntegerRange kCounts{1, 1'000'000};

// The ends of a JsonNumberRange belong to it; these take one out.
double over_zero(JsonObject& object, std::string_view key, double value) {
  if (object.ok() && value == 0) object.fail(key, "0 found, a number over 0 is wanted");
  return value;
}

double below(JsonObject& object, std::string_view key, double value, double bound) {
  if (object.ok() && value >= bound) {
    object.fail(key, fmt::format("{} found, a number below {} is wanted", value, bound));
  }
  return value;
}

// --- one reader and one writer a rule ---

template <typename Rule>
void read(JsonObject& /*object*/, Rule& /*rule*/) {}
template <typename Rule>
void write(const Rule& /*rule*/, Json& /*json*/) {}

void read(JsonObject& object, FedProx& rule) {
  rule.mu = object.number("mu", kRates);
}
void write(const FedProx& rule, Json& json) {
  json["mu"] = rule.mu;
}

void read(JsonObject& object, FedNova& rule) {
  if (object.find("tau_eff") == nullptr) return;
  rule.tau_eff = object.choice("tau_eff", {"a_norm", "steps"}) == "steps" ? FedNova::TauEff::kSteps
                                                                          : FedNova::TauEff::kNorm;
}
void write(const FedNova& rule, Json& json) {
  json["tau_eff"] = rule.tau_eff == FedNova::TauEff::kSteps ? "steps" : "a_norm";
}

void read(JsonObject& object, QFedAvg& rule) {
  rule.q = object.number("q", rule.q, {0.0, 100.0});
}
void write(const QFedAvg& rule, Json& json) {
  json["q"] = rule.q;
}

void read(JsonObject& object, FedAvgM& rule) {
  rule.server_lr =
      over_zero(object, "server_lr", object.number("server_lr", rule.server_lr, kRates));
  rule.momentum = below(object, "momentum", object.number("momentum", rule.momentum, kShares), 1);
  rule.nesterov = object.boolean("nesterov", rule.nesterov);
}
void write(const FedAvgM& rule, Json& json) {
  json["server_lr"] = rule.server_lr;
  json["momentum"] = rule.momentum;
  json["nesterov"] = rule.nesterov;
}

void read(JsonObject& object, FedAdaptive& rule) {
  rule.server_lr =
      over_zero(object, "server_lr", object.number("server_lr", rule.server_lr, kRates));
  rule.beta1 = below(object, "beta1", object.number("beta1", rule.beta1, kShares), 1);
  if (rule.kind != FedAdaptive::Kind::kAdagrad) {
    rule.beta2 = below(object, "beta2", object.number("beta2", rule.beta2, kShares), 1);
  }
  rule.tau = over_zero(object, "tau", object.number("tau", rule.tau, kRates));
}
void write(const FedAdaptive& rule, Json& json) {
  json["server_lr"] = rule.server_lr;
  json["beta1"] = rule.beta1;
  if (rule.kind != FedAdaptive::Kind::kAdagrad) json["beta2"] = rule.beta2;
  json["tau"] = rule.tau;
}

void read(JsonObject& object, Scaffold& rule) {
  rule.server_lr =
      over_zero(object, "server_lr", object.number("server_lr", rule.server_lr, kRates));
}
void write(const Scaffold& rule, Json& json) {
  json["server_lr"] = rule.server_lr;
}

void read(JsonObject& object, FedDyn& rule) {
  rule.alpha = over_zero(object, "alpha", object.number("alpha", kRates));
}
void write(const FedDyn& rule, Json& json) {
  json["alpha"] = rule.alpha;
}

void read(JsonObject& object, TrimmedMean& rule) {
  rule.beta = below(object, "beta", object.number("beta", kShares), 0.5);
}
void write(const TrimmedMean& rule, Json& json) {
  json["beta"] = rule.beta;
}

void read(JsonObject& object, Krum& rule) {
  rule.f = object.integer("f", kFaulty);
}
void write(const Krum& rule, Json& json) {
  json["f"] = rule.f;
}

void read(JsonObject& object, MultiKrum& rule) {
  rule.f = object.integer("f", kFaulty);
  rule.m = object.integer("m", kCounts);
}
void write(const MultiKrum& rule, Json& json) {
  json["f"] = rule.f;
  json["m"] = rule.m;
}

void read(JsonObject& object, Bulyan& rule) {
  rule.f = object.integer("f", kFaulty);
}
void write(const Bulyan& rule, Json& json) {
  json["f"] = rule.f;
}

void read(JsonObject& object, GeometricMedian& rule) {
  rule.nu = over_zero(object, "nu", object.number("nu", rule.nu, kRates));
  rule.max_iterations = object.integer("max_iterations", rule.max_iterations, {1, 10'000});
  rule.tolerance = object.number("tolerance", rule.tolerance, kShares);
}
void write(const GeometricMedian& rule, Json& json) {
  json["nu"] = rule.nu;
  json["max_iterations"] = rule.max_iterations;
  json["tolerance"] = rule.tolerance;
}

void read(JsonObject& object, NormClipping& rule) {
  rule.max_norm = over_zero(object, "max_norm", object.number("max_norm", kNorms));
}
void write(const NormClipping& rule, Json& json) {
  json["max_norm"] = rule.max_norm;
}

void read(JsonObject& object, NormFiltering& rule) {
  rule.max_norm = over_zero(object, "max_norm", object.number("max_norm", kNorms));
}
void write(const NormFiltering& rule, Json& json) {
  json["max_norm"] = rule.max_norm;
}

void read(JsonObject& object, FedBuff& rule) {
  rule.buffer_size = object.integer("buffer_size", kCounts);
  rule.server_lr =
      over_zero(object, "server_lr", object.number("server_lr", rule.server_lr, kRates));
  rule.staleness_exponent =
      object.number("staleness_exponent", rule.staleness_exponent, {0.0, 10.0});
  rule.max_staleness = object.integer("max_staleness", rule.max_staleness, {0, 1000});
}
void write(const FedBuff& rule, Json& json) {
  json["buffer_size"] = rule.buffer_size;
  json["server_lr"] = rule.server_lr;
  json["staleness_exponent"] = rule.staleness_exponent;
  json["max_staleness"] = rule.max_staleness;
}

// Every method with the rule of all defaults.
struct Method {
  std::string name;
  AggregationSettings rule;
};

std::vector<Method> methods() {
  FedAdaptive adagrad{.kind = FedAdaptive::Kind::kAdagrad};
  adagrad.beta1 = 0;
  adagrad.beta2 = 0;  // it has none
  return {{"FedAvg", FedAvg{}},
          {"UniformMean", UniformMean{}},
          {"FedProx", FedProx{}},
          {"FedNova", FedNova{}},
          {"q-FedAvg", QFedAvg{}},
          {"FedAvgM", FedAvgM{}},
          {"FedAdagrad", adagrad},
          {"FedAdam", FedAdaptive{.kind = FedAdaptive::Kind::kAdam}},
          {"FedYogi", FedAdaptive{.kind = FedAdaptive::Kind::kYogi}},
          {"SCAFFOLD", Scaffold{}},
          {"FedDyn", FedDyn{}},
          {"Median", Median{}},
          {"TrimmedMean", TrimmedMean{}},
          {"Krum", Krum{}},
          {"MultiKrum", MultiKrum{}},
          {"Bulyan", Bulyan{}},
          {"GeometricMedian", GeometricMedian{}},
          {"NormClipping", NormClipping{}},
          {"NormFiltering", NormFiltering{}},
          {"FedBuff", FedBuff{}},
          {"JsonMean", JsonMean{}}};
}

bool same_method(const AggregationSettings& a, const AggregationSettings& b) {
  if (a.index() != b.index()) return false;
  const auto* adaptive = std::get_if<FedAdaptive>(&a);
  return adaptive == nullptr || adaptive->kind == std::get<FedAdaptive>(b).kind;
}

}  // namespace

Result<AggregationSettings> aggregation_from_json(const Json& json, const std::string& where) {
  JsonObject object(json, where);
  std::vector<std::string> names;
  for (const Method& method : methods()) names.push_back(method.name);
  const std::string name = object.choice("method", names);
  // Before the fields: those of a method that this build does not have are unknown too, and not
  // the point.
  if (!object.ok()) return object.finish().error();
  AggregationSettings settings;
  for (Method& method : methods()) {
    if (method.name == name) settings = method.rule;
  }
  std::visit([&](auto& rule) { read(object, rule); }, settings);
  MUSTER_TRY_STATUS(object.finish());
  return settings;
}

Json to_json(const AggregationSettings& settings) {
  Json json{{"method", method_name(settings)}};
  std::visit([&](const auto& rule) { write(rule, json); }, settings);
  return json;
}

std::string method_name(const AggregationSettings& settings) {
  for (Method& method : methods()) {
    if (same_method(method.rule, settings)) return std::move(method.name);
  }
  invariant_broken("a rule that is not in the list of methods");
}

}  // namespace muster
