#include "server/cli/fit_job.h"

#include <utility>
#include <vector>

#include "core/graph/model.h"
#include "core/strategy/job.h"
#include "core/train/data/dataset.h"
#include "core/train/data/standardizer.h"
#include "server/cli/model_source.h"

namespace muster::cli {
namespace {

void note_unused(JsonObject& object, const char* key, const std::string& path, FitJob& job) {
  if (object.find(key) != nullptr) job.unused += (job.unused.empty() ? "" : ", ") + path;
}

Status read_evaluation(const Json& json, FitJob& job) {
  JsonObject object(json, "job.evaluation");
  job.test_data = object.text("test_data", std::string());
  if (const Json* metrics = object.find("metrics")) {
    job.metrics = *metrics;
    if (metrics->is_null()) object.fail("metrics", "null found, a list of metrics is wanted");
  }
  note_unused(object, "federated", "evaluation.federated", job);
  return object.finish();
}

// A model with standardisers as it is after they were fitted, to zeros in place of examples; one
// whose input is so large that these would take much memory, or is none, stays as it is.
Json with_some_standardizers(const Json& model) {
  constexpr std::int64_t kMostFeatures = 1 << 22;
  const Json::json_pointer place("/graph/input/shape");
  if (!model.is_object() || !model.contains(place) || !model.at(place).is_array()) return model;
  DatasetRows rows;
  std::int64_t size = 1;
  for (const Json& each : model.at(place)) {
    const std::int64_t dimension = each.is_number_integer() ? each.get<std::int64_t>() : 0;
    if (dimension < 1 || dimension > kMostFeatures / size) return model;
    size *= dimension;
    rows.shape.push_back(dimension);
  }
  rows.floats.assign(static_cast<std::size_t>(size), 0.0F);
  rows.labels = {0};
  const Result<Dataset> zeros = Dataset::create(std::move(rows));
  Result<Json> fitted = zeros ? fit_standardizers(model, *zeros) : zeros.error();
  return fitted ? *std::move(fitted) : model;
}

// Whether a server would take the job, read by the server's own reader: with what local training
// has no use for, and without what is its own. Of a job without a strategy the rest is checked.
Status check_submission(Json json, const FitJob& job) {
  constexpr std::int64_t kManyDevices = 1'000'000;
  json["name"] = job.name;
  json.erase("data");
  if (json.contains("evaluation")) json["evaluation"].erase("metrics");
  if (!json.contains("strategy"))
    json["strategy"] = {{"type", "Federated"}, {"num_clients", kManyDevices}, {"rounds", 1}};
  if (has_unfitted_standardizers(job.model)) {
    json["model"] = with_some_standardizers(job.model);
    // What is wrong with them is said where they are fitted.
    if (has_unfitted_standardizers(json["model"])) return {};
  }
  if (const Result<JobDescription> checked = job_from_json(json); !checked) return checked.error();
  return {};
}

Result<FitJob> read_job(const Json& json, std::string name) {
  constexpr std::int64_t kMaxSeed = std::int64_t{1} << 53;
  FitJob job;
  JsonObject object(json, "job");
  job.name = object.text("name", std::move(name));
  job.model = object.value("model");
  if (is_json_model(job.model)) {
    object.fail("model",
                "is a JSON state, which local training has no use for; wanted a graph or "
                "preset");
  }
  job.data = object.text("data", std::string());
  const Json* local = object.find("local");
  const Json* evaluation = object.find("evaluation");
  job.seed = static_cast<std::uint64_t>(object.integer("seed", 0, {0, kMaxSeed}));
  note_unused(object, "strategy", "strategy", job);
  note_unused(object, "round", "round", job);
  MUSTER_TRY_STATUS(object.finish());
  if (evaluation != nullptr) MUSTER_TRY_STATUS(read_evaluation(*evaluation, job));
  if (local == nullptr) {
    MUSTER_TRY_STATUS(check_submission(json, job));
    return job;
  }
  if (local->is_object() && local->contains("mu")) {
    return Error{ErrorCode::kInvalidArgument,
                 "job.local.mu: belongs to a federated job's strategy; local training has no "
                 "proximal term"};
  }
  MUSTER_TRY(job.local, local_settings_from_json(*local, "job.local"));
  MUSTER_TRY_STATUS(check_submission(json, job));
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
