#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/base/workers.h"
#include "core/graph/model.h"
#include "core/train/training_run.h"

namespace muster {
namespace {

struct Sharing {
  const char* preset;
  std::int64_t batch;
};

std::ostream& operator<<(std::ostream& out, const Sharing& sharing) {
  return out << sharing.preset << " at batch " << sharing.batch;
}

class Shared : public testing::TestWithParam<Sharing> {
 protected:
  Shared()
      : graph_(*graph_from_model(*resolve_model({{"preset", GetParam().preset}}))),
        start_(graph_.initial_state(1)) {
    Random random(3);
    DatasetRows rows;
    rows.shape = {28, 28};
    // The last batch is one short.
    for (std::int64_t i = 0; i < 3 * GetParam().batch - 1; ++i) {
      rows.labels.push_back(static_cast<std::int32_t>(random.below(10)));
    }
    rows.bytes.resize(rows.labels.size() * 28 * 28);
    for (auto& byte : rows.bytes) byte = static_cast<std::uint8_t>(random.below(256));
    data_ = *Dataset::create(std::move(rows));
  }

  // The state after each of three steps with this many workers.
  std::vector<StateDict> states_with(int count) const {
    Workers workers(count);
    const auto settings = local_settings_from_json(
        {{"batch_size", GetParam().batch}, {"optimizer", {{"lr", 0.05}, {"momentum", 0.9}}}},
        "local");
    EXPECT_TRUE(settings) << settings.error().message;
    auto run = TrainingRun::create(graph_, data_, start_, *settings, 7, {.workers = &workers});
    EXPECT_TRUE(run) << run.error().message;
    std::vector<StateDict> states;
    while (run && !run->done()) {
      const Status status = run->step();
      EXPECT_TRUE(status) << status.error().message;
      if (!status) break;
      states.push_back(run->state().clone());
    }
    return states;
  }

  Graph graph_;
  StateDict start_;
  Dataset data_;
};

// Some product of the step is large enough to be shared out: a dense layer over the threshold of
// core/graph/op_support/products.cc (kWorthSharing, 500,000 multiply-adds; fedavg_cnn's fc1 has 102
// million, 2nn's fc1 ten million), or a convolution, which is shared out by images whatever its
// size. In a model without either, this would compare one thread with itself.
TEST_P(Shared, StepsHaveTheSameBitsWithAnyNumberOfWorkers) {
  constexpr std::int64_t kWellOverThreshold = 1'000'000;
  std::int64_t largest = 0;
  for (const GraphNode& node : graph_.nodes()) {
    const bool is_product = node.op_name == "dense" || node.op_name == "conv2d";
    if (is_product) largest = std::max(largest, node.op->multiply_adds() * GetParam().batch);
  }
  ASSERT_GE(largest, kWellOverThreshold);

  const std::vector<StateDict> alone = states_with(1);
  ASSERT_EQ(alone.size(), 3U);
  EXPECT_FALSE(alone.back() == start_);
  for (const int count : {2, 3}) {
    const std::vector<StateDict> shared = states_with(count);
    ASSERT_EQ(shared.size(), alone.size());
    for (std::size_t step = 0; step < alone.size(); ++step) {
      const auto want = std::as_bytes(alone[step].values());
      const auto found = std::as_bytes(shared[step].values());
      EXPECT_TRUE(std::ranges::equal(want, found)) << count << " workers, after step " << step + 1;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, Shared,
                         testing::Values(Sharing{"fedavg_cnn", 64}, Sharing{"2nn", 64},
                                         Sharing{"resnet8_gn", 10}),
                         [](const auto& tested) {
                           const std::string name = tested.param.preset;
                           return name == "2nn" ? "two_nn" : name;
                         });

}  // namespace
}  // namespace muster
