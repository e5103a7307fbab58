#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "server/cli/command.h"

namespace muster::cli {

struct ExportModelOptions {
  std::string job;
  std::int64_t round = 0;      // 0: the last committed one
  std::filesystem::path file;  // may be empty where the model is a JSON state
};

// `muster model export`: a job's global state after a round, checked against its digest. A graph's
// goes into a safetensors file; a JSON state becomes the JSON it is, in a file or printed, but for
// a file that ends in .safetensors.
Status export_model(const Command& shared, const ExportModelOptions& options);

}  // namespace muster::cli
