#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/federation.h"

// The main job at its real size: ten devices, the 2NN of McMahan et al. 2017, Fashion-MNIST
// (Debian's dataset-fashion-mnist).
namespace muster {
namespace {

using muster::testing::Federation;
using muster::testing::graph_trainer;
using muster::testing::RunningDevice;

constexpr const char* kData = "/usr/share/datasets/fashion-mnist/";

TEST(FashionMnist, FedAvgReaches84PercentAfterTenRoundsAnd86AfterTwenty) {
  constexpr int kDevices = 10;
  Federation federation;
  std::vector<std::unique_ptr<RunningDevice>> devices;
  for (int i = 0; i < kDevices; ++i) {
    const std::string name = fmt::format("device-{:02}", i);
    const std::string data = fmt::format(
        "idx:{0}train-images-idx3-ubyte.gz,{0}train-labels-idx1-ubyte.gz;shard={1}/"
        "{2};split=iid;seed=1",
        kData, i, kDevices);
    devices.push_back(std::make_unique<RunningDevice>(
        federation.enroll_device(name), federation.folder(name), graph_trainer(data)));
  }
  const std::string id = federation.submit(Json{
      {"name", "fashion-mnist"},
      {"model", {{"preset", "2nn"}}},
      {"strategy",
       {{"type", "Federated"},
        {"num_clients", kDevices},
        {"rounds", 20},
        {"aggregation", {{"method", "FedAvg"}}}}},
      {"local",
       {{"epochs", 1}, {"batch_size", 10}, {"optimizer", {{"type", "sgd"}, {"lr", 0.05}}}}},
      {"evaluation",
       {{"test_data",
         fmt::format("idx:{0}t10k-images-idx3-ubyte.gz,{0}t10k-labels-idx1-ubyte.gz", kData)}}},
      {"seed", 1}});
  EXPECT_EQ(federation.wait_for_end(id, std::chrono::seconds(240)).at("status"), "finished");
  const Json rounds = federation.get_json("/v1/jobs/" + id + "/rounds").at("rounds");
  ASSERT_EQ(rounds.size(), 20U);
  EXPECT_EQ(rounds[0].at("metrics").at("test_examples"), 10'000);
  EXPECT_GE(rounds[9].at("metrics").at("test_accuracy").get<double>(), 0.84);
  EXPECT_GE(rounds[19].at("metrics").at("test_accuracy").get<double>(), 0.86);
  // What the devices saw on their own held-out parts agrees with the server's test set.
  EXPECT_NEAR(rounds[19].at("metrics").at("eval_accuracy").get<double>(),
              rounds[19].at("metrics").at("test_accuracy").get<double>(), 0.03);
}

}  // namespace
}  // namespace muster
