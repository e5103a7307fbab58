#include "core/strategy/executors/model_parallel.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>

#include "tests/core/strategy/partition_support.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/vectors.h"

namespace muster {
namespace {

using strategies::Cut;
using strategies::model_parallel;
using strategies::must_fit;
using strategies::Problem;
using strategies::relative_distance;
using ::testing::ElementsAre;

using How = decltype(ModelParallel::communication);

constexpr PipelineExchange kGPipe{.micro_batch_size = 3, .schedule = PipelineSchedule::kGPipe};
constexpr PipelineExchange kOneByOne{.micro_batch_size = 3,
                                     .schedule = PipelineSchedule::kOneForwardOneBackward};

struct Case {
  std::string name;
  Cut cut;
  How how;
};

std::vector<Case> cases() {
  const std::vector<std::pair<std::string, Cut>> cuts{
      {"TwoPieces", strategies::kTwoPieces},
      {"ThreePieces", strategies::kThreePieces},
      {"TwoInterleaved", strategies::kTwoInterleaved},
      {"ThreeInterleaved", strategies::kThreeInterleaved},
      {"MiddleOnly", strategies::kMiddleOnly}};
  const std::vector<std::pair<std::string, How>> ways{
      {"Direct", DirectExchange{}},
      {"DataStore", DataStoreExchange{}},
      {"GPipe", kGPipe},
      {"OneForwardOneBackward", kOneByOne},
      {"PipelineOfOne", PipelineExchange{.micro_batch_size = 1}}};
  std::vector<Case> all;
  for (const auto& [cut_name, cut] : cuts) {
    for (const auto& [way_name, way] : ways) all.push_back({cut_name + way_name, cut, way});
  }
  return all;
}

class EveryProtocol : public ::testing::TestWithParam<Case> {};

TEST_P(EveryProtocol, GivesTheStateOfLocal) {
  for (const Json& local : {Json{{"optimizer", {{"lr", 0.1}, {"momentum", 0.9}}}},
                            Json{{"optimizer", {{"type", "adam"}, {"lr", 0.01}}}},
                            Json{{"clip_norm", 0.1}, {"mu", 0.1}}}) {
    const Problem problem(local, strategies::residual_model());
    const FitResult wanted = problem.trained();
    const auto context = strategies::workers(3);
    const StrategyResult result =
        must_fit(*context, model_parallel(GetParam().cut, GetParam().how), problem.task);
    EXPECT_LT(relative_distance(result.state, wanted.state), 1e-5) << local.dump();
    EXPECT_EQ(result.steps, wanted.steps);
    EXPECT_TRUE(result.complete);
    ASSERT_EQ(result.epochs.size(), wanted.epochs.size());
    for (std::size_t i = 0; i < wanted.epochs.size(); ++i) {
      EXPECT_EQ(result.epochs[i].examples, wanted.epochs[i].examples);
      EXPECT_NEAR(result.epochs[i].loss, wanted.epochs[i].loss, 1e-5);
      EXPECT_EQ(result.epochs[i].accuracy, wanted.epochs[i].accuracy);
    }
    EXPECT_NEAR(result.metrics.at("loss"), wanted.metrics.at("loss"), 1e-5);
  }
}

TEST_P(EveryProtocol, GivesTheSameBitsEachTime) {
  const Problem problem(Json{{"epochs", 1}}, strategies::residual_model());
  const ModelParallel strategy = model_parallel(GetParam().cut, GetParam().how);
  const auto context = strategies::workers(3);
  const StrategyResult first = must_fit(*context, strategy, problem.task);
  EXPECT_TRUE(must_fit(*context, strategy, problem.task).state == first.state);
}

INSTANTIATE_TEST_SUITE_P(Cuts, EveryProtocol, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

// Dropout too: each node draws what it draws in Local.
TEST(ModelParallelFit, DirectHasTheBitsOfLocal) {
  for (const std::int64_t accumulate : {1, 2}) {
    for (const Json& model :
         {strategies::plain_model(), training::small_model(), strategies::batch_norm_model()}) {
      const Problem problem(Json{{"accumulate", accumulate}}, model);
      const FitResult wanted = problem.trained();
      for (const How& how : {How(DirectExchange{}), How(DataStoreExchange{})}) {
        const auto context = strategies::workers(1);
        const StrategyResult result =
            must_fit(*context, model_parallel({{"act", "fc2"}}, how), problem.task);
        EXPECT_TRUE(result.state == wanted.state);
        EXPECT_EQ(result.epochs, wanted.epochs);
        EXPECT_EQ(result.metrics, wanted.metrics);
      }
    }
  }
}

TEST(ModelParallelFit, MicroBatchesDrawWhatThePartsOfABatchDraw) {
  const Problem in_parts(Json{{"accumulate", 2}}, training::small_model());
  const Problem whole(Json::object(), training::small_model());
  const auto context = strategies::workers(2);
  const StrategyResult result = must_fit(
      *context,
      model_parallel({{"fc1", "act"}, {"drop", "fc2"}}, PipelineExchange{.micro_batch_size = 5}),
      whole.task);
  EXPECT_TRUE(result.state == in_parts.trained().state);
}

// ---- The reference vectors: one plain step of rate 1 has the gradient in it ----

Json layers_of(const Json& test) {
  Json nodes = Json::array();
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i);
    const std::int64_t units = vectors::shape(test.at("params").at("W" + n))[0];
    nodes.push_back({{"id", "fc" + n}, {"op", "dense"}, {"units", units}});
    if (i < 3) nodes.push_back({{"id", "act" + n}, {"op", test.at("activation")}});
  }
  const bool mse = test.at("loss_function") == "mse";
  return {{"graph",
           {{"input", {{"shape", {vectors::shape(test.at("x"))[1]}}}},
            {"nodes", std::move(nodes)},
            {"loss", {{"type", mse ? "mse" : "softmax_cross_entropy"}}}}}};
}

Dataset examples_of(const Json& test) {
  DatasetRows rows;
  rows.shape = {vectors::shape(test.at("x"))[1]};
  rows.floats = vectors::floats(test.at("x"));
  if (test.contains("labels")) {
    rows.labels = test.at("labels").get<std::vector<std::int32_t>>();
  } else {
    rows.values = vectors::floats(test.at("target"));
    rows.target_size = vectors::shape(test.at("target"))[1];
  }
  return *Dataset::create(std::move(rows));
}

ModelParallel split_of(const Json& split, std::int64_t micro_batch, PipelineSchedule schedule) {
  Cut cut;
  for (const Json& layers : split) {
    auto& nodes = cut.emplace_back();
    for (const Json& layer : layers) {
      nodes.push_back("fc" + std::to_string(layer.get<int>()));
      if (layer != 3) nodes.push_back("act" + std::to_string(layer.get<int>()));
    }
  }
  return model_parallel(cut, PipelineExchange{micro_batch, schedule});
}

struct Reference {
  explicit Reference(const Json& test)
      : graph(*graph_from_model(*resolve_model(layers_of(test)))), start(graph.initial_state(1)) {
    for (int i = 0; i < 4; ++i) {
      const std::string n = std::to_string(i);
      std::ranges::copy(vectors::floats(test.at("params").at("W" + n)),
                        start.tensor("fc" + n + ".weight").begin());
      std::ranges::copy(vectors::floats(test.at("params").at("b" + n)),
                        start.tensor("fc" + n + ".bias").begin());
    }
    task.model = *resolve_model(layers_of(test));
    task.settings.batch_size = test.at("batch").get<std::int64_t>();
    task.settings.optimizer.lr = 1;
    task.data.train = examples_of(test);
    task.start = &start;
  }
  std::vector<double> gradient_of(const StateDict& after, const std::string& name) const {
    std::vector<double> gradient;
    for (std::size_t i = 0; i < after.tensor(name).size(); ++i) {
      gradient.push_back(static_cast<double>(start.tensor(name)[i]) -
                         static_cast<double>(after.tensor(name)[i]));
    }
    return gradient;
  }

