#include "server/cli/model_export.h"

#include <fmt/format.h>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/graph/model.h"
#include "core/tensor/safetensors.h"
#include "server/cli/model_source.h"
#include "server/cli/operator_client.h"
#include "server/cli/text.h"

namespace muster::cli {
namespace {

// A job's global state after a round, as the server names it.
struct Exported {
  std::int64_t round = 0;
  Digest state;
  std::uint64_t bytes = 0;
  Json model;  // as it was submitted
};

Result<Exported> find_state(OperatorClient& client, const ExportModelOptions& options) {
  MUSTER_TRY(const Json job, client.get("/v1/jobs/" + options.job));
  std::string state = job.at("global_state").get<std::string>();
  Exported exported;
  exported.round = job.at("rounds_committed").get<std::int64_t>();
  if (options.round > 0) {
    MUSTER_TRY(const Json row,
               client.get(fmt::format("/v1/jobs/{}/rounds/{}", options.job, options.round)));
    if (!row.at("state").is_string()) {
      return Error{ErrorCode::kFailedPrecondition,
                   fmt::format("round {} of {} is {}; only a committed round has a model",
                               options.round, options.job, row.at("phase").get<std::string>()),
                   "not_committed"};
    }
    state = row.at("state").get<std::string>();
    exported.round = options.round;
  }
  if (!job.at("state_bytes").is_number()) {
    return Error{ErrorCode::kDataLoss,
                 fmt::format("the server has lost the state file of {}", options.job),
                 "artefact_missing"};
  }
  exported.bytes = job.at("state_bytes").get<std::uint64_t>();
  MUSTER_TRY(exported.state, Digest::from_hex(state));
  exported.model = job.at("description").at("model");
  return exported;
}

Result<Json> download_json(OperatorClient& client, const Exported& exported) {
  MUSTER_TRY(const Json resolved, resolve_model(exported.model));
  MUSTER_TRY(const JsonTemplate model, json_from_model(resolved));
  MUSTER_TRY(const std::string file, client.get_state(exported.state, exported.bytes));
  MUSTER_TRY(const StateDict state, read_state(as_bytes(file), model.layout()));
  return model.unpack(state);
}

Status export_json(const Command& shared, OperatorClient& client, const Exported& exported,
                   const ExportModelOptions& options) {
  MUSTER_TRY(const Json json, download_json(client, exported));
  const std::string text = json.dump(2) + "\n";
  if (!options.file.empty()) {
    MUSTER_TRY_STATUS(write_file_durably(options.file, as_bytes(text)));
  }
  if (shared.json) {
    print_json(Json{{"job", options.job},
                    {"round", exported.round},
                    {"state", exported.state.hex()},
                    {"json", json}});
  } else if (options.file.empty()) {
    print(text);
  } else {
    print(fmt::format("wrote {}: {} after round {}\n", options.file.string(), options.job,
                      exported.round));
  }
  return {};
}

}  // namespace

Status export_model(const Command& shared, const ExportModelOptions& options) {
  if (!options.file.empty()) MUSTER_TRY_STATUS(check_target(options.file));
  MUSTER_TRY(OperatorClient client, OperatorClient::open(shared.directory));
  MUSTER_TRY(const Exported exported, find_state(client, options));
  if (is_json_model(exported.model) && options.file.extension() != ".safetensors") {
    return export_json(shared, client, exported, options);
  }
  if (options.file.empty()) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("the model of {} has to go into a file: name it with --output", options.job),
        "bad_target"};
  }
  MUSTER_TRY_STATUS(client.download_state(exported.state, exported.bytes, options.file));
  if (shared.json) {
    print_json(Json{{"job", options.job},
                    {"round", exported.round},
                    {"state", exported.state.hex()},
                    {"bytes", exported.bytes},
                    {"file", options.file.string()}});
  } else {
    print(fmt::format("wrote {}: {} after round {}, {}, SHA-256 {}\n", options.file.string(),
                      options.job, exported.round,
                      bytes_text(static_cast<std::int64_t>(exported.bytes)), exported.state.hex()));
  }
  return {};
}

}  // namespace muster::cli
