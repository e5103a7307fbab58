#include "core/train/schedule.h"

#include <cmath>

#include "core/base/exact_math.h"

namespace muster {
namespace {

constexpr std::int64_t kMostSteps = 1'000'000'000'000;

double rate(const ConstantSchedule& /*shape*/, double lr, std::int64_t /*step*/,
            std::int64_t /*steps*/) {
  return lr;
}

double rate(const StepSchedule& shape, double lr, std::int64_t step, std::int64_t /*steps*/) {
  return lr * integer_power(shape.gamma, step / shape.step_size);
}

// `steps` is the length of the period.
double rate(const CosineSchedule& shape, double lr, std::int64_t step, std::int64_t steps) {
  if (step >= steps) return shape.min_lr;
  const double turned = static_cast<double>(step) / static_cast<double>(steps);
  return shape.min_lr + (lr - shape.min_lr) / 2 * (1 + exact_cos_of_turns(turned / 2));
}

std::string type_of(const ScheduleSettings& settings) {
  if (std::holds_alternative<StepSchedule>(settings.shape)) return "step";
  return std::holds_alternative<CosineSchedule>(settings.shape) ? "cosine" : "constant";
}

}  // namespace

double learning_rate(const ScheduleSettings& settings, double lr, std::int64_t step,
                     std::int64_t fit_steps) {
  const std::int64_t warmup = settings.warmup_steps;
  if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  std::int64_t steps = fit_steps;
  if (const auto* cosine = std::get_if<CosineSchedule>(&settings.shape)) {
    if (cosine->total_steps > 0) steps = cosine->total_steps;
  }
  return std::visit(
      [&](const auto& shape) { return rate(shape, lr, step - warmup, steps - warmup); },
      settings.shape);
}

Result<ScheduleSettings> schedule_settings_from_json(const Json& json, const std::string& where) {
  JsonObject object(json, where);
  ScheduleSettings settings;
  std::string type = "constant";
  if (object.find("type") != nullptr) type = object.choice("type", {"constant", "cosine", "step"});
  settings.warmup_steps = object.integer("warmup_steps", settings.warmup_steps, {0, kMostSteps});
  if (type == "step") {
    StepSchedule step;
    step.step_size = object.integer("step_size", {1, kMostSteps});
    step.gamma = object.number("gamma", step.gamma, {0.0, 1.0});
    settings.shape = step;
  } else if (type == "cosine") {
    CosineSchedule cosine;
    cosine.total_steps = object.integer("total_steps", cosine.total_steps, {0, kMostSteps});
    cosine.min_lr = object.number("min_lr", cosine.min_lr, {0.0, 1e6});
    if (cosine.total_steps > 0 && cosine.total_steps <= settings.warmup_steps) {
      object.fail("total_steps", std::to_string(cosine.total_steps) +
                                     " found, more than the warmup_steps, " +
                                     std::to_string(settings.warmup_steps) + ", is wanted");
    }
    settings.shape = cosine;
  }
  MUSTER_TRY_STATUS(object.finish());
  return settings;
}

Json to_json(const ScheduleSettings& settings) {
  Json json{{"type", type_of(settings)}, {"warmup_steps", settings.warmup_steps}};
  if (const auto* step = std::get_if<StepSchedule>(&settings.shape)) {
    json["step_size"] = step->step_size;
    json["gamma"] = step->gamma;
  } else if (const auto* cosine = std::get_if<CosineSchedule>(&settings.shape)) {
    json["total_steps"] = cosine->total_steps;
    json["min_lr"] = cosine->min_lr;
  }
  return json;
}

}  // namespace muster
