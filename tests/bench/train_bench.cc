#include <benchmark/benchmark.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include "tests/bench/train_cases.h"

// Training examples a second: batch loading, forward, backward and SGD step, through TrainingRun as
// in any training.
//
//   train_bench [options of Google Benchmark]      rows MODEL/BATCH/THREADS
//   train_bench --one_step=MODEL/BATCH/FOLDER      writes what compare_torch.py checks against
namespace muster::bench {
namespace {

void train(benchmark::State& state, const TrainCase& chosen) {
  EndlessTraining training(chosen, state.range(0), static_cast<int>(state.range(1)));
  // The first step touches the memory.
  for (int i = 0; i < 2; ++i) {
    if (const Status status = training.step(); !status)
      state.SkipWithError(status.error().message.c_str());
  }
  for (auto _ : state) {
    if (const Status status = training.step(); !status) {
      state.SkipWithError(status.error().message.c_str());
      break;
    }
  }
  // Every batch is full: the examples of each case are a multiple of all batch sizes.
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void register_all() {
  for (const TrainCase& chosen : train_cases()) {
    auto* rows =
        benchmark::RegisterBenchmark(std::string(chosen.name).c_str(),
                                     [&chosen](benchmark::State& state) { train(state, chosen); });
    rows->UseRealTime()->Unit(benchmark::kMicrosecond);
    for (const std::int64_t batch : {10, 32, 64, 256}) rows->Args({batch, 1});
    if (chosen.name == "fedavg_cnn") rows->Args({64, 2});
  }
}

// Returns the exit code.
int one_step(std::string_view what) {
  const std::size_t first = what.find('/');
  const std::size_t second = what.find('/', first + 1);
  const TrainCase* chosen = find_train_case(what.substr(0, first));
  std::int64_t batch = 0;
  if (second != std::string_view::npos)
    std::from_chars(what.data() + first + 1, what.data() + second, batch);
  if (chosen == nullptr || batch < 1) {
    std::fprintf(stderr, "train_bench: wanted --one_step=MODEL/BATCH/FOLDER\n");
    return 2;
  }
  const Result<Json> result = write_one_step(*chosen, batch, std::string(what.substr(second + 1)));
  if (!result) {
    std::fprintf(stderr, "train_bench: %s\n", result.error().message.c_str());
    return 1;
  }
  std::printf("%s\n", result->dump().c_str());
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  constexpr std::string_view kOneStep = "--one_step=";
  if (argc == 2 && std::string_view(argv[1]).starts_with(kOneStep))
    return muster::bench::one_step(std::string_view(argv[1]).substr(kOneStep.size()));
  muster::bench::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
