#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <system_error>

#include "core/tensor/safetensors.h"
#include "server/cli/command.h"
#include "server/cli/fit_checks.h"
#include "server/cli/fit_display.h"
#include "server/cli/fit_run.h"
#include "server/cli/interrupt.h"
#include "server/cli/model_source.h"
#include "server/cli/text.h"

namespace muster::cli {
namespace {

constexpr std::string_view kTest = "test_";

// Those of the test data without their prefix, or the others.
Metrics metrics_of(const EpochMetrics& epoch, bool test) {
  Metrics metrics;
  for (const auto& [name, value] : epoch.holdout) {
    if (name.starts_with(kTest) != test) continue;
    metrics[test ? name.substr(kTest.size()) : name] = value;
  }
  return metrics;
}

Json epoch_json(const EpochMetrics& epoch, const FitOutcome& outcome) {
  Json json{{"epoch", epoch.epoch}, {"examples", epoch.examples}, {"loss", epoch.loss}};
  if (epoch.accuracy) json["accuracy"] = *epoch.accuracy;
  if (Metrics held_out = metrics_of(epoch, false); !held_out.empty()) json["held_out"] = held_out;
  if (Metrics test = metrics_of(epoch, true); !test.empty()) json["test"] = test;
  if (const auto found = outcome.seconds.find(epoch.epoch); found != outcome.seconds.end())
    json["seconds"] = found->second;
  return json;
}

// What others need to know of a state, in its file.
std::map<std::string, std::string> metadata_of(const FitInputs& inputs, const FitResult& result) {
  constexpr std::size_t kMostModelBytes = 256 * 1024;  // so that the header stays under its limit
  const EpochMetrics& last = result.epochs.back();
  Json metrics{{"loss", last.loss}};
  if (last.accuracy) metrics["accuracy"] = *last.accuracy;
  for (const auto& [name, value] : last.holdout)
    metrics[(name.starts_with(kTest) ? "" : "held_out_") + name] = value;
  std::map<std::string, std::string> metadata{{"job", inputs.job.name},
                                              {"seed", fmt::to_string(inputs.job.seed)},
                                              {"steps", fmt::to_string(result.steps)},
                                              {"examples", fmt::to_string(result.examples)},
                                              {"epochs", fmt::to_string(last.epoch)},
                                              {"complete", result.complete ? "true" : "false"},
                                              {"metrics", metrics.dump()}};
  if (std::string model = inputs.model.dump(); model.size() <= kMostModelBytes)
    metadata["model"] = std::move(model);
  return metadata;
}

// The rows of a table: all epochs, or of very many the first, the last and some between.
std::vector<const EpochMetrics*> rows_of(const std::vector<EpochMetrics>& epochs) {
  constexpr std::size_t kMost = 50;
  std::vector<const EpochMetrics*> rows;
  const std::size_t every = (epochs.size() + kMost - 1) / kMost;
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    if (i == 0 || i + 1 == epochs.size() || (i + 1) % every == 0) rows.push_back(&epochs[i]);
  }
  return rows;
}

std::string number_text(const Metrics& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? "-" : fmt::format("{:.4f}", found->second);
}

void print_table(const FitOutcome& outcome) {
  const std::vector<EpochMetrics>& epochs = outcome.result.epochs;
  Metrics all;  // every name that some epoch has
  const bool has_accuracy = std::ranges::any_of(
      epochs, [](const EpochMetrics& each) { return each.accuracy.has_value(); });
  for (const EpochMetrics& epoch : epochs) all.insert(epoch.holdout.begin(), epoch.holdout.end());
  std::vector<std::string> header{"EPOCH", "LOSS"};
  if (has_accuracy) header.emplace_back("ACCURACY");
  const std::vector<MeasuredName> measured = measured_names(all);
  for (const MeasuredName& name : measured) {
    std::string title = name.title;
    std::ranges::transform(title, title.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    header.push_back(std::move(title));
  }
  header.emplace_back("TIME");
  Table table(std::move(header));
  for (const EpochMetrics* epoch : rows_of(epochs)) {
    std::vector<std::string> row{fmt::to_string(epoch->epoch), fmt::format("{:.4f}", epoch->loss)};
    if (has_accuracy)
      row.push_back(epoch->accuracy ? fmt::format("{:.4f}", *epoch->accuracy) : "-");
    for (const MeasuredName& name : measured) row.push_back(number_text(epoch->holdout, name.key));
    const auto spent = outcome.seconds.find(epoch->epoch);
    row.push_back(spent == outcome.seconds.end()
                      ? "-"
                      : duration_text(static_cast<std::int64_t>(spent->second * 1e3)));
    table.add(std::move(row));
  }
  print(table.text());
}

double rate_of(const FitOutcome& outcome) {
  return outcome.training_seconds > 0
             ? static_cast<double>(outcome.examples_trained) / outcome.training_seconds
             : 0;
}

void print_outcome(const FitInputs& inputs, const FitOutcome& outcome,
                   const std::filesystem::path& file, const std::string& digest) {
  print_table(outcome);
  print(fmt::format(
      "\n{}: {} steps on {} examples in {} ({} examples/s)\nwrote {}: {} parameters, SHA-256 {}\n",
      inputs.job.name, count_text(outcome.result.steps), count_text(outcome.result.examples),
      duration_text(static_cast<std::int64_t>(outcome.training_seconds * 1e3)),
      count_text(static_cast<std::int64_t>(rate_of(outcome))), file.string(),
      count_text(inputs.graph.layout()->num_elements()), digest));
  if (!outcome.result.complete && !outcome.interrupted)
    print("the time (local.max_seconds) was up before all steps were done\n");
}

Json outcome_json(const FitInputs& inputs, const FitOutcome& outcome,
                  const std::filesystem::path& file, const std::string& digest) {
  Json epochs = Json::array();
  for (const EpochMetrics& epoch : outcome.result.epochs)
    epochs.push_back(epoch_json(epoch, outcome));
  return {{"job", inputs.job.name},
          {"complete", outcome.result.complete},
          {"interrupted", outcome.interrupted},
          {"examples", outcome.result.examples},
          {"steps", outcome.result.steps},
          {"epochs", std::move(epochs)},
          {"seconds", outcome.training_seconds},
          {"examples_per_second", rate_of(outcome)},
          {"parameters", inputs.graph.layout()->num_elements()},
          {"state", digest},
          {"file", file.string()}};
}

// One a core where a step has enough work to share out. The result does not depend on it.
int worthwhile_threads(const FitInputs& inputs) {
  constexpr std::int64_t kMultiplyAdds = 50'000'000;
  std::int64_t an_example = 0;
  for (const GraphNode& node : inputs.graph.nodes()) an_example += node.op->multiply_adds();
  const std::int64_t batch =
      std::max<std::int64_t>(1, std::min(inputs.job.local.micro_batch(), inputs.data.train.size()));
  if (an_example < kMultiplyAdds / batch) return 1;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 256U));
}

