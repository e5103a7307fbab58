#include "tests/storage/store_fixture.h"

namespace muster {
namespace {

using namespace std::string_literals;

class StoreUpdates : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    enrol("pi-1");
    enrol("pi-2");
    job_ = submit("demo");
    round_ = start_round(job_, 1, {"pi-1", "pi-2"});
  }
  std::string job_;
  RoundRow round_;
};

TEST_F(StoreUpdates, AnAcceptedUpdateTravelsWithTheMachineThatCountedIt) {
  const UpdateRow update = update_row(round_, "pi-1");
  round_.machine = {{"reported", {"pi-1"}}};
  round_.bytes_up = update.bytes;
  ASSERT_OK(store_->accept_update(update, round_, event_at(300, "update_accepted")));
  reopen();
  EXPECT_EQ(**store_->find_accepted_update(job_, 1, 1, "pi-1"), update);
  EXPECT_FALSE(store_->find_accepted_update(job_, 1, 1, "pi-2")->has_value());
  EXPECT_FALSE(store_->find_accepted_update(job_, 1, 2, "pi-1")->has_value());
  EXPECT_EQ(**store_->find_round(job_, 1), round_);
  EXPECT_EQ(store_->list_events("", 0, 100)->back().kind, "update_accepted");
}

TEST_F(StoreUpdates, ASecondUpdateOfADeviceInAnAttemptIsRefused) {
  ASSERT_OK(store_->accept_update(update_row(round_, "pi-1"), round_, event_at(300)));
  UpdateRow other = update_row(round_, "pi-1", 301);
  other.digest = sha256("another body");
  RoundRow counted_twice = round_;
  counted_twice.machine = {{"reported", {"pi-1", "pi-1"}}};
  EXPECT_ERROR(store_->accept_update(other, counted_twice, event_at(301)), kAlreadyExists,
               "already_reported");
  reopen();
  EXPECT_EQ((**store_->find_accepted_update(job_, 1, 1, "pi-1")).digest,
            update_row(round_, "pi-1").digest);
  EXPECT_EQ((**store_->find_round(job_, 1)).machine, round_.machine);
  EXPECT_EQ(store_->list_updates(job_, 1)->size(), 1U);
}

TEST_F(StoreUpdates, TheFileItselfAdmitsNoSecondAcceptedUpdate) {
  ASSERT_OK(store_->accept_update(update_row(round_, "pi-1"), round_, event_at(300)));
  const std::string again =
      "INSERT INTO updates (job, round, attempt, device, verdict, reason, detail, digest, bytes, "
      "examples, steps, metrics, received_at_ms, statement, signature) SELECT job, round, attempt, "
      "device, verdict, reason, detail, digest, bytes, examples, steps, metrics, received_at_ms, "
      "statement, signature FROM updates";
  EXPECT_THROW(run_sql(again), SQLite::Exception);
}

TEST_F(StoreUpdates, ANewAttemptTakesAnUpdateOfTheSameDeviceAgain) {
  ASSERT_OK(store_->accept_update(update_row(round_, "pi-1"), round_, event_at(300)));
  ASSERT_OK(store_->abandon_round(round_, JobStatus::kRunning, "", event_at(400)));
  const RoundRow second = start_round(job_, 1, {"pi-1"}, 2);
  ASSERT_OK(store_->accept_update(update_row(second, "pi-1"), second, event_at(500)));
  EXPECT_EQ(store_->list_updates(job_, 1)->size(), 2U);
}

TEST_F(StoreUpdates, OnlyAParticipantsUpdateIsAccepted) {
  enrol("pi-3");
  EXPECT_ERROR(store_->accept_update(update_row(round_, "pi-3"), round_, event_at(300)),
               kFailedPrecondition, "not_selected");
  EXPECT_TRUE(store_->list_updates(job_, 1)->empty());
}

