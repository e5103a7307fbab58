#pragma once

#include <filesystem>

#include "core/base/error.h"
#include "core/base/workers.h"
#include "server/cli/fit_run.h"

// What `muster fit` looks at before it trains.
namespace muster::cli {

// That what is written replaces nothing that was read (job, data, start state), and that state and
// checkpoint are two files.
//   out  where the state goes
// Errors: kInvalidArgument, reason "bad_target", naming both.
Status check_fit_targets(const FitOptions& options, const FitInputs& inputs,
                         const std::filesystem::path& out);

// That the work space of a step is under the trainer's limit, before it is taken.
// Errors: kInvalidArgument, reason "workspace", with the model's size, the batch and the cure.
Status check_fit_memory(const FitInputs& inputs, Workers& workers);

}  // namespace muster::cli
