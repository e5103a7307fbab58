#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "core/base/random.h"
#include "core/graph/model.h"
#include "core/train/training_run.h"

// What a training step takes from the heap. Every form of operator new of this program counts what
// is asked for while `counting` is on, from any thread.
namespace {

std::atomic<bool> counting{false};
std::atomic<std::int64_t> allocations{0};

void* counted(std::size_t size, std::size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) ++allocations;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  return alignment <= alignof(std::max_align_t) ? std::malloc(size == 0 ? 1 : size)
                                                : std::aligned_alloc(alignment, rounded);
}

void* counted_or_throw(std::size_t size, std::size_t alignment) {
  void* memory = counted(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) {
  return counted_or_throw(size, 1);
}
void* operator new[](std::size_t size) {
  return counted_or_throw(size, 1);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size, 1);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size, 1);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace muster {
namespace {

Dataset examples_for(const Graph& graph, std::int64_t count) {
  DatasetRows rows;
  rows.shape = graph.input_shape();
  rows.target_size = graph.loss().targets_per_example();
  Random random(1);
  for (std::int64_t i = 0; i < count * graph.input_size(); ++i) {
    // Whole numbers, so that they are ids for an embedding too.
    rows.floats.push_back(static_cast<float>(random.below(8)));
  }
  for (std::int64_t i = 0; i < count * rows.target_size; ++i) {
    rows.labels.push_back(static_cast<std::int32_t>(
        random.below(static_cast<std::uint64_t>(graph.loss().num_classes()))));
  }
  return *Dataset::create(std::move(rows));
}

Graph graph_of(const Json& model) {
  const Result<Json> resolved = resolve_model(model);
  EXPECT_TRUE(resolved) << resolved.error().message;
  return *graph_from_model(*resolved);
}

struct Case {
  std::string name;
  Json model;
  Json local;
};

class Allocation : public testing::TestWithParam<std::tuple<Case, int>> {};

TEST_P(Allocation, NoStepAfterTheFirstTakesMemory) {
  const auto& [test, threads] = GetParam();
  const Graph graph = graph_of(test.model);
  const Dataset data = examples_for(graph, 12);
  const StateDict start = graph.initial_state(1);
  Result<LocalSettings> settings = local_settings_from_json(test.local, "local");
  ASSERT_TRUE(settings) << settings.error().message;
  settings->mu = 0.01;
  Workers workers(threads);
  const StateDict offset(start.layout_ptr());
  auto run = TrainingRun::create(graph, data, start, *settings, 1,
                                 {.workers = &workers, .gradient_offset = &offset});
  ASSERT_TRUE(run) << run.error().message;
  ASSERT_TRUE(run->step());

  allocations = 0;
  counting = true;
  bool went_well = true;
  // Past the end of an epoch: 12 examples are three batches of 4.
  for (int step = 0; step < 5; ++step) went_well = went_well && run->step().has_value();
  counting = false;
  EXPECT_TRUE(went_well);
  EXPECT_EQ(allocations, 0);
}

const Json kAdam{{"type", "adam"}, {"lr", 0.001}};
const std::vector<Case> kCases{
    {"logistic", {{"preset", "logistic"}}, {{"batch_size", 4}, {"epochs", 3}}},
    {"two_nn",
     {{"preset", "2nn"}},
     {{"batch_size", 4},
      {"epochs", 3},
      {"optimizer", {{"type", "sgd"}, {"lr", 0.01}, {"momentum", 0.9}}}}},
    {"fedavg_cnn",
     {{"preset", "fedavg_cnn"}},
     {{"batch_size", 4}, {"epochs", 3}, {"clip_norm", 1.0}}},
    {"resnet8_gn",
     {{"preset", "resnet8_gn"}},
     {{"batch_size", 4}, {"epochs", 3}, {"accumulate", 2}, {"optimizer", kAdam}}},
    {"char_lstm",
     {{"preset", "char_lstm"}, {"window", 6}},
     {{"batch_size", 4},
      {"epochs", 3},
      {"optimizer", kAdam},
      {"schedule", {{"type", "cosine"}, {"warmup_steps", 2}}}}},
};
INSTANTIATE_TEST_SUITE_P(Models, Allocation,
                         testing::Combine(testing::ValuesIn(kCases), testing::Values(1, 2)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "_threads" +
                                  std::to_string(std::get<1>(test.param));
                         });

// The most memory that this process has had, in bytes.
std::int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{1024} * usage.ru_maxrss;
}

// In a process of its own, as the peak of this one belongs to every test before.
TEST(AllocationDeathTest, TrainingFedavgCnnStaysUnderFourTimesItsParametersAnd16MB) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const Graph graph = graph_of({{"preset", "fedavg_cnn"}});
        const Dataset data = examples_for(graph, 20);
        const StateDict start = graph.initial_state(1);
        LocalSettings settings;
        settings.batch_size = 10;
        auto run = TrainingRun::create(graph, data, start, settings, 1);
        bool went_well = run.has_value();
        while (went_well && !run->done()) went_well = run->step().has_value();
        const std::int64_t limit = 4 * graph.layout()->num_elements() * 4 + 16'000'000;
        std::fprintf(stderr, "peak %lld of %lld bytes\n", static_cast<long long>(peak_bytes()),
                     static_cast<long long>(limit));
        std::exit(went_well && peak_bytes() < limit ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace muster
