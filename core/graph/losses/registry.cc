#include "core/graph/losses/registry.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

namespace muster {

std::span<const LossKind> builtin_losses() {
  static constexpr std::array kTable{
      LossKind{"bce_with_logits", losses::create_bce_with_logits},
      LossKind{"huber", losses::create_huber},
      LossKind{"mae", losses::create_mae},
      LossKind{"mse", losses::create_mse},
      LossKind{"softmax_cross_entropy", losses::create_softmax_cross_entropy},
  };
  return kTable;
}

Result<std::unique_ptr<Loss>> loss_from_json(const Json& json, const std::string& where,
                                             const Shape& prediction) {
  JsonObject object(json, where);
  std::vector<std::string> known;
  for (const LossKind& kind : builtin_losses()) known.emplace_back(kind.name);
  const std::string type = object.choice("type", known);
  if (!object.ok()) return object.finish().error();
  for (const LossKind& kind : builtin_losses()) {
    if (kind.name != type) continue;
    Result<std::unique_ptr<Loss>> loss = kind.create(object, prediction);
    MUSTER_TRY_STATUS(object.finish());
    if (!loss) return with_context(std::move(loss).error(), where);
    return loss;
  }
  return Error{ErrorCode::kInternal, where + ": no loss of type " + type};
}

namespace losses {

Loss::Reduction read_reduction(JsonObject& attributes) {
  const std::string text = attributes.text("reduction", "mean");
  if (text != "mean" && text != "sum") {
    attributes.fail("reduction", "found \"" + text + "\", known are mean, sum");
  }
  return text == "sum" ? Loss::Reduction::kSum : Loss::Reduction::kMean;
}

std::string_view to_string(Loss::Reduction reduction) {
  return reduction == Loss::Reduction::kSum ? "sum" : "mean";
}

std::vector<double> read_weights(JsonObject& attributes, std::string_view key, std::int64_t count) {
  const Json* json = attributes.find(key);
  if (json == nullptr) return {};
  const std::string wanted =
      "wanted a list of " + std::to_string(count) + " numbers from 0 to 3.4e38, not all of them 0";
  if (!json->is_array() || json->size() != static_cast<std::size_t>(count)) {
    attributes.fail(key, "found " + describe(*json) + ", " + wanted);
    return {};
  }
  std::vector<double> weights;
  for (const Json& each : *json) {
    const double weight = each.is_number() ? each.get<double>() : -1.0;
    if (!(weight >= 0 && weight <= std::numeric_limits<float>::max())) {
      attributes.fail(key, "found " + describe(each) + ", " + wanted);
      return {};
    }
    weights.push_back(weight);
  }
  if (std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 0; })) {
    attributes.fail(key, "found " + describe(*json) + ", " + wanted);
    return {};
  }
  return weights;
}

}  // namespace losses
}  // namespace muster
