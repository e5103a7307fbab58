#include "core/graph/statistics.h"

#include <vector>

namespace muster {
namespace {

constexpr JsonObject::IntegerRange kFeatures{1, 50'000};
constexpr JsonObject::IntegerRange kClasses{0, 50'000};

Json zeros(std::int64_t count) {
  return std::vector<double>(static_cast<std::size_t>(count), 0.0);
}

// The length of a list of numbers; -1 when it is none.
std::int64_t length_of(const Json& state, const char* key) {
  const auto list = state.find(key);
  if (list == state.end() || !list->is_array()) return -1;
  for (const Json& each : *list) {
    if (!each.is_number()) return -1;
  }
  return static_cast<std::int64_t>(list->size());
}

}  // namespace

Result<Json> statistics_state(const Json& model, const std::string& where) {
  JsonObject object(model, where);
  const Json& sizes = object.value("statistics");
  MUSTER_TRY_STATUS(object.finish());
  JsonObject fields(sizes, where + ".statistics");
  StatisticsSize size;
  size.features = fields.integer("features", kFeatures);
  size.classes = fields.integer("classes", size.classes, kClasses);
  MUSTER_TRY_STATUS(fields.finish());
  return Json{{"mean", zeros(size.features)},
              {"mean_square", zeros(size.features)},
              {"label_share", zeros(size.classes)}};
}

std::optional<StatisticsSize> statistics_size(const Json& state) {
  if (!state.is_object() || state.size() != 3) return std::nullopt;
  const std::int64_t features = length_of(state, "mean");
  const std::int64_t classes = length_of(state, "label_share");
  if (features < 1 || classes < 0 || length_of(state, "mean_square") != features) {
    return std::nullopt;
  }
  return StatisticsSize{.features = features, .classes = classes};
}

}  // namespace muster
