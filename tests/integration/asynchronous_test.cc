#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "storage/store.h"
#include "tests/integration/reference_run.h"
#include "tests/support/federation.h"

// FedBuff over TLS: devices at their own pace.
namespace muster {
namespace {

using muster::testing::Federation;
using muster::testing::Gate;
using muster::testing::GatedTrainer;
using muster::testing::graph_trainer;
using muster::testing::ReferenceRun;
using muster::testing::RunningDevice;
using muster::testing::small_job;
using muster::testing::take;
using muster::testing::write_csv;
using ::testing::HasSubstr;

// Two devices that keep step with each other, and a slow one.
class Asynchronous : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto file = write_csv(federation_.folder(""), 180, 3);
    int shard = 0;
    for (const char* name : {"fast-1", "fast-2", "slow"}) {
      specs_[name] = fmt::format("csv:{};target=label;shard={}/3;seed=1", file.string(), shard++);
      federation_.enroll_device(name);
    }
  }

  void start(const std::string& name) {
    devices_.push_back(std::make_unique<RunningDevice>(
        take(DeviceIdentity::read(federation_.folder(name))), federation_.folder(name),
        std::make_unique<GatedTrainer>(graph_trainer(specs_[name]),
                                       name == "slow" ? slow_ : fast_)));
  }

  // Rounds of two updates each; all three devices have the task of round 1.
  std::string submit(std::int64_t max_staleness, bool evaluated = false) {
    job_ = small_job(3, 6,
                     {{"method", "FedBuff"}, {"buffer_size", 2}, {"max_staleness", max_staleness}});
    job_["evaluation"] = {{"federated", evaluated}};
    const std::string id = federation_.submit(job_);
    for (const char* name : {"slow", "fast-1", "fast-2"}) start(name);
    federation_.wait_until(
        id, [](const Json& now) { return now.at("live").at("invited").size() == 3; });
    return id;
  }
  void wait_for_commits(const std::string& id, int rounds) {
    federation_.wait_until(
        id, [&](const Json& now) { return now.at("rounds_committed").get<int>() >= rounds; });
  }
  void wait_for_report_of(const std::string& id, const std::string& device) {
    federation_.wait_until(id, [&](const Json& now) {
      const Json& live = now.at("live");
      return live.is_object() && live.contains("reported") &&
             std::ranges::count(live.at("reported"), Json(device)) == 1;
    });
  }

  // Runs all rounds again in this process, out of who was counted in which and how stale.
  void expect_states_follow_from_the_history(const std::string& id) {
    std::vector<std::string> states;
    ReferenceRun reference(job_, specs_);
    federation_.stop_server();
    const auto store = take(Store::open(federation_.root() / "muster.db"));
    for (const RoundRow& round : take(store->list_rounds(id))) {
      std::vector<ReferenceRun::Part> parts;
      for (const UpdateRow& update : take(store->list_accepted_updates(id, round.round, 1))) {
        parts.push_back({update.device, update.round - update.staleness});
      }
      ASSERT_EQ(parts.size(), 2U);
      reference.round(parts);
      EXPECT_EQ(round.state->hex(), reference.digest(static_cast<std::size_t>(round.round)));
    }
  }

  Federation federation_;
  ReferenceRun::Devices specs_;
  std::shared_ptr<Gate> fast_ = std::make_shared<Gate>();
  std::shared_ptr<Gate> slow_ = std::make_shared<Gate>();
  Json job_;
  std::vector<std::unique_ptr<RunningDevice>> devices_;
};

