#include "server/cli/fit_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/graph/graph_run.h"
#include "core/train/data/data_spec.h"
#include "server/cli/model_source.h"
#include "server/cli/text.h"

namespace muster::cli {
namespace {

// What would be lost when a file is written over.
struct NamedFile {
  std::string what;  // "the job"
  std::filesystem::path path;
};

// Errors: kInvalidArgument, reason "bad_target", when `target` is one of `others`.
Status check_keeps(const NamedFile& target, const std::vector<NamedFile>& others) {
  for (const NamedFile& other : others) {
    if (other.path.empty() || !is_same_file(target.path, other.path)) continue;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} {} would replace {}; name another file", target.what,
                             target.path.string(), other.what),
                 "bad_target"};
  }
  return {};
}

}  // namespace

Status check_fit_targets(const FitOptions& options, const FitInputs& inputs,
                         const std::filesystem::path& out) {
  std::vector<NamedFile> read{{"the job", options.job}, {"the state of --init", options.init}};
  const auto add = [&](const char* what, const std::string& spec) {
    // Both were parsed before.
    const Result<DataSpec> parsed = parse_data_spec(spec);
    if (!parsed) return;
    for (const std::string& file : parsed->files()) read.push_back({what, file});
  };
  add("a file of the training data", inputs.job.data);
  add("a file of the test data", inputs.job.test_data);
  if (!options.checkpoint.empty())
    MUSTER_TRY_STATUS(check_keeps({"--checkpoint", options.checkpoint}, read));
  read.push_back({"the checkpoint", options.checkpoint});
  return check_keeps({"--out", out}, read);
}

Status check_fit_memory(const FitInputs& inputs, Workers& workers) {
  const std::int64_t batch = std::min(inputs.job.local.micro_batch(), inputs.data.train.size());
  GraphRunOptions run{.max_batch = batch, .workers = &workers};
  MUSTER_TRY(const std::uint64_t bytes, GraphRun::measure(inputs.graph, run));
  if (bytes <= run.limit_bytes) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format(
          "{}: a model of {} parameters takes {} of work space to compute {} examples at once, "
          "the limit is {}: make local.batch_size smaller, or local.accumulate larger, "
          "which trains on the same batches in smaller parts",
          inputs.job.name, count_text(inputs.graph.layout()->num_elements()),
          bytes_text(static_cast<std::int64_t>(bytes)), count_text(batch),
          bytes_text(static_cast<std::int64_t>(run.limit_bytes))),
      "workspace"};
}

}  // namespace muster::cli