  Graph graph;
  StateDict start;
  StrategyTask task;
};

TEST(ModelParallelFit, EverySplitAndMicroBatchHasTheReferenceGradient) {
  const Json file = vectors::load("pipeline.json");
  const auto context = strategies::workers(3);
  for (const Json& test : file.at("cases")) {
    const Reference reference(test);
    const vectors::Tolerance allowed = vectors::tolerance(file, test);
    for (const Json& split : test.at("stage_splits")) {
      for (const Json& sizes : test.at("micro_batch_sizes")) {
        for (const auto schedule :
             {PipelineSchedule::kGPipe, PipelineSchedule::kOneForwardOneBackward}) {
          SCOPED_TRACE(test.at("name").get<std::string>() + split.dump() + sizes.dump());
          const StrategyResult result = must_fit(
              *context, split_of(split, sizes[0].get<std::int64_t>(), schedule), reference.task);
          EXPECT_EQ(result.report.at("micro_batches"), sizes.size());
          const Json& expected = test.at("expected");
          EXPECT_NEAR(result.metrics.at("loss"), expected.at("loss").get<double>(), 1e-5);
          for (int i = 0; i < 4; ++i) {
            const std::string n = std::to_string(i);
            const Json& gradients = expected.at("grad_params");
            vectors::expect_close(reference.gradient_of(result.state, "fc" + n + ".weight"),
                                  vectors::doubles(gradients.at("W" + n)), allowed);
            vectors::expect_close(reference.gradient_of(result.state, "fc" + n + ".bias"),
                                  vectors::doubles(gradients.at("b" + n)), allowed);
          }
        }
      }
    }
  }
}

// ---- Every field changes what happens ----

TEST(ModelParallelFit, NodesRunWhereThePartitionsSay) {
  const Problem problem(Json::object(), strategies::residual_model());
  const auto context = *InProcessContext::create({{"alpha", {}}, {"beta", {"gpu"}}});
  const ModelParallel strategy{.partitions = {{{"fc1"}, "gpu"}, {{"fc2", "act2", "sum"}, "alpha"}}};
  const StrategyResult result = must_fit(*context, strategy, problem.task);
  const Json& stages = result.report.at("stages");
  ASSERT_EQ(stages.size(), 4U);
  EXPECT_EQ(stages[0], Json({{"place", "beta"}, {"nodes", {"fc1"}}}));
  EXPECT_EQ(stages[1], Json({{"place", "coordinator"}, {"nodes", {"act1"}}}));
  EXPECT_EQ(stages[2], Json({{"place", "alpha"}, {"nodes", {"fc2", "act2", "sum"}}}));
  EXPECT_EQ(stages[3], Json({{"place", "coordinator"}, {"nodes", {"fc3"}}}));
  EXPECT_EQ(context->read_back_state(1)->layout().tensors().size(), 2U) << "fc1's alone";
}

// 43 examples an epoch over a cut of 8 floats, twice (the residual connection is on the same side).
TEST(ModelParallelFit, CountsTheBytesBetweenPlaces) {
  const Problem problem(Json::object(), strategies::residual_model());
  const std::uint64_t rows = 3 * 43;
  for (const How& how : {How(DirectExchange{}), How(DataStoreExchange{}), How(kGPipe)}) {
    const auto context = strategies::workers(2);
    const StrategyResult result =
        must_fit(*context, model_parallel(strategies::kTwoPieces, how), problem.task);
    EXPECT_EQ(result.report.at("activation_bytes"), rows * 4 * (4 + 8 + 2));
    EXPECT_EQ(result.report.at("gradient_bytes"), rows * 4 * (8 + 2));
    EXPECT_GT(result.bytes_moved, rows * 4 * (4 + 8 + 2 + 8 + 2));
  }
}

// A store that counts, and damages what it gives when it is told to.
class CountingStore final : public ObjectStore {
 public:
  Result<Digest> put(ByteView bytes, std::int64_t takers) override {
    puts += 1;
    return inner.put(bytes, takers);
  }
  Result<Bytes> take(const Digest& digest) override {
    takes += 1;
    if (takes == fail_at) return Error{ErrorCode::kDataLoss, "the object is damaged", "damaged"};
    return inner.take(digest);
  }
  void drop(const Digest& digest, std::int64_t takers) override { inner.drop(digest, takers); }

