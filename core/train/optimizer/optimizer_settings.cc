#include "core/train/optimizer/optimizer_settings.h"

#include "core/base/invariant.h"
#include "core/train/optimizer/optimizer.h"

namespace muster {
namespace {

constexpr JsonNumberRange kLr{0.0, 1e6};

const OptimizerKind* find_kind(std::string_view name) {
  for (const OptimizerKind& kind : optimizer_kinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const OptimizerKind& kind : optimizer_kinds()) names.emplace_back(kind.name);
  return names;
}

}  // namespace

std::string_view OptimizerSettings::type() const {
  return std::visit([]<typename Settings>(const Settings&) { return Settings::kType; }, rule);
}

Result<OptimizerSettings> optimizer_settings_from_json(const Json& json, const std::string& where) {
  JsonObject object(json, where);
  OptimizerSettings settings;
  std::string type(SgdSettings::kType);
  if (object.find("type") != nullptr) type = object.choice("type", names());
  if (const OptimizerKind* kind = find_kind(type)) {
    settings.lr = object.number("lr", kind->lr, kLr);
    settings.rule = kind->read(object);
  }
  MUSTER_TRY_STATUS(object.finish());
  return settings;
}

Json to_json(const OptimizerSettings& settings) {
  const OptimizerKind* kind = find_kind(settings.type());
  if (kind == nullptr) invariant_broken("an optimiser that is not in the table");
  Json json{{"type", std::string(kind->name)}, {"lr", settings.lr}};
  kind->write(settings.rule, json);
  return json;
}

std::unique_ptr<Optimizer> Optimizer::create(const OptimizerSettings& settings) {
  const OptimizerKind* kind = find_kind(settings.type());
  if (kind == nullptr) invariant_broken("an optimiser that is not in the table");
  return kind->create(settings.rule);
}

}  // namespace muster
