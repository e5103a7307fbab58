#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "core/graph/model.h"
#include "core/strategy/context/in_process_context.h"
#include "core/strategy/executors/fit.h"

// Two balanced stages of a model over two in-process workers: a pipeline beside Direct, which has
// one stage at work at a time.
//
//   pipeline_bench                        16 micro-batches of 256, 12 layers of 512
//   pipeline_bench --width 1024 --micro-batch 64
//
// Both train the same steps, in turn with each other; the median of the repetitions counts.
namespace muster::bench {
namespace {

struct Options {
  std::int64_t width = 512;
  std::int64_t layers = 12;  // an even number
  std::int64_t micro_batch = 256;
  std::int64_t micro_batches = 16;
  std::int64_t steps = 5;
  int repetitions = 5;
  std::string only;
};

// Layers of equal width, so that both halves cost the same.
struct Problem {
  explicit Problem(const Options& options) {
    Json nodes = Json::array();
    strategy.partitions = {{{}, "worker-0"}, {{}, "worker-1"}};
    for (std::int64_t i = 0; i < options.layers; ++i) {
      const std::string n = std::to_string(i);
      nodes.push_back({{"id", "fc" + n}, {"op", "dense"}, {"units", options.width}});
      nodes.push_back({{"id", "act" + n}, {"op", "relu"}});
      auto& ids = strategy.partitions[i < options.layers / 2 ? 0 : 1].node_ids;
      ids.insert(ids.end(), {"fc" + n, "act" + n});
    }
    task.model = {{"graph",
                   {{"input", {{"shape", {options.width}}}},
                    {"nodes", std::move(nodes)},
                    {"loss", {{"type", "softmax_cross_entropy"}}}}}};
    task.settings.batch_size = options.micro_batch * options.micro_batches;
    task.settings.epochs = options.steps;
    task.data.train = random_rows(options.width, task.settings.batch_size);
    start = std::make_unique<StateDict>(graph_from_model(task.model)->initial_state(1));
    task.start = start.get();
  }

  static Dataset random_rows(std::int64_t width, std::int64_t count) {
    Random random(1);
    DatasetRows rows;
    rows.shape = {width};
    for (std::int64_t i = 0; i < count; ++i) {
      rows.labels.push_back(static_cast<std::int32_t>(random.below(10)));
      for (std::int64_t k = 0; k < width; ++k) {
        rows.floats.push_back(static_cast<float>(random.normal()));
      }
    }
    return *Dataset::create(std::move(rows));
  }

  StrategyTask task;
  ModelParallel strategy;
  std::unique_ptr<StateDict> start;
};

struct Row {
  std::string name;
  decltype(ModelParallel::communication) how;
  std::vector<double> seconds = {};
  Json report = {};

  double median() const {
    std::vector<double> sorted = seconds;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
};

Status time_row(StrategyContext& context, Problem& problem, Row& row) {
  problem.strategy.communication = row.how;
  const auto begin = std::chrono::steady_clock::now();
  MUSTER_TRY(StrategyResult result, fit(context, problem.strategy, problem.task));
  row.seconds.push_back(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  row.report = std::move(result.report);
  return {};
}

Status run(const Options& options) {
  Problem problem(options);
  MUSTER_TRY(const std::unique_ptr<InProcessContext> context, InProcessContext::create(2));
  const auto pipeline = [&](PipelineSchedule schedule) {
    return PipelineExchange{.micro_batch_size = options.micro_batch, .schedule = schedule};
  };
  std::vector<Row> rows{
      {.name = "Direct", .how = DirectExchange{}},
      {.name = "DataStore", .how = DataStoreExchange{}},
      {.name = "GPipe", .how = pipeline(PipelineSchedule::kGPipe)},
      {.name = "1F1B", .how = pipeline(PipelineSchedule::kOneForwardOneBackward)}};
  std::erase_if(rows,
                [&](const Row& row) { return !options.only.empty() && row.name != options.only; });
  for (int i = 0; i <= options.repetitions; ++i) {
    for (Row& row : rows) {
      MUSTER_TRY_STATUS(time_row(*context, problem, row));
      if (i == 0) row.seconds.clear();  // the first warms up
    }
  }
  fmt::print(
      "{} layers of {}, {} micro-batches of {}; median of {}\n\n{:<12} {:>10} {:>10} {:>8} "
      "{:>10}\n",
      options.layers, options.width, options.micro_batches, options.micro_batch,
      options.repetitions, "", "s a step", "x first", "bubble", "of chart");
  for (const Row& row : rows) {
    fmt::print("{:<12} {:>10.4f} {:>10.2f} {:>8} {:>10}\n", row.name,
               row.median() / static_cast<double>(options.steps), rows[0].median() / row.median(),
               row.report.contains("measured_bubble")
                   ? fmt::format("{:.3f}", row.report.at("measured_bubble").get<double>())
                   : "",
               row.report.contains("bubble_fraction")
                   ? fmt::format("{:.3f}", row.report.at("bubble_fraction").get<double>())
                   : "");
  }
  return {};
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::Options options;
  CLI::App app("Two balanced pipeline stages beside Direct");
  app.add_option("--width", options.width, "Units of every layer")->check(CLI::Range(10, 10'000));
  app.add_option("--layers", options.layers, "Layers, half of them a stage")
      ->check(CLI::Range(2, 100));
  app.add_option("--micro-batch", options.micro_batch, "Examples")->check(CLI::Range(1, 10'000));
  app.add_option("--micro-batches", options.micro_batches, "In a batch")
      ->check(CLI::Range(1, 1'000));
  app.add_option("--steps", options.steps, "Optimiser steps of a fit")->check(CLI::Range(1, 1'000));
  app.add_option("--only", options.only, "One of the ways")
      ->check(CLI::IsMember({"Direct", "DataStore", "GPipe", "1F1B"}));
  app.add_option("--repetitions", options.repetitions, "Fits of each")->check(CLI::Range(1, 1'000));
  CLI11_PARSE(app, argc, argv);
  if (const muster::Status done = muster::bench::run(options); !done) {
    fmt::print(stderr, "{}\n", done.error().message);
    return 1;
  }
  return 0;
}
