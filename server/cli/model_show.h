#pragma once

#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "server/cli/command.h"

namespace muster::cli {

struct ShowModelOptions {
  std::string source;  // a preset, a file with a job, model or graph, or a state (.safetensors)
  std::int64_t batch = 32;
};

// `muster model show`: prints a model's nodes with what each costs, or a state's tensors with their
// figures; with Command::json one JSON object.
Status show_model(const Command& shared, const ShowModelOptions& options);

}  // namespace muster::cli
