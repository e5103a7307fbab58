#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "core/base/error.h"
#include "core/base/json.h"

// The learning rate over the optimiser steps of one fit, counted from 0. In federated rounds it
// begins anew in each round's fit. A fit that its time budget ends early has followed the beginning
// of the schedule of the whole fit.
namespace muster {

// Always the optimiser's "lr".
struct ConstantSchedule {};

// lr * gamma^floor(s / step_size) after s steps, as torch.optim.lr_scheduler.StepLR.
struct StepSchedule {
  std::int64_t step_size = 1000;  // in optimiser steps
  double gamma = 0.1;
};

// Half a cosine from lr down to min_lr: min_lr + (lr - min_lr) / 2 * (1 + cos(pi * s / total))
// after s steps (Loshchilov and Hutter 2017, equation 5, one period), then min_lr.
struct CosineSchedule {
  std::int64_t total_steps = 0;  // warm-up included; 0: all the steps of the fit
  double min_lr = 0;             // at most the optimiser's lr
};

// The "schedule" object of a job. "type" left out is "constant".
//   {"type": "constant", "warmup_steps": 0}
//   {"type": "step", "step_size": 1000, "gamma": 0.1, "warmup_steps": 0}     step_size is required
//   {"type": "cosine", "total_steps": 0, "min_lr": 0.0, "warmup_steps": 100}
// Warm-up rises in equal steps before any of them (Goyal et al. 2017, section 2.2): step s of the
// first `warmup_steps` has lr * (s + 1) / warmup_steps. The schedule counts its s from there.
struct ScheduleSettings {
  std::variant<ConstantSchedule, StepSchedule, CosineSchedule> shape = ConstantSchedule{};
  std::int64_t warmup_steps = 0;
};

// The rate of step `step`, 0 for the first, of a fit of `fit_steps` steps.
double learning_rate(const ScheduleSettings& settings, double lr, std::int64_t step,
                     std::int64_t fit_steps);

// Errors: kInvalidArgument naming the field, as JsonObject does.
Result<ScheduleSettings> schedule_settings_from_json(const Json& json, const std::string& where);
// Round-trips.
Json to_json(const ScheduleSettings& settings);

}  // namespace muster