  MemoryObjectStore inner;
  int puts = 0;
  int takes = 0;
  int fail_at = -1;
};

TEST(ModelParallelFit, OnlyWithDataStoreTensorsPassTheStore) {
  const Problem problem(Json{{"epochs", 1}}, strategies::residual_model());
  const auto context = strategies::workers(2);
  CountingStore store;
  const ModelParallel stored = model_parallel(strategies::kTwoPieces, DataStoreExchange{});
  ASSERT_TRUE(fit_model_parallel(*context, stored, problem.task, {}, &store));
  // In each of 5 steps: input, act1, fc3 and the gradients of act1 and fc3.
  EXPECT_EQ(store.puts, 25);
  EXPECT_EQ(store.takes, 25);
  EXPECT_EQ(store.inner.size(), 0U);
  ASSERT_TRUE(fit_model_parallel(*context, model_parallel(strategies::kTwoPieces), problem.task, {},
                                 &store));
  EXPECT_EQ(store.puts, 25);
}

TEST(ModelParallelFit, AStoreThatFailsEndsTheRunWithItsError) {
  const Problem problem(Json::object(), strategies::residual_model());
  const auto context = strategies::workers(2);
  CountingStore store;
  store.fail_at = 13;
  const auto result =
      fit_model_parallel(*context, model_parallel(strategies::kTwoPieces, DataStoreExchange{}),
                         problem.task, {}, &store);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kDataLoss);
}

