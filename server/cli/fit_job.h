#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/train/settings.h"

namespace muster::cli {

// A job as `muster fit` reads it: the fields of core/strategy/job.h that local training has a use
// for, and "data".
//   {"name": "fashion",                     default: the file's name without its ending
//    "model": {...},                        required
//    "data": "idx:...",                     a data spec; --data wins
//    "local": {...},                        core/train/settings.h
//    "evaluation": {"test_data": "idx:...", --test wins
//                   "metrics": ["accuracy", {"type": "top_k", "k": 3}]},  default: the loss's own
//    "seed": 1}
// So that one file serves both kinds of training, "strategy", "round" and "evaluation.federated"
// may be there; they have no effect. But for "data" and "metrics" the job is held to what a server
// takes (job_from_json), those fields and the limits of name and model included: what was tried
// here can be submitted once it has a strategy.
struct FitJob {
  std::string name;
  Json model;  // as written
  std::string data;
  LocalSettings local;
  std::string test_data;
  Json metrics;  // null: default_metrics
  std::uint64_t seed = 0;
  std::string unused;  // the fields that were there and have no effect: "strategy, round"
};

// Errors: kInvalidArgument, reason "bad_job"; the message names file and field.
Result<FitJob> read_fit_job(const std::filesystem::path& file);

}  // namespace muster::cli
