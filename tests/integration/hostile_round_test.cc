#include "core/tensor/safetensors.h"
#include "tests/integration/raw_client.h"

// What comes too late, or to a task that is not the caller's.
namespace muster::testing {
namespace {

Json job_of(int devices, int rounds, const Json& round, bool federated) {
  Json job = small_job(devices, rounds);
  job["round"].update(round);
  job["evaluation"] = {{"federated", federated}};
  return job;
}

TEST(HostileRound, P01_P25_AnUpdateForAClosedRoundIsGone) {
  Federation federation;
  HandDevice fast(federation, "fast");
  HandDevice late(federation, "late");
  const std::string job =
      federation.submit(job_of(2, 2, {{"target_updates", 1}, {"over_selection", 2}}, false));
  const auto tasks = tasks_of({&fast, &late});
  const LayoutPtr layout = fast.state_of(tasks[0]).layout_ptr();
  ASSERT_EQ(outcome(fast.send(upload_for(tasks[0], *layout, 1.0F, 10))), "200");
  EXPECT_EQ(outcome(late.send(upload_for(tasks[1], *layout, 9.0F, 10))), "410 round_closed");
  const Json committed =
      federation.wait_until(job, [](const Json& now) { return now.at("rounds_committed") == 1; });
  // Round 2 selects its devices meanwhile.
  EXPECT_EQ(outcome(late.send(upload_for(tasks[1], *layout, 8.0F, 10))), "410 round_closed");
  EXPECT_EQ(refused_reasons(federation, job, 1),
            (std::vector<std::string>{"round_closed", "round_closed"}));
  const Json round = federation.get_json("/v1/jobs/" + job + "/rounds/1");
  EXPECT_EQ(round.at("metrics").at("updates"), 1);
  EXPECT_EQ(federation.get_json("/v1/jobs/" + job).at("global_state"),
            committed.at("global_state"));

  // And when the job has ended.
  federation.post_json("/v1/jobs/" + job + "/stop", Json::object());
  EXPECT_EQ(outcome(late.send(upload_for(tasks[1], *layout, 7.0F, 10))), "410 round_closed");
}

TEST(HostileRound, P08_AnUpdateAfterTheDeadlineIsGone) {
  Federation federation;
  HandDevice late(federation, "late");
  const std::string job =
      federation.submit(job_of(1, 1, {{"deadline_s", 0.1}, {"max_attempts", 1}}, false));
  const protocol::Task task = late.task();
  const LayoutPtr layout = late.state_of(task).layout_ptr();
  const Json ended = federation.wait_for_end(job);
  EXPECT_EQ(outcome(late.send(upload_for(task, *layout, 1.0F, 10))), "410 round_closed");
  EXPECT_EQ(ended.at("status"), "paused");
  EXPECT_EQ(federation.get_json("/v1/jobs/" + job).at("global_state"), ended.at("initial_state"));
}

// Two devices have trained one round and hold the task to evaluate it.
class HostileResult : public ::testing::Test {
 protected:
  void begin(const Json& round) {
    job = federation.submit(job_of(2, 1, round, true));
    const auto training = tasks_of({&mallory, &honest});
    layout = mallory.state_of(training[0]).layout_ptr();
    ASSERT_EQ(outcome(mallory.send(upload_for(training[0], *layout, 1.0F, 30))), "200");
    ASSERT_EQ(outcome(honest.send(upload_for(training[1], *layout, 5.0F, 10))), "200");
    const auto evaluations = tasks_of({&mallory, &honest});
    task = evaluations[0];
    honest_task = evaluations[1];
    ASSERT_EQ(task.kind, protocol::TaskKind::kEvaluate);
  }
  std::string post(const HandDevice& device, const std::string& id, const std::string& body) {
    return outcome(device.caller().post("/v1/tasks/" + id + "/result", body));
  }

  Federation federation;
  HandDevice mallory{federation, "mallory"};
  HandDevice honest{federation, "honest"};
  std::string job;
  LayoutPtr layout;
  protocol::Task task, honest_task;
};

TEST_F(HostileResult, OnlyTheOwnTaskCanBeAnsweredAndOnlyOnce) {
  begin(Json::object());
  const std::string result = R"({"examples":10,"metrics":{"loss":1.0}})";
  EXPECT_EQ(post(mallory, "0123456789abcdef0123456789abcdef", result), "404 task_unknown");
  EXPECT_EQ(post(mallory, honest_task.id, result), "404 task_unknown");
  EXPECT_EQ(post(mallory, task.id, result), "200");
  EXPECT_EQ(post(mallory, task.id, R"({"examples":99,"metrics":{"loss":9.0}})"),
            "409 already_reported");
  EXPECT_EQ(post(honest, honest_task.id, R"({"examples":30,"metrics":{"loss":2.0}})"), "200");
  EXPECT_EQ(federation.wait_for_end(job).at("status"), "finished");
  const Json metrics = federation.get_json("/v1/jobs/" + job + "/rounds/1").at("metrics");
  EXPECT_EQ(metrics.at("eval_devices"), 2);
  EXPECT_EQ(metrics.at("eval_examples"), 40);
  EXPECT_EQ(metrics.at("eval_loss"), 1.75);
  EXPECT_EQ(post(mallory, task.id, result), "409 already_reported");
}

TEST_F(HostileResult, N14_AMalformedResultIsRefusedAndAnEmptyMetricIsDropped) {
  begin(Json::object());
  for (const char* malformed :
       {R"({"examples":-1,"metrics":{}})", R"({"examples":10})", R"({"metrics":{}})",
        R"({"examples":10,"metrics":{"loss":NaN}})", R"({"examples":10,"metrics":{"loss":1e999}})",
        R"({"examples":10,"metrics":{"loss":"low"}})", R"({"examples":1.5,"metrics":{}})",
        R"({"examples":10,"metrics":{},"device":"honest"})", "[]", ""}) {
    EXPECT_EQ(post(mallory, task.id, malformed).substr(0, 3), "400") << malformed;
  }
  EXPECT_EQ(post(mallory, task.id, R"({"examples":10,"metrics":{"loss":null,"accuracy":2.0}})"),
            "200");
  EXPECT_EQ(post(honest, honest_task.id, R"({"examples":30,"metrics":{"loss":2,"accuracy":0.5}})"),
            "200");
  EXPECT_EQ(federation.wait_for_end(job).at("status"), "finished");
  const Json metrics = federation.get_json("/v1/jobs/" + job + "/rounds/1").at("metrics");
  EXPECT_EQ(metrics.at("eval_loss"), 2.0);
  EXPECT_EQ(metrics.at("eval_accuracy"), 0.5);
}

TEST_F(HostileResult, AResultAfterItsTimeIsGone) {
  begin({{"deadline_s", 2.0}});
  EXPECT_EQ(federation.wait_for_end(job).at("status"), "finished");
  EXPECT_EQ(post(mallory, task.id, R"({"examples":10,"metrics":{"loss":1.0}})"),
            "410 round_closed");
  const Json metrics = federation.get_json("/v1/jobs/" + job + "/rounds/1").at("metrics");
  EXPECT_EQ(metrics.at("eval_devices"), 0);
}

}  // namespace
}  // namespace muster::testing
