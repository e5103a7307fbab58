#include "core/train/settings.h"

#include <utility>

namespace muster {
namespace {

// What holds between fields.
void check_together(const LocalSettings& settings, JsonObject& object) {
  if (settings.accumulate > settings.batch_size) {
    object.fail("accumulate", std::to_string(settings.accumulate) +
                                  " found, at most the batch_size, " +
                                  std::to_string(settings.batch_size) + ", is wanted");
  }
  const auto* cosine = std::get_if<CosineSchedule>(&settings.schedule.shape);
  if (cosine != nullptr && cosine->min_lr > settings.optimizer.lr) {
    object.fail("schedule.min_lr", describe(Json(cosine->min_lr)) +
                                       " found, at most the optimizer's lr, " +
                                       describe(Json(settings.optimizer.lr)) + ", is wanted");
  }
}

}  // namespace

Result<LocalSettings> local_settings_from_json(const Json& json, const std::string& where) {
  LocalSettings settings;
  JsonObject object(json, where);
  settings.epochs = object.integer("epochs", settings.epochs, {1, 1'000'000});
  settings.max_steps = object.integer("max_steps", settings.max_steps, {0, 1'000'000'000'000});
  settings.max_seconds = object.number("max_seconds", settings.max_seconds, {0.0, 1e9});
  settings.batch_size = object.integer("batch_size", settings.batch_size, {1, 1'000'000});
  settings.accumulate = object.integer("accumulate", settings.accumulate, {1, 1'000'000});
  settings.shuffle = object.boolean("shuffle", settings.shuffle);
  settings.clip_norm = object.number("clip_norm", settings.clip_norm, {0.0, 1e30});
  settings.mu = object.number("mu", settings.mu, {0.0, 1e6});
  const Json* optimizer = object.find("optimizer");
  const Json* schedule = object.find("schedule");
  MUSTER_TRY_STATUS(object.finish());
  if (optimizer != nullptr) {
    MUSTER_TRY(settings.optimizer, optimizer_settings_from_json(*optimizer, where + ".optimizer"));
  }
  if (schedule != nullptr) {
    MUSTER_TRY(settings.schedule, schedule_settings_from_json(*schedule, where + ".schedule"));
  }
  check_together(settings, object);
  MUSTER_TRY_STATUS(object.finish());
  return settings;
}

Json to_json(const LocalSettings& settings) {
  return {{"epochs", settings.epochs},
          {"max_steps", settings.max_steps},
          {"max_seconds", settings.max_seconds},
          {"batch_size", settings.batch_size},
          {"accumulate", settings.accumulate},
          {"shuffle", settings.shuffle},
          {"clip_norm", settings.clip_norm},
          {"mu", settings.mu},
          {"optimizer", to_json(settings.optimizer)},
          {"schedule", to_json(settings.schedule)}};
}

}  // namespace muster