TEST_F(Asynchronous, ASlowDevicesUpdateCountsInALaterRoundWithItsStaleness) {
  const std::string id = submit(10, /*evaluated=*/true);
  fast_->let_through(3);
  wait_for_commits(id, 3);
  slow_->let_through(6);
  wait_for_report_of(id, "slow");
  fast_->let_through(6);
  ASSERT_EQ(federation_.wait_for_end(id).at("status"), "finished");

  const Json fourth = federation_.get_json("/v1/jobs/" + id + "/rounds/4");
  const auto slow = std::ranges::find(fourth.at("participants"), Json("slow"),
                                      [](const Json& one) { return one.at("device"); });
  EXPECT_EQ(slow->at("verdict"), "accepted");
  EXPECT_EQ(slow->at("staleness"), 3);
  EXPECT_EQ(slow->at("began_round"), 1);
  EXPECT_GE(fourth.at("metrics").at("staleness").get<double>(), 1.5);
  const Json last = federation_.get_json("/v1/jobs/" + id + "/rounds/6");
  EXPECT_EQ(last.at("metrics").at("eval_devices"), 2) << "those whose updates were counted";
  expect_states_follow_from_the_history(id);
}

TEST_F(Asynchronous, ATaskIsCarriedOverARestartOfTheServer) {
  const std::string id = submit(10);
  fast_->let_through(2);
  wait_for_commits(id, 2);
  federation_.stop_server();
  federation_.start_server();
  slow_->let_through(6);
  wait_for_report_of(id, "slow");
  federation_.stop_server();
  federation_.start_server();
  fast_->let_through(6);
  ASSERT_EQ(federation_.wait_for_end(id).at("status"), "finished");
  const Json third = federation_.get_json("/v1/jobs/" + id + "/rounds/3");
  const auto slow = std::ranges::find(third.at("participants"), Json("slow"),
                                      [](const Json& one) { return one.at("device"); });
  EXPECT_EQ(slow->at("staleness"), 2);
  expect_states_follow_from_the_history(id);
}

TEST_F(Asynchronous, AnUpdateOverTheMaximumStalenessIsRefusedAndTheDeviceGoesOnWithANewTask) {
  const std::string id = submit(1);
  fast_->let_through(3);
  wait_for_commits(id, 3);
  slow_->let_through(6);
  const auto refused = [&] {
    return federation_.get_json("/v1/jobs/" + id + "/rounds/1").at("refused");
  };
  federation_.wait_until(id, [&](const Json&) { return !refused().empty(); });
  EXPECT_EQ(refused()[0].at("device"), "slow");
  EXPECT_EQ(refused()[0].at("reason"), "round_closed");
  EXPECT_THAT(refused()[0].at("detail").get<std::string>(), HasSubstr("max_staleness is 1"));
  wait_for_report_of(id, "slow");
  fast_->let_through(6);
  ASSERT_EQ(federation_.wait_for_end(id).at("status"), "finished");
  const Json fourth = federation_.get_json("/v1/jobs/" + id + "/rounds/4");
  const auto slow = std::ranges::find(fourth.at("participants"), Json("slow"),
                                      [](const Json& one) { return one.at("device"); });
  EXPECT_EQ(slow->at("staleness"), 0);
  expect_states_follow_from_the_history(id);
}

TEST_F(Asynchronous, ABufferThatStaysTooEmptyIsAbandonedAndTheNextAttemptGivesNewTasks) {
  job_ = small_job(3, 1, {{"method", "FedBuff"}, {"buffer_size", 2}});
  job_["round"] = {{"deadline_s", 0.5}, {"min_updates", 2}, {"max_attempts", 100}};
  job_["evaluation"] = {{"federated", false}};
  const std::string id = federation_.submit(job_);
  start("fast-1");
  federation_.wait_until(id, [](const Json& now) {
    return now.at("live").is_object() && now.at("live").at("attempt").get<int>() >= 2;
  });
  const Json rounds = federation_.get_json("/v1/jobs/" + id + "/rounds").at("rounds");
  EXPECT_EQ(rounds[0].at("phase"), "abandoned");
  EXPECT_THAT(rounds[0].at("reason").get<std::string>(), HasSubstr("0 of at least 2 updates"));
  fast_->let_through(1);
  start("fast-2");
  ASSERT_EQ(federation_.wait_for_end(id).at("status"), "finished");
}

}  // namespace
}  // namespace muster
