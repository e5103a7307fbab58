#include "tests/integration/raw_client.h"

// Updates of an asynchronous job, sent by hand: buffers of two, mallory's task of round 1 carried
// over into round 2.
namespace muster::testing {
namespace {

class HostileAsynchronous : public ::testing::Test {
 protected:
  HostileAsynchronous() {
    Json wanted = small_job(3, 3, {{"method", "FedBuff"}, {"buffer_size", 2}});
    wanted["evaluation"] = {{"federated", false}};
    job = federation.submit(wanted);
    first_task = first.task();
    second_task = second.task();
    task = mallory.task();
    layout = first.state_of(first_task).layout_ptr();
    EXPECT_EQ(outcome(first.send(upload_for(first_task, *layout, 1.0F, 10))), "200");
    EXPECT_EQ(outcome(second.send(upload_for(second_task, *layout, 1.0F, 10))), "200");
    wait_for_commits(1);
  }

  void wait_for_commits(int rounds) {
    federation.wait_until(job, [&](const Json& now) {
      return now.at("rounds_committed") == rounds &&
             (now.at("status") != "running" || now.at("live").at("phase") == "training");
    });
  }
  Json reported() { return federation.get_json("/v1/jobs/" + job).at("live").at("reported"); }

  Federation federation;
  HandDevice first{federation, "first"};
  HandDevice second{federation, "second"};
  HandDevice mallory{federation, "mallory"};
  std::string job;
  protocol::Task first_task, second_task, task;
  LayoutPtr layout;
};

TEST_F(HostileAsynchronous, ATaskThatIsCarriedOverStaysTheSameWhenAskedForAgain) {
  const protocol::Task again = mallory.task();
  EXPECT_EQ(protocol::to_json(again).at("id"), task.id);
  EXPECT_EQ(again.fit.round, 1);
  EXPECT_EQ(again.state, task.state);
  EXPECT_EQ(again.fit.seed, task.fit.seed);
  EXPECT_EQ(first.task().fit.round, 2) << "one whose update counted gets a new one";
}

TEST_F(HostileAsynchronous, TheSameBodyAgainGetsTheSameReceiptAndAnotherIsRefused) {
  const Upload upload = upload_for(task, *layout, 2.0F, 10);
  const Reply receipt = mallory.send(upload);
  EXPECT_EQ(outcome(receipt), "200");
  EXPECT_EQ(Json::parse(receipt.body).at("round"), 1) << "the task's, whichever counts it";
  EXPECT_EQ(mallory.send(upload).body, receipt.body);
  EXPECT_EQ(outcome(mallory.send(upload_for(task, *layout, 3.0F, 10))), "409 already_reported");
  EXPECT_EQ(reported(), Json({"mallory"}));

  // In a later round, after a restart, and when the job is over.
  const protocol::Task next = first.task();
  EXPECT_EQ(outcome(first.send(upload_for(next, *layout, 1.0F, 10))), "200");
  wait_for_commits(2);
  EXPECT_EQ(mallory.send(upload).body, receipt.body);
  federation.stop_server();
  federation.start_server();
  EXPECT_EQ(mallory.send(upload).body, receipt.body);
  for (HandDevice* device : {&first, &second}) {
    EXPECT_EQ(outcome(device->send(upload_for(device->task(), *layout, 1.0F, 10))), "200");
  }
  federation.wait_for_end(job);
  EXPECT_EQ(mallory.send(upload).body, receipt.body);
  EXPECT_EQ(outcome(mallory.send(upload_for(task, *layout, 3.0F, 10))), "409 already_reported");
}

TEST_F(HostileAsynchronous, AnUpdateIsOfItsTaskItsRoundAndItsBase) {
  const auto bent = [&](const char* field, const Json& value) {
    Upload upload = upload_for(task, *layout, 2.0F, 10);
    upload.statement[field] = value;
    upload.path = fmt::format("/v1/jobs/{}/rounds/{}/update", job,
                              upload.statement.at("round").get<std::int64_t>());
    return outcome(mallory.send(upload));
  };
  const std::string current =
      federation.get_json("/v1/jobs/" + job).at("global_state").get<std::string>();
  EXPECT_EQ(bent("round", 2), "403 identity_mismatch") << "fresher than it is";
  EXPECT_EQ(bent("round", 3), "409 round_not_open");
  EXPECT_EQ(bent("attempt", 2), "403 identity_mismatch");
  EXPECT_EQ(bent("base", current), "409 stale_base");
  EXPECT_EQ(bent("task", second_task.id), "410 round_closed");
  EXPECT_EQ(bent("task", std::string(32, 'f')), "410 round_closed");
  EXPECT_EQ(outcome(first.send(upload_for(task, *layout, 2.0F, 10))), "409 already_reported")
      << "first had its own task in round 1";
  EXPECT_EQ(reported(), Json::array());
  EXPECT_EQ(outcome(mallory.send(upload_for(task, *layout, 2.0F, 10))), "200");
  EXPECT_EQ(reported(), Json({"mallory"}));
}

}  // namespace
}  // namespace muster::testing