// The state could not be written; the checkpoint may have the training.
Error not_written(Error error, const FitOptions& options, const Status& kept) {
  if (!kept) {
    error.message += "; " + kept.error().message;
  } else if (!options.checkpoint.empty()) {
    error.message += fmt::format(
        "; the training is in the checkpoint: go on with --checkpoint {} "
        "--resume",
        options.checkpoint.string());
  }
  return error;
}

// How a training ended whose state is in `file`.
Status end_of(const FitOptions& options, const FitOutcome& outcome,
              const std::filesystem::path& file, const Status& kept) {
  std::string message;
  if (outcome.interrupted) message = fmt::format("stopped after {} steps; ", outcome.result.steps);
  if (!kept) {
    message += fmt::format("{} has the trained state; {}", file.string(), kept.error().message);
    return Error{kept.error().code, std::move(message), kept.error().reason};
  }
  if (!outcome.interrupted) return {};
  message += file.string() + " has the state as it was then";
  if (!options.checkpoint.empty())
    message += fmt::format("; go on with --checkpoint {} --resume", options.checkpoint.string());
  return Error{ErrorCode::kCancelled, std::move(message)};
}

Status fit(const Command& shared, const FitOptions& options) {
  const Interrupt interrupt;
  if (options.resume && options.checkpoint.empty()) {
    return Error{ErrorCode::kInvalidArgument, "--resume goes on from --checkpoint FILE; name it"};
  }
  if (!options.checkpoint.empty()) MUSTER_TRY_STATUS(check_writable(options.checkpoint));
  if (!options.out.empty()) MUSTER_TRY_STATUS(check_writable(options.out));
  MUSTER_TRY(const FitInputs inputs, read_fit_inputs(options));
  const std::filesystem::path file =
      options.out.empty() ? std::filesystem::path(inputs.job.name + ".safetensors") : options.out;
  MUSTER_TRY_STATUS(check_fit_targets(options, inputs, file));
  MUSTER_TRY_STATUS(check_writable(file));
  if (!inputs.job.unused.empty()) {
    say(fmt::format("not used here, as this trains in one process: {}\n", inputs.job.unused));
  }
  Workers workers(options.threads > 0 ? options.threads : worthwhile_threads(inputs));
  MUSTER_TRY_STATUS(check_fit_memory(inputs, workers));
  MUSTER_TRY(const FitOutcome outcome, run_fit(inputs, options, workers, interrupt.token()));
  const StateDict& state = outcome.result.state;
  // The state first: it is what the training was for. Neither has to wait for the other's success.
  const Status written = write_state_file(file, state, metadata_of(inputs, outcome.result));
  Status kept;
  if (!options.checkpoint.empty()) kept = write_checkpoint(options.checkpoint, outcome.checkpoint);
  if (!written) return not_written(written.error(), options, kept);
  const std::string digest = state_digest(state).hex();
  if (shared.json) {
    print_json(outcome_json(inputs, outcome, file, digest));
  } else {
    print_outcome(inputs, outcome, file, digest);
  }
  return end_of(options, outcome, file, kept);
}

}  // namespace

void add_fit_command(CLI::App& app, Command& shared) {
  CLI::App* command =
      add_command(app, "fit", "Train a job's model in this process, without server and devices",
                  "muster fit job.json --data 'csv:train.csv;target=label' --test "
                  "'csv:test.csv;target=label'");
  auto options = std::make_shared<FitOptions>();
  command->add_option("job", options->job, "The job (JSON): model, local, seed, data, evaluation")
      ->required();
  command->add_option("--data", options->data, "Training data (default: the job's \"data\")");
  command->add_option("--test", options->test,
                      "Test data (default: the job's evaluation.test_data)");
  command->add_option("--init", options->init, "State to begin from (default: from the seed)");
  command->add_option("-o,--out", options->out,
                      "File for the trained state (default: NAME.safetensors)");
  command
      ->add_option("--threads", options->threads,
                   "Threads (default: one a core for models that are worth it, else 1)")
      ->check(CLI::Range(1, 256));
  command->add_option("--checkpoint", options->checkpoint,
                      "Keep the whole run in this file: between epochs, at the end, on Ctrl-C");
  command->add_flag("--resume", options->resume, "Go on from the checkpoint");
  add_json_flag(*command, shared);
  command->callback([&shared, options] {
    shared.is_local = true;
    shared.run = [&shared, options] { return fit(shared, *options); };
  });
}

}  // namespace muster::cli