TEST_F(StoreUpdates, AnAcceptedUpdateNeedsDigestAndExamplesAndItsOwnRound) {
  UpdateRow update = update_row(round_, "pi-1");
  update.digest.reset();
  EXPECT_ERROR(store_->accept_update(update, round_, event_at(300)), kInvalidArgument, "bad_value");
  update = update_row(round_, "pi-1");
  update.examples = 0;
  EXPECT_ERROR(store_->accept_update(update, round_, event_at(300)), kInvalidArgument, "bad_value");
  update = update_row(round_, "pi-1");
  update.round = 2;
  EXPECT_ERROR(store_->accept_update(update, round_, event_at(300)), kInternal, "wrong_round");
  EXPECT_TRUE(store_->list_updates(job_, 1)->empty());
}

TEST_F(StoreUpdates, RefusedUpdatesAreKeptWithTheirReasonInOrderOfTime) {
  UpdateRow refused = update_row(round_, "pi-1", 350);
  refused.accepted = false;
  refused.digest.reset();
  refused.examples = 0;
  refused.reason = "non_finite";
  refused.detail = "fc1.weight[3] is nan";
  ASSERT_OK(store_->refuse_update(refused, event_at(350, "update_refused")));
  ASSERT_OK(store_->refuse_update(refused, event_at(351, "update_refused")));
  ASSERT_OK(store_->accept_update(update_row(round_, "pi-1", 300), round_, event_at(352)));
  reopen();
  const auto updates = store_->list_updates(job_, 1);
  ASSERT_EQ(updates->size(), 3U);
  EXPECT_TRUE(updates->at(0).accepted);
  EXPECT_EQ(updates->at(1), refused);
  EXPECT_EQ(updates->at(2), refused);
}

TEST_F(StoreUpdates, ARefusalMayNameWhatDoesNotExist) {
  UpdateRow refused = update_row(round_row("no-such-job", 99), "stranger");
  refused.reason = "round_closed";
  ASSERT_OK(store_->refuse_update(refused, event_at(1)));
  EXPECT_EQ(store_->list_updates("no-such-job", 99)->size(), 1U);
}

class StoreEvaluations : public StoreUpdates {};

TEST_F(StoreEvaluations, AnAnswerFillsItsTaskInOnce) {
  EvaluationRow asked;
  asked.job = job_;
  asked.round = 1;
  asked.device = "pi-1";
  asked.task = "e1";
  asked.asked_at_ms = 1'000;
  EvaluationRow other = asked;
  other.device = "pi-2";
  other.task = "e2";
  ASSERT_OK(store_->add_evaluations({asked, other}));
  EvaluationRow answered = asked;
  answered.answered_at_ms = 1'500;
  answered.examples = 60;
  answered.metrics = {{"loss", 0.4}, {"accuracy", 0.9}};
  ASSERT_OK(store_->answer_evaluation(answered));
  reopen();
  EXPECT_EQ(*store_->list_evaluations(job_, 1), (std::vector<EvaluationRow>{answered, other}));
  EXPECT_TRUE(store_->list_evaluations(job_, 2)->empty());

  EXPECT_ERROR(store_->answer_evaluation(answered), kAlreadyExists, "already_answered");
  answered.device = "pi-2";
  EXPECT_ERROR(store_->answer_evaluation(answered), kNotFound, "task_unknown");
  other.answered_at_ms = 0;
  EXPECT_ERROR(store_->answer_evaluation(other), kInvalidArgument, "bad_value");
  EXPECT_ERROR(store_->add_evaluations({asked}), kAlreadyExists, "duplicate");
  asked.task = "e3";
  asked.device = "stranger";
  EXPECT_ERROR(store_->add_evaluations({asked}), kNotFound, "unknown_reference");
}

class StoreEvents : public StoreTest {};

TEST_F(StoreEvents, ListsByJobAfterASequenceUpToALimit) {
  EventRow event = event_at(5, "round_begun");
  event.job = "demo-1";
  event.round = 3;
  event.actor = "olga";
  event.details = {{"why", "ü"}};
  ASSERT_OK(store_->add_event(event));
  ASSERT_OK(store_->add_event(event_at(6)));
  ASSERT_OK(store_->add_event(event));
  reopen();
  event.sequence = 1;
  EXPECT_EQ(store_->list_events("demo-1", 0, 10)->at(0), event);
  EXPECT_EQ(store_->list_events("demo-1", 1, 10)->size(), 1U);
  EXPECT_EQ(store_->list_events("", 0, 10)->size(), 3U);
  EXPECT_EQ(store_->list_events("", 0, 2)->size(), 2U);
  EXPECT_TRUE(store_->list_events("", 0, 0)->empty());
  EXPECT_TRUE(store_->list_events("", 0, -1)->empty());
  EXPECT_TRUE(store_->list_events("demo-2", 0, 10)->empty());
}

