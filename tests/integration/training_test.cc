#include <gtest/gtest.h>

#include <algorithm>

#include "core/tensor/safetensors.h"
#include "storage/state_files.h"
#include "tests/support/federation.h"

// The main job: devices and server train over TLS, and the history says what happened.
namespace muster {
namespace {

using muster::testing::Federation;
using muster::testing::graph_trainer;
using muster::testing::RunningDevice;
using muster::testing::small_job;
using muster::testing::write_csv;

std::string csv_shard(const std::filesystem::path& file, int shard, int shards) {
  return "csv:" + file.string() + ";target=label;shard=" + std::to_string(shard) + "/" +
         std::to_string(shards) + ";seed=1";
}

// Runs a small job on `order.size()` devices that join in the given order; returns the digests of
// all rounds' states.
std::vector<std::string> digests_of_run(const std::vector<int>& order, const Json& job) {
  Federation federation;
  const auto file = write_csv(federation.folder(""), 300, 3);
  const int count = static_cast<int>(order.size());
  std::vector<DeviceIdentity> identities;
  for (int i = 0; i < count; ++i)
    identities.push_back(federation.enroll_device("device-" + std::to_string(i)));
  const std::string id = federation.submit(job);
  std::vector<std::unique_ptr<RunningDevice>> devices;
  for (const int i : order) {
    const std::string name = identities[static_cast<std::size_t>(i)].name;
    devices.push_back(std::make_unique<RunningDevice>(
        std::move(identities[static_cast<std::size_t>(i)]), federation.folder(name),
        graph_trainer(csv_shard(file, i, count))));
    // The next one joins only after this one is seen, so that the order of arrival is the given
    // one.
    federation.wait_until(id, [&](const Json& now) {
      const Json& live = now.at("live");
      return !live.contains("candidates") || live.at("phase") != "selecting" ||
             std::ranges::count(live.at("candidates"), Json(name)) == 1;
    });
  }
  EXPECT_EQ(federation.wait_for_end(id).at("status"), "finished");
  std::vector<std::string> digests;
  const Json rounds = federation.get_json("/v1/jobs/" + id + "/rounds").at("rounds");
  for (const Json& round : rounds) digests.push_back(round.at("state"));
  return digests;
}

TEST(Training, RunsEveryRoundAndRecordsItsMetrics) {
  Federation federation;
  const auto file = write_csv(federation.folder(""), 400, 3);
  std::vector<std::unique_ptr<RunningDevice>> devices;
  for (int i = 0; i < 4; ++i) {
    const std::string name = "device-" + std::to_string(i);
    devices.push_back(std::make_unique<RunningDevice>(federation.enroll_device(name),
                                                      federation.folder(name),
                                                      graph_trainer(csv_shard(file, i, 4))));
  }
  Json job = small_job(4, 5);
  job["evaluation"] = {{"test_data", "csv:" + file.string() + ";target=label"}};
  const std::string id = federation.submit(job);
  const Json ended = federation.wait_for_end(id);
  EXPECT_EQ(ended.at("status"), "finished") << ended.dump(2);
  EXPECT_EQ(ended.at("rounds_committed"), 5);

  const Json rounds = federation.get_json("/v1/jobs/" + id + "/rounds").at("rounds");
  ASSERT_EQ(rounds.size(), 5U);
  std::string base = ended.at("initial_state");
  for (const Json& round : rounds) {
    EXPECT_EQ(round.at("phase"), "committed");
    EXPECT_EQ(round.at("base"), base);
    base = round.at("state");
    const Json& metrics = round.at("metrics");
    EXPECT_EQ(metrics.at("updates"), 4);
    EXPECT_EQ(metrics.at("examples"), 360);
    EXPECT_EQ(metrics.at("eval_devices"), 4);
    EXPECT_EQ(metrics.at("eval_examples"), 40);
    EXPECT_EQ(metrics.at("test_examples"), 400);
    EXPECT_GT(round.at("bytes_up").get<std::int64_t>(), 4 * 15 * 4);
    EXPECT_GT(round.at("bytes_down").get<std::int64_t>(), 0);
  }
  EXPECT_EQ(base, ended.at("global_state"));
  EXPECT_LT(rounds[4].at("metrics").at("test_loss").get<double>(),
            rounds[0].at("metrics").at("test_loss").get<double>());
  EXPECT_GT(rounds[4].at("metrics").at("test_accuracy").get<double>(), 0.75);
}

TEST(Training, SameSeedGivesTheSameStatesInWhateverOrderDevicesCome) {
  const Json job = small_job(3, 3);
  const std::vector<std::string> forward = digests_of_run({0, 1, 2}, job);
  const std::vector<std::string> backward = digests_of_run({2, 1, 0}, job);
  ASSERT_EQ(forward.size(), 3U);
  EXPECT_EQ(forward, backward);

  Json other = job;
  other["seed"] = 8;
  EXPECT_NE(forward.back(), digests_of_run({0, 1, 2}, other).back());
}

TEST(Training, FedProxPullsTowardsTheGlobalState) {
  const std::vector<std::string> fedavg = digests_of_run({0, 1}, small_job(2, 2));
  const std::vector<std::string> zero =
      digests_of_run({0, 1}, small_job(2, 2, {{"method", "FedProx"}, {"mu", 0.0}}));
  const std::vector<std::string> pulled =
      digests_of_run({0, 1}, small_job(2, 2, {{"method", "FedProx"}, {"mu", 1.0}}));
  EXPECT_EQ(fedavg, zero);
  EXPECT_NE(fedavg.back(), pulled.back());
}

TEST(Training, SelectsByTheTagsOfTheEnrolmentCode) {
  Federation federation;
  const auto file = write_csv(federation.folder(""), 200, 3);
  std::vector<std::unique_ptr<RunningDevice>> devices;
  for (const auto& [name, tags] :
       std::map<std::string, std::vector<std::string>>{{"plain", {}}, {"fast", {"gpu"}}}) {
    devices.push_back(std::make_unique<RunningDevice>(federation.enroll_device(name, tags),
                                                      federation.folder(name),
                                                      graph_trainer(csv_shard(file, 0, 2))));
  }
  Json job = small_job(1, 2);
  job["strategy"]["client_selection"] = {{"method", "ByCapability"}, {"required_tags", {"gpu"}}};
  const std::string id = federation.submit(job);
  EXPECT_EQ(federation.wait_for_end(id).at("status"), "finished");
  for (int round = 1; round <= 2; ++round) {
    const Json participants =
        federation.get_json("/v1/jobs/" + id + "/rounds/" + std::to_string(round))
            .at("participants");
    ASSERT_EQ(participants.size(), 1U);
    EXPECT_EQ(participants[0].at("device"), "fast");
  }
}

TEST(Training, TwoJobsShareTheDevices) {
  Federation federation;
  const auto file = write_csv(federation.folder(""), 200, 3);
  std::vector<std::unique_ptr<RunningDevice>> devices;
  for (int i = 0; i < 2; ++i) {
    const std::string name = "device-" + std::to_string(i);
    devices.push_back(std::make_unique<RunningDevice>(federation.enroll_device(name),
                                                      federation.folder(name),
                                                      graph_trainer(csv_shard(file, i, 2))));
  }
  const std::string first = federation.submit(small_job(2, 3));
  const std::string second = federation.submit(small_job(2, 3));
  EXPECT_NE(first, second);
  EXPECT_EQ(federation.wait_for_end(first).at("status"), "finished");
  EXPECT_EQ(federation.wait_for_end(second).at("status"), "finished");
  EXPECT_EQ(federation.get_json("/v1/jobs/" + first).at("global_state"),
            federation.get_json("/v1/jobs/" + second).at("global_state"));
}

TEST(Training, AStoppedJobStaysStoppedAfterARestart) {
  Federation federation;
  const std::string id = federation.submit(small_job(2, 3));
  const Json stopped = federation.post_json("/v1/jobs/" + id + "/stop", Json::object());
  EXPECT_EQ(stopped.at("status"), "stopped");
  EXPECT_EQ(stopped.at("status_reason"), "stopped by operator");
  federation.stop_server();
  federation.start_server();
  EXPECT_EQ(federation.get_json("/v1/jobs/" + id).at("status"), "stopped");
  EXPECT_EQ(federation.operator_post("/v1/jobs/" + id + "/stop", Json::object()).error().reason,
            "job_ended");
}

TEST(Training, AJobWithoutEnoughDevicesPausesAndSaysWhatItLacks) {
  Federation federation;
  Json job = small_job(3, 1);
  job["round"] = {{"selection_window_s", 0.1}, {"max_attempts", 2}};
  const std::string id = federation.submit(job);
  const Json paused = federation.wait_for_end(id);
  EXPECT_EQ(paused.at("status"), "paused");
  EXPECT_NE(paused.at("status_reason").get<std::string>().find("abandoned 2 times"),
            std::string::npos)
      << paused.at("status_reason");
}

TEST(Training, AJobWhoseStateFileIsLostPausesAtTheNextStartAndSaysSo) {
  Federation federation;
  const std::string id = federation.submit(small_job(2, 3));
  const std::string state = federation.get_json("/v1/jobs/" + id).at("global_state");
  federation.stop_server();
  std::filesystem::remove(federation.root() / "states" / (state + ".safetensors"));
  federation.start_server();
  const Json job = federation.get_json("/v1/jobs/" + id);
  EXPECT_EQ(job.at("status"), "paused");
  EXPECT_NE(job.at("status_reason").get<std::string>().find(state), std::string::npos);
  const Json rounds = federation.get_json("/v1/jobs/" + id + "/rounds").at("rounds");
  EXPECT_EQ(rounds.back().at("phase"), "abandoned");
}

TEST(Training, ARestoredDirectoryWithoutWorkingFoldersServesAgain) {
  Federation federation;
  federation.stop_server();
  std::filesystem::remove_all(federation.root() / "spool");
  std::filesystem::remove_all(federation.root() / "updates");
  federation.start_server();
  EXPECT_EQ(federation.operator_get("/v1/jobs").status, 200);
}

// A device whose evaluation fails every time.
class NeverEvaluates : public LocalTrainer {
 public:
  explicit NeverEvaluates(std::unique_ptr<LocalTrainer> trainer) : trainer_(std::move(trainer)) {}
  std::int64_t num_examples() const override { return trainer_->num_examples(); }
  Result<FitResult> fit(const StateDict& global, const FitTask& task, std::stop_token stop,
                        const std::function<void(const FitProgress&)>& progress) override {
    return trainer_->fit(global, task, stop, progress);
  }
  Result<EvaluateResult> evaluate(const StateDict&, const FitTask&, std::stop_token) override {
    return Error{ErrorCode::kFailedPrecondition, "the held-out part cannot be read"};
  }

 private:
  std::unique_ptr<LocalTrainer> trainer_;
};

TEST(Training, ADeviceThatCannotEvaluateStillTrainsEveryRound) {
  Federation federation;
  const auto file = write_csv(federation.folder(""), 200, 3);
  RunningDevice able(federation.enroll_device("able"), federation.folder("able"),
                     graph_trainer(csv_shard(file, 0, 2)));
  RunningDevice unable(federation.enroll_device("unable"), federation.folder("unable"),
                       std::make_unique<NeverEvaluates>(graph_trainer(csv_shard(file, 1, 2))));
  const std::string id = federation.submit(small_job(2, 3));
  EXPECT_EQ(federation.wait_for_end(id).at("status"), "finished");
  const Json rounds = federation.get_json("/v1/jobs/" + id + "/rounds").at("rounds");
  for (const Json& round : rounds) {
    EXPECT_EQ(round.at("metrics").at("updates"), 2);
    EXPECT_EQ(round.at("metrics").at("eval_devices"), 1);
  }
}

}  // namespace
}  // namespace muster
