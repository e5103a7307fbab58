#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <span>
#include <string>

#include "core/base/digest.h"
#include "core/base/random.h"
#include "core/graph/model.h"
#include "core/graph/presets.h"
#include "core/tensor/kernels/kernels.h"
#include "core/train/training_run.h"

// Trains every preset for a few steps on generated data and prints the SHA-256 of the weights, to
// compare processors: those with fused multiply-adds print the same lines below the first
// (docs/decisions/0005-kernels.md).
namespace muster {
namespace {

Dataset examples_for(const Graph& graph, bool ids) {
  constexpr std::int64_t kExamples = 24;
  DatasetRows rows;
  rows.shape = graph.input_shape();
  rows.target_size = graph.loss().targets_per_example();
  Random random(1);
  for (std::int64_t i = 0; i < kExamples * graph.input_size(); ++i) {
    rows.floats.push_back(
        static_cast<float>(ids ? std::floor(random.uniform() * 8) : random.uniform()));
  }
  for (std::int64_t i = 0; i < kExamples * rows.target_size; ++i) {
    rows.labels.push_back(static_cast<std::int32_t>(random.below(8)));
  }
  return *Dataset::create(std::move(rows));
}

Result<std::string> trained_digest(const Graph& graph, const Dataset& data,
                                   const std::string& optimizer) {
  const StateDict start = graph.initial_state(1);
  MUSTER_TRY(
      const LocalSettings settings,
      local_settings_from_json(
          {{"batch_size", 8}, {"epochs", 2}, {"optimizer", {{"type", optimizer}, {"lr", 0.01}}}},
          "local"));
  MUSTER_TRY(TrainingRun run, TrainingRun::create(graph, data, start, settings, 1));
  while (!run.done()) MUSTER_TRY_STATUS(run.step());
  return sha256(std::as_bytes(run.state().values())).hex();
}

Status print_digests() {
  fmt::print("kernels {}\n", kernels::best().name);
  for (const Preset& preset : presets()) {
    const bool text = preset.name == "char_lstm";
    Json model{{"preset", preset.name}};
    if (text) model["window"] = 12;
    MUSTER_TRY(const Json resolved, resolve_model(model));
    MUSTER_TRY(const Graph graph, graph_from_model(resolved));
    const Dataset data = examples_for(graph, text);
    for (const char* optimizer : {"sgd", "adam"}) {
      MUSTER_TRY(const std::string digest, trained_digest(graph, data, optimizer));
      fmt::print("{:10} {:4} {}\n", preset.name, optimizer, digest);
    }
  }
  return {};
}

}  // namespace
}  // namespace muster

int main() {
  const muster::Status status = muster::print_digests();
  if (status) return 0;
  fmt::print(stderr, "{}\n", status.error().message);
  return 1;
}
