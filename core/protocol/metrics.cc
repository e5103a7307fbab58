#include "core/protocol/metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/names.h"

namespace muster::protocol {
namespace {

constexpr std::size_t kMaxMetrics = 64;

Error bad_field(const std::string& where, std::string_view what) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}: {}", where, what), "bad_field"};
}

bool is_usable(const std::string& name, double value) {
  if (!std::isfinite(value)) return false;
  return name != "accuracy" || (value >= 0 && value <= 1);
}

}  // namespace

Result<ReceivedMetrics> metrics_from_json(const Json& json, const std::string& where) {
  if (!json.is_object()) {
    return bad_field(where, fmt::format("{} found, an object is wanted", describe(json)));
  }
  if (json.size() > kMaxMetrics) {
    return bad_field(where,
                     fmt::format("{} metrics, at most {} are taken", json.size(), kMaxMetrics));
  }
  ReceivedMetrics metrics;
  for (const auto& [name, value] : json.items()) {
    if (!is_name(name)) {
      return bad_field(where, fmt::format("\"{}\" is not a metric's name (1 to 64 of letters, "
                                          "digits, '.', '_', '-')",
                                          printable(name)));
    }
    if (!value.is_number() && !value.is_null()) {
      return bad_field(where + "." + name,
                       fmt::format("{} found, a number is wanted", describe(value)));
    }
    if (value.is_number() && is_usable(name, value.get<double>())) {
      metrics.kept.emplace(name, value.get<double>());
    } else {
      metrics.dropped.push_back(name);
    }
  }
  return metrics;
}

Json to_json(const Metrics& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) {
    if (std::isfinite(value)) json[name] = value;
  }
  return json;
}

}  // namespace muster::protocol