TEST(ModelParallelFit, TheStoreMayBeAFolder) {
  const Problem problem(Json{{"epochs", 1}}, strategies::residual_model());
  const auto context = strategies::workers(2);
  const testing::TemporaryFolder folder;
  FolderObjectStore store(folder.path());
  const auto result =
      fit_model_parallel(*context, model_parallel(strategies::kTwoPieces, DataStoreExchange{}),
                         problem.task, {}, &store);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_LT(relative_distance(result->state, problem.trained().state), 1e-5);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// What worker 0 does in the run's only step.
std::string order_of(PipelineExchange pipeline) {
  const Problem problem(Json{{"epochs", 1}, {"batch_size", 12}}, strategies::residual_model(), 12);
  std::mutex mutex;
  std::string order;
  const auto context =
      strategies::workers(3, {.lose = [&](std::int64_t worker, WorkerOperation operation) {
                            const std::lock_guard lock(mutex);
                            if (worker == 0 && operation == WorkerOperation::kForward) order += "F";
                            if (worker == 0 && operation == WorkerOperation::kBackward)
                              order += "B";
                            return false;
                          }});
  must_fit(*context, model_parallel(strategies::kThreePieces, pipeline), problem.task);
  return order;
}

TEST(ModelParallelFit, APipelineKeepsTheOrderOfItsSchedule) {
  EXPECT_EQ(order_of(kGPipe), "FFFFBBBB");
  EXPECT_EQ(order_of(kOneByOne), "FFFBFBBB");
  EXPECT_EQ(order_of({.micro_batch_size = 5}), "FFFBBB");
  EXPECT_EQ(order_of({.micro_batch_size = 12}), "FB");
}

TEST(ModelParallelFit, APipelineReportsItsBubble) {
  const Problem problem(Json::object(), strategies::residual_model());
  const auto context = strategies::workers(3);
  const StrategyResult result =
      must_fit(*context, model_parallel(strategies::kThreePieces, kGPipe), problem.task);
  EXPECT_EQ(result.report.at("method"), "Pipeline");
  EXPECT_EQ(result.report.at("micro_batches"), 4);
  EXPECT_EQ(result.report.at("bubble_fraction").get<double>(), bubble_fraction(3, 4));
  EXPECT_GT(result.report.at("measured_bubble").get<double>(), 0);
  EXPECT_LT(result.report.at("measured_bubble").get<double>(), 1);
  const StrategyResult direct =
      must_fit(*context, model_parallel(strategies::kThreePieces), problem.task);
  EXPECT_EQ(direct.report.at("method"), "Direct");
  EXPECT_FALSE(direct.report.contains("measured_bubble"));
}

// Stages of a pipeline are at work at the same time: worker 0 may only go on with its second
// micro-batch when worker 1 has begun its first, and the other way round.
TEST(ModelParallelFit, StagesOfAPipelineOverlap) {
  const Problem problem(Json{{"epochs", 1}, {"batch_size", 6}}, strategies::residual_model(), 6);
  std::mutex mutex;
  std::condition_variable changed;
  int first_worker = 0;
  int second_worker = 0;
  bool met = false;
  const auto meet = [&](std::int64_t worker, WorkerOperation operation) {
    if (operation != WorkerOperation::kForward) return false;
    std::unique_lock lock(mutex);
    ++(worker == 0 ? first_worker : second_worker);
    changed.notify_all();
    if ((worker == 0 && first_worker == 2) || (worker == 1 && second_worker == 1)) {
      met = changed.wait_for(lock, std::chrono::seconds(20),
                             [&] { return first_worker >= 2 && second_worker >= 1; });
    }
    return false;
  };
  const auto context = strategies::workers(2, {.lose = meet});
  must_fit(*context, model_parallel(strategies::kTwoPieces, kGPipe), problem.task);
  EXPECT_TRUE(met);
}

TEST(ModelParallelFit, TellsItsProgressAndEndsWhenTheTimeIsUp) {
  Problem problem(Json{{"max_seconds", 10}}, strategies::residual_model());
  auto now = std::chrono::steady_clock::time_point{};
  problem.task.clock = [&] { return now; };
  const auto context = strategies::workers(2);
  std::vector<std::int64_t> seen;
  const StrategyResult result =
      must_fit(*context, model_parallel(strategies::kTwoPieces), problem.task,
               {.progress = [&](const FitProgress& progress) {
                 seen.push_back(progress.steps_done);
                 EXPECT_EQ(progress.steps_total, 15);
                 if (progress.steps_done == 3) now += std::chrono::seconds(10);
               }});
  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
  EXPECT_EQ(result.steps, 3);
  EXPECT_FALSE(result.complete);
}

}  // namespace
}  // namespace muster
