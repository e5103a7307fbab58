#pragma once

#include "core/train/optimizer/optimizer.h"

// The optimisers that Muster brings. A new one is its settings in optimizer_settings.h, a file
// beside this, its declaration here and its line in registry.cc.
namespace muster::optimizers {

OptimizerKind adagrad();
OptimizerKind adam();
OptimizerKind adamw();
OptimizerKind rmsprop();
OptimizerKind sgd();

// What weight decay and rates of decay may be; a rate below 1 by what float32 can tell.
inline constexpr JsonNumberRange kDecay{0.0, 1e6};
inline constexpr JsonNumberRange kRate{0.0, 0.9999999};
// Above 0, because a weight whose gradients were all 0 would become 0 / 0.
inline constexpr JsonNumberRange kEps{1e-30, 1e6};

// The kind with one type of settings.
template <typename Settings, Settings (*read)(JsonObject&), void (*write)(const Settings&, Json&),
          typename Recipe>
OptimizerKind kind_of() {
  return {.name = Settings::kType,
          .lr = Settings::kLr,
          .read = [](JsonObject& object) -> OptimizerSettings::Rule { return read(object); },
          .write = [](const OptimizerSettings::Rule& rule,
                      Json& json) { write(std::get<Settings>(rule), json); },
          .create = [](const OptimizerSettings::Rule& rule) -> std::unique_ptr<Optimizer> {
            return std::make_unique<Recipe>(std::get<Settings>(rule));
          }};
}

}  // namespace muster::optimizers