TEST_F(StoreEvents, AreAppendOnlyForEverybody) {
  ASSERT_OK(store_->add_event(event_at(5, "kept")));
  for (const char* sql : {"UPDATE events SET kind = 'changed'", "DELETE FROM events",
                          "INSERT OR REPLACE INTO events (sequence, at_ms, kind, details) VALUES "
                          "(1, 1, 'x', '{}')"}) {
    EXPECT_THROW(run_sql(sql), SQLite::Exception) << sql;
  }
  EXPECT_EQ(store_->list_events("", 0, 10)->at(0).kind, "kept");
}

TEST_F(StoreTest, HostileTextInEveryFieldIsStoredAsItIsAndTheSchemaStays) {
  const std::string schema = "SELECT group_concat(type || name || sql, ';') FROM sqlite_schema";
  const std::string before = query_text(schema);
  const std::string bad = "'); DROP TABLE events; --\"\n%s?1:x\0z"s + "ü";
  EventRow event = event_at(1, bad);
  event.job = event.actor = bad;
  event.details = {{bad, bad}};
  TokenRow token = token_row("a");
  token.batch = token.created_by = bad;
  token.tags = {bad};
  ASSERT_OK(store_->add_tokens({token}, event));
  DeviceRow device = device_row(bad);
  device.certificate = device.public_key_hash = bad;
  ASSERT_OK(store_->redeem_token(token.secret_hash, device, event));
  ASSERT_OK(store_->touch_device(bad, 1, 1));
  JobRow job = job_row(bad);
  job.status_reason = job.created_by = bad;
  const auto id = store_->add_job(job, event);
  ASSERT_OK(id);
  ASSERT_OK(store_->set_job_status(*id, JobStatus::kPaused, bad, event));
  RoundRow round = round_row(*id, 1);
  round.reason = bad;
  round.machine = round.metrics = {{bad, bad}};
  ASSERT_OK(store_->begin_round(round, event));
  ASSERT_OK(store_->save_selection(round, {participant_row(round, bad)}, event));
  UpdateRow update = update_row(round, bad);
  update.statement = update.signature = update.detail = bad;
  update.metrics = {{bad, bad}};
  ASSERT_OK(store_->accept_update(update, round, event));
  UpdateRow refused = update;
  refused.accepted = false;
  refused.reason = bad;
  ASSERT_OK(store_->refuse_update(refused, event));
  EvaluationRow asked;
  asked.job = *id;
  asked.device = asked.task = bad;
  asked.metrics = {{bad, bad}};
  ASSERT_OK(store_->add_evaluations({asked}));
  asked.answered_at_ms = 1;
  ASSERT_OK(store_->answer_evaluation(asked));
  ASSERT_OK(store_->add_round_metrics(*id, 1, 1, {{bad, 1}}));
  RoundRow last = round;
  ASSERT_OK(store_->abandon_round(last, JobStatus::kStopped, bad, event));
  reopen();

  EXPECT_EQ((**store_->find_token(token.secret_hash)).batch, bad);
  EXPECT_EQ((**store_->find_device(bad)).certificate, bad);
  EXPECT_EQ((**store_->find_job(*id)).status_reason, bad);
  EXPECT_EQ((**store_->find_round(*id, 1)).reason, bad);
  EXPECT_EQ(**store_->find_accepted_update(*id, 1, 1, bad), update);
  EXPECT_EQ(store_->list_evaluations(*id, 0)->at(0).metrics, asked.metrics);
  EXPECT_EQ(store_->list_events(bad, 0, 1)->at(0).details, event.details);
  EXPECT_EQ(query_text(schema), before);
}

}  // namespace
}  // namespace muster
