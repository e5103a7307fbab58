#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "core/graph/model.h"
#include "core/train/data/data_spec.h"
#include "core/train/evaluate.h"
#include "core/train/graph_trainer.h"

// On the files of Debian's dataset-fashion-mnist, which scripts/install_packages.sh brings.
namespace muster {
namespace {

TEST(FashionMnist, OneEpochOf2nnOnATenthGivesOver70PercentOnAverage) {
  const std::string folder = "/usr/share/datasets/fashion-mnist/";
  auto data = load_data("idx:" + folder + "train-images-idx3-ubyte.gz," + folder +
                        "train-labels-idx1-ubyte.gz;shard=0/10;seed=1;holdout=0");
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->train.size(), 6000);
  const auto test = load_data("idx:" + folder + "t10k-images-idx3-ubyte.gz," + folder +
                              "t10k-labels-idx1-ubyte.gz;holdout=0");
  ASSERT_TRUE(test) << test.error().message;
  EXPECT_EQ(test->train.size(), 10'000);

  FitTask task;
  task.model = *resolve_model({{"preset", "2nn"}});
  task.local.batch_size = 10;
  task.local.optimizer.lr = 0.05;
  const Graph graph = *graph_from_model(task.model);
  GraphTrainer trainer(*std::move(data));
  // After one epoch the accuracy still depends on which batches came last.
  double sum = 0;
  for (task.seed = 1; task.seed <= 4; ++task.seed) {
    const auto fit = trainer.fit(graph.initial_state(1), task, {}, {});
    ASSERT_TRUE(fit) << fit.error().message;
    EXPECT_EQ(fit->steps, 600);
    const auto result = evaluate(graph, fit->state, test->train);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->examples, 10'000);
    sum += result->metrics.at("accuracy");
  }
  EXPECT_GT(sum / 4, 0.70);
}

}  // namespace
}  // namespace muster
