#include "tests/bench/train_cases.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "core/base/file.h"
#include "core/base/random.h"
#include "core/graph/model.h"
#include "core/tensor/safetensors.h"

namespace muster::bench {
namespace {

constexpr double kLr = 0.01;
constexpr int kClasses = 10;
constexpr int kVocabulary = 98;

// A benchmark has nobody to report to.
template <typename T>
T take(Result<T> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "train_bench: %s\n", result.error().message.c_str());
  std::exit(1);
}

Dataset images(const Shape& shape, std::int64_t examples) {
  DatasetRows rows;
  rows.shape = shape;
  const std::int64_t bytes = examples * *element_count(shape);
  Random random(1);
  rows.bytes.reserve(static_cast<std::size_t>(bytes));
  for (std::int64_t i = 0; i < bytes; ++i)
    rows.bytes.push_back(static_cast<std::uint8_t>(random.below(256)));
  for (std::int64_t i = 0; i < examples; ++i)
    rows.labels.push_back(static_cast<std::int32_t>(random.below(kClasses)));
  return take(Dataset::create(std::move(rows)));
}

Dataset grey_images(std::int64_t examples) {
  return images({28, 28}, examples);
}
Dataset colour_images(std::int64_t examples) {
  return images({3, 32, 32}, examples);
}

Dataset windows(std::int64_t examples) {
  constexpr std::int64_t kWindow = 80;
  DatasetRows rows;
  rows.shape = {kWindow};
  rows.target_size = kWindow;
  rows.window_stride = kWindow;
  rows.byte_divisor = 1;
  Random random(1);
  for (std::int64_t i = 0; i < examples * kWindow + 1; ++i)
    rows.bytes.push_back(static_cast<std::uint8_t>(random.below(kVocabulary)));
  return take(Dataset::create(std::move(rows)));
}

constexpr std::array kCases{
    TrainCase{"logistic",
              [] {
                return Json{{"preset", "logistic"}};
              },
              grey_images, 5120},
    TrainCase{"2nn",
              [] {
                return Json{{"preset", "2nn"}};
              },
              grey_images, 5120},
    TrainCase{"fedavg_cnn",
              [] {
                return Json{{"preset", "fedavg_cnn"}};
              },
              grey_images, 1280},
    TrainCase{"resnet8_gn",
              [] {
                return Json{{"preset", "resnet8_gn"}, {"input", {3, 32, 32}}};
              },
              colour_images, 1280},
    TrainCase{"char_lstm",
              [] {
                return Json{{"preset", "char_lstm"}};
              },
              windows, 1280}};

LocalSettings plain_sgd(std::int64_t batch, bool shuffle) {
  LocalSettings settings;
  settings.epochs = 1'000'000;
  settings.batch_size = batch;
  settings.shuffle = shuffle;
  settings.optimizer.lr = kLr;
  return settings;
}

Graph graph_of(const TrainCase& chosen) {
  return take(graph_from_model(take(resolve_model(chosen.model()))));
}

Status write_state_to(const std::string& file, const StateDict& state) {
  return write_file_durably(file, write_state(state));
}

// "x" and "y" of all examples.
StateDict batch_of(const Dataset& data) {
  Shape x{data.size()};
  x.insert(x.end(), data.shape().begin(), data.shape().end());
  StateDict batch(
      take(StateLayout::create({{"x", std::move(x)}, {"y", {data.size(), data.target_size()}}})));
  std::vector<std::int64_t> positions(static_cast<std::size_t>(data.size()));
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  data.copy_features(positions, batch.tensor("x"));
  data.copy_values(positions, batch.tensor("y"));
  return batch;
}

}  // namespace

std::span<const TrainCase> train_cases() {
  return kCases;
}

const TrainCase* find_train_case(std::string_view name) {
  for (const TrainCase& each : kCases) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

EndlessTraining::EndlessTraining(const TrainCase& chosen, std::int64_t batch, int threads)
    : graph_(graph_of(chosen)),
      data_(chosen.data(chosen.examples)),
      start_(graph_.initial_state(1)),
      workers_(threads),
      run_(std::make_unique<TrainingRun>(take(TrainingRun::create(
          graph_, data_, start_, plain_sgd(batch, true), 1, {.workers = &workers_})))) {}

Result<Json> write_one_step(const TrainCase& chosen, std::int64_t batch,
                            const std::string& folder) {
  const Graph graph = graph_of(chosen);
  const Dataset data = chosen.data(batch);
  const StateDict start = graph.initial_state(1);
  MUSTER_TRY(TrainingRun run, TrainingRun::create(graph, data, start, plain_sgd(batch, false), 1));
  MUSTER_TRY_STATUS(run.step());
  MUSTER_TRY_STATUS(write_state_to(folder + "/start.safetensors", start));
  MUSTER_TRY_STATUS(write_state_to(folder + "/stepped.safetensors", run.state()));
  MUSTER_TRY_STATUS(write_state_to(folder + "/batch.safetensors", batch_of(data)));
  return Json{{"model", chosen.name}, {"lr", kLr}, {"loss", run.progress().loss}};
}

}  // namespace muster::bench
