#pragma once

#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/train/optimizer/optimizer_settings.h"
#include "core/train/schedule.h"

namespace muster {

// The "local" object of a job: how a device trains in one round. Every field may be left out:
//   {"epochs": 1,          passes over the local examples
//    "max_steps": 0,       optimiser steps after which training ends; 0: no limit beside the epochs
//    "max_seconds": 0,     time after which training ends and gives what it has; 0: no limit
//    "batch_size": 32,     examples an optimiser step; the last batch of an epoch may be short
//    "accumulate": 1,      micro-batches a step: see below
//    "shuffle": true,      a new order each epoch, from the task's seed
//    "clip_norm": 0,       the gradient's norm is brought down to this (clip.h); 0: no limit
//    "optimizer": {"type": "sgd", "lr": 0.05},             optimizer/optimizer_settings.h
//    "schedule": {"type": "cosine", "warmup_steps": 100}}  schedule.h
//
// With "accumulate" k a batch is computed in at most k parts of batch_size / k examples, rounded
// up, whose gradients are added before the one step. That takes the memory of a part and gives the
// gradient of the whole batch up to rounding. Only what looks at the examples of a batch together
// sees the parts: batch normalisation normalises over each, and its running statistics move with
// each.
struct LocalSettings {
  std::int64_t epochs = 1;
  std::int64_t max_steps = 0;
  double max_seconds = 0;
  std::int64_t batch_size = 32;
  std::int64_t accumulate = 1;
  bool shuffle = true;
  double clip_norm = 0;
  OptimizerSettings optimizer = {};
  ScheduleSettings schedule = {};
  // The proximal term of FedProx (Li et al. 2020, equation 2): the gradient gains mu * (w -
  // w_global), before clipping and before the optimiser. Set from the strategy, not from the job's
  // "local".
  double mu = 0;

  // Examples computed at once.
  std::int64_t micro_batch() const { return (batch_size + accumulate - 1) / accumulate; }
};

// Errors: kInvalidArgument naming the field, as JsonObject does; also for an "accumulate" over
// "batch_size" and a "schedule.min_lr" over "optimizer.lr".
Result<LocalSettings> local_settings_from_json(const Json& json, const std::string& where);
// Round-trips, mu included; every default is written out.
Json to_json(const LocalSettings& settings);

}  // namespace muster
