#include "core/graph/losses/registry.h"

#include <array>
#include <vector>

namespace muster {

std::span<const LossKind> builtin_losses() {
  static constexpr std::array kTable{
      LossKind{"bce_with_logits", losses::create_bce_with_logits},
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

}  // namespace losses
}  // namespace muster
