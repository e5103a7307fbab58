#include <fmt/format.h>

#include <memory>

#include "core/tensor/safetensors.h"
#include "server/cli/command.h"
#include "server/cli/model_show.h"
#include "server/cli/model_source.h"
#include "server/cli/operator_client.h"
#include "server/cli/text.h"

namespace muster::cli {
namespace {

struct ExportOptions {
  std::string job;
  std::int64_t round = 0;  // 0: the last committed one
  std::filesystem::path file;
};

Status export_model(const Command& shared, const ExportOptions& options) {
  MUSTER_TRY_STATUS(check_target(options.file));
  MUSTER_TRY(OperatorClient client, OperatorClient::open(shared.directory));
  MUSTER_TRY(const Json job, client.get("/v1/jobs/" + options.job));
  std::string state = job.at("global_state").get<std::string>();
  std::int64_t round = job.at("rounds_committed").get<std::int64_t>();
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
    round = options.round;
  }
  if (!job.at("state_bytes").is_number()) {
    return Error{ErrorCode::kDataLoss,
                 fmt::format("the server has lost the state file of {}", options.job),
                 "artefact_missing"};
  }
  MUSTER_TRY(const Digest digest, Digest::from_hex(state));
  const auto bytes = job.at("state_bytes").get<std::uint64_t>();
  MUSTER_TRY_STATUS(client.download_state(digest, bytes, options.file));
  if (shared.json) {
    print_json(Json{{"job", options.job},
                    {"round", round},
                    {"state", state},
                    {"bytes", bytes},
                    {"file", options.file.string()}});
  } else {
    print(fmt::format("wrote {}: {} after round {}, {}, SHA-256 {}\n", options.file.string(),
                      options.job, round, bytes_text(static_cast<std::int64_t>(bytes)), state));
  }
  return {};
}

struct InitModelOptions {
  std::string source;
  std::uint64_t seed = 0;
  std::filesystem::path file;
};

Status init_model(const Command& shared, const InitModelOptions& options) {
  if (is_same_file(options.file, options.source)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--output {} is the model itself, which would be lost; name another "
                             "file",
                             options.file.string()),
                 "bad_target"};
  }
  MUSTER_TRY_STATUS(check_writable(options.file));
  MUSTER_TRY(const ModelSource source, read_model(options.source));
  if (const Status fits = check_size(source.graph); !fits)
    return with_context(fits.error(), options.source);
  const StateDict state = first_state(source.graph, options.seed);
  MUSTER_TRY_STATUS(write_state_file(options.file, state));
  const std::string digest = state_digest(state).hex();
  const auto bytes = static_cast<std::int64_t>(safetensors_bytes(state.layout()));
  if (shared.json) {
    print_json(Json{{"state", digest},
                    {"parameters", state.layout().num_elements()},
                    {"bytes", bytes},
                    {"file", options.file.string()}});
  } else {
    print(fmt::format("wrote {}: {} parameters, {}, SHA-256 {}\n", options.file.string(),
                      count_text(state.layout().num_elements()), bytes_text(bytes), digest));
  }
  return {};
}

void add_export_command(CLI::App& group, Command& shared) {
  CLI::App* save =
      add_command(group, "export", "Write a job's model as safetensors, checked against its digest",
                  "muster model export fashion-mnist-1 --round 10 -o model.safetensors");
  auto options = std::make_shared<ExportOptions>();
  save->add_option("job", options->job, "The job's id")->required();
  save->add_option("--round", options->round, "A committed round (default: the last)")
      ->check(CLI::Range(1, 1'000'000));
  save->add_option("-o,--output", options->file, "File to write")->required();
  add_directory_option(*save, shared);
  add_json_flag(*save, shared);
  save->callback([&shared, options] {
    shared.run = [&shared, options] { return export_model(shared, *options); };
  });
}

void add_show_command(CLI::App& group, Command& shared) {
  CLI::App* show = add_command(
      group, "show", "Show a model's nodes with their shapes and cost, or a state's tensors",
      "muster model show fedavg_cnn --batch 10\n  muster model show model.safetensors");
  auto options = std::make_shared<ShowModelOptions>();
  show->add_option("model", options->source,
                   "Preset, file with a job, model or graph (JSON), or state (.safetensors)")
      ->required();
  show->add_option("--batch", options->batch, "Examples a step, for the memory")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  add_json_flag(*show, shared);
  show->callback([&shared, options] {
    shared.is_local = true;
    shared.run = [&shared, options] { return show_model(shared, *options); };
  });
}

void add_init_model_command(CLI::App& group, Command& shared) {
  CLI::App* init = add_command(group, "init", "Write the state that a model begins from",
                               "muster model init 2nn --seed 1 -o start.safetensors");
  auto options = std::make_shared<InitModelOptions>();
  init->add_option("model", options->source, "Preset, or file with a job, model or graph (JSON)")
      ->required();
  init->add_option("--seed", options->seed, "The job's seed, 0 to 2^53")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 53));
  init->add_option("-o,--output", options->file, "File to write")->required();
  add_json_flag(*init, shared);
  init->callback([&shared, options] {
    shared.is_local = true;
    shared.run = [&shared, options] { return init_model(shared, *options); };
  });
}

}  // namespace

void add_model_commands(CLI::App& app, Command& shared) {
  CLI::App* group = add_group(app, "model", "Models and their states",
                              "muster model export fashion-mnist-1 -o model.safetensors");
  add_export_command(*group, shared);
  add_init_model_command(*group, shared);
  add_show_command(*group, shared);
}

}  // namespace muster::cli
