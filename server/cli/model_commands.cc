#include <fmt/format.h>

#include <memory>

#include "core/graph/model.h"
#include "core/tensor/safetensors.h"
#include "server/cli/command.h"
#include "server/cli/model_export.h"
#include "server/cli/model_show.h"
#include "server/cli/model_source.h"
#include "server/cli/text.h"

namespace muster::cli {
namespace {

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
  MUSTER_TRY(const Json model, read_model(options.source));
  MUSTER_TRY_IN(options.source, const LayoutPtr layout, layout_of_model(model));
  if (const Status fits = check_size(*layout); !fits)
    return with_context(fits.error(), options.source);
  MUSTER_TRY_IN(options.source, const StateDict state, initial_state_of(model, options.seed));
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
  CLI::App* save = add_command(
      group, "export",
      "Write a job's model as safetensors, checked against its digest; a JSON state as JSON",
      "muster model export fashion-mnist-1 --round 10 -o model.safetensors\n"
      "  muster model export statistics-1");
  auto options = std::make_shared<ExportModelOptions>();
  save->add_option("job", options->job, "The job's id")->required();
  save->add_option("--round", options->round, "A committed round (default: the last)")
      ->check(CLI::Range(1, 1'000'000));
  save->add_option("-o,--output", options->file,
                   "File to write; a JSON state is printed without, and written as it is stored to "
                   "one that ends in .safetensors");
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
