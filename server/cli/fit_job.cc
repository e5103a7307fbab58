#include "server/cli/fit_job.h"

#include "core/base/names.h"
#include "server/cli/model_source.h"

namespace muster::cli {
namespace {

void note_unused(JsonObject& object, const char* key, const std::string& path, FitJob& job) {
  if (object.find(key) != nullptr) job.unused += (job.unused.empty() ? "" : ", ") + path;
}

Status read_evaluation(const Json& json, FitJob& job) {
  JsonObject object(json, "job.evaluation");
  job.test_data = object.text("test_data", std::string());
  if (const Json* metrics = object.find("metrics")) job.metrics = *metrics;
  note_unused(object, "federated", "evaluation.federated", job);
  return object.finish();
}

Result<FitJob> read_job(const Json& json, std::string name) {
  constexpr std::int64_t kMaxSeed = std::int64_t{1} << 53;
  FitJob job;
  JsonObject object(json, "job");
  job.name = object.text("name", std::move(name));
  if (const Status named = check_name("job name", job.name); object.ok() && !named)
    object.fail("name", named.error().message);
  job.model = object.value("model");
  job.data = object.text("data", std::string());
  const Json* local = object.find("local");
  const Json* evaluation = object.find("evaluation");
  job.seed = static_cast<std::uint64_t>(object.integer("seed", 0, {0, kMaxSeed}));
  note_unused(object, "strategy", "strategy", job);
  note_unused(object, "round", "round", job);
  MUSTER_TRY_STATUS(object.finish());
  if (evaluation != nullptr) MUSTER_TRY_STATUS(read_evaluation(*evaluation, job));
  if (local == nullptr) return job;
  if (local->is_object() && local->contains("mu")) {
    return Error{ErrorCode::kInvalidArgument,
                 "job.local.mu: belongs to a federated job's strategy; local training has no "
                 "proximal term"};
  }
  MUSTER_TRY(job.local, local_settings_from_json(*local, "job.local"));
  return job;
}

}  // namespace

Result<FitJob> read_fit_job(const std::filesystem::path& file) {
  MUSTER_TRY(const Json json, read_json_file(file, "bad_job"));
  Result<FitJob> job = read_job(json, file.stem().string());
  if (job) return job;
  Error error = with_context(std::move(job).error(), file.string());
  error.reason = "bad_job";
  return error;
}

}  // namespace muster::cli
