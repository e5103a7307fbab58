#include "tests/storage/store_fixture.h"

namespace muster {
namespace {

class StoreJobs : public StoreTest {};
class StoreRounds : public StoreTest {};

TEST_F(StoreJobs, NumbersJobsOfOneNameFromOne) {
  EXPECT_EQ(submit("demo"), "demo-1");
  EXPECT_EQ(submit("demo"), "demo-2");
  EXPECT_EQ(submit("demo-1"), "demo-1-1");
  reopen();
  EXPECT_EQ(submit("demo"), "demo-3");
  EXPECT_EQ(store_->list_jobs()->size(), 4U);
}

TEST_F(StoreJobs, KeepsAJobAsGivenAndItsEventUnderItsId) {
  JobRow job = job_row("demo");
  job.description["deep"] = {{"graph", {1.5, nullptr, "ü"}}};
  job.status_reason = "as submitted";
  ASSERT_OK(store_->add_job(job, event_at(10, "job_submitted")));
  reopen();
  job.job = "demo-1";
  job.global_state = job.initial_state;
  EXPECT_EQ(**store_->find_job("demo-1"), job);
  EXPECT_FALSE(store_->find_job("demo-2")->has_value());
  EXPECT_EQ(store_->list_events("demo-1", 0, 10)->at(0).kind, "job_submitted");
}

TEST_F(StoreJobs, RefusesADescriptionWithoutName) {
  for (const Json& description : {Json(), Json::object(), Json{{"name", 3}}, Json{{"name", ""}}}) {
    JobRow job = job_row("demo");
    job.description = description;
    EXPECT_ERROR(store_->add_job(job, event_at(1)), kInvalidArgument, "bad_value");
  }
  EXPECT_TRUE(store_->list_jobs()->empty());
}

TEST_F(StoreJobs, RefusesTextThatIsNotUtf8InJson) {
  JobRow job = job_row("demo");
  job.description["note"] = "\xff";
  EXPECT_ERROR(store_->add_job(job, event_at(1)), kInvalidArgument, "bad_json");
  EXPECT_TRUE(store_->list_jobs()->empty());
}

TEST_F(StoreJobs, AnEndedJobStaysEnded) {
  const std::string job = submit("demo");
  ASSERT_OK(store_->set_job_status(job, JobStatus::kPaused, "too few devices", event_at(20)));
  EXPECT_EQ((**store_->find_job(job)).finished_at_ms, 0);
  ASSERT_OK(store_->set_job_status(job, JobStatus::kRunning, "", event_at(30)));
  ASSERT_OK(store_->set_job_status(job, JobStatus::kStopped, "by olga", event_at(40)));
  ASSERT_OK(store_->set_job_status(job, JobStatus::kStopped, "again", event_at(50)));
  EXPECT_ERROR(store_->set_job_status(job, JobStatus::kRunning, "", event_at(60)),
               kFailedPrecondition, "job_ended");
  EXPECT_ERROR(store_->set_job_status("demo-9", JobStatus::kPaused, "", event_at(60)), kNotFound,
               "job_unknown");
  reopen();
  const JobRow row = **store_->find_job(job);
  EXPECT_EQ(row.status, JobStatus::kStopped);
  EXPECT_EQ(row.status_reason, "by olga");
  EXPECT_EQ(row.finished_at_ms, 40);
}

TEST(JobStatusText, EveryStatusReadsBackAndAnUnknownOneIsRefused) {
  for (const JobStatus status :
       {JobStatus::kRunning, JobStatus::kPaused, JobStatus::kStopped, JobStatus::kFinished}) {
    EXPECT_EQ(*job_status_from(to_string(status)), status);
  }
  EXPECT_ERROR(job_status_from("idle"), kInvalidArgument, "bad_status");
}

TEST_F(StoreRounds, KeepsARoundAsBegun) {
  const std::string job = submit("demo");
  const RoundRow round = round_row(job, 1);
  ASSERT_OK(store_->begin_round(round, event_at(100)));
  reopen();
  EXPECT_EQ(**store_->find_round(job, 1), round);
  EXPECT_FALSE(store_->find_round(job, 2)->has_value());
  EXPECT_ERROR(store_->begin_round(round, event_at(101)), kAlreadyExists, "round_exists");
  EXPECT_ERROR(store_->begin_round(round_row("demo-7", 1), event_at(1)), kNotFound, "job_unknown");
  EXPECT_EQ(store_->list_rounds(job)->size(), 1U);
}

TEST_F(StoreRounds, RefusesAPhaseThatIsNoneAndOneThatOnlyCommitAndAbandonSet) {
  const std::string job = submit("demo");
  RoundRow round = round_row(job, 1);
  round.phase = "dreaming";
  EXPECT_ERROR(store_->begin_round(round, event_at(100)), kInvalidArgument, "bad_value");
  round.phase = "committed";
  EXPECT_ERROR(store_->begin_round(round, event_at(100)), kInternal, "bad_phase");
  ASSERT_OK(store_->begin_round(round_row(job, 1), event_at(100)));
  EXPECT_ERROR(store_->save_round(round), kInternal, "bad_phase");
  EXPECT_EQ((**store_->find_round(job, 1)).phase, "selecting");
}

TEST_F(StoreRounds, KeepsTheSelection) {
  enrol("pi-1");
  enrol("pi-2");
  const std::string job = submit("demo");
  const RoundRow round = start_round(job, 1, {"pi-2", "pi-1"});
  reopen();
  EXPECT_EQ((**store_->find_round(job, 1)).phase, "training");
  const auto participants = store_->list_participants(job, 1, 1);
  ASSERT_EQ(participants->size(), 2U);
  EXPECT_EQ(participants->at(0), participant_row(round, "pi-1"));
  EXPECT_TRUE(store_->list_participants(job, 1, 2)->empty());
}

TEST_F(StoreRounds, ASelectionThatNamesAStrangerChangesNothing) {
  enrol("pi-1");
  const std::string job = submit("demo");
  RoundRow round = round_row(job, 1);
  ASSERT_OK(store_->begin_round(round, event_at(100)));
  round.phase = "training";
  const auto select = [&](const ParticipantRow& second) {
    return store_->save_selection(round, {participant_row(round, "pi-1"), second}, event_at(200));
  };
  EXPECT_ERROR(select(participant_row(round, "stranger")), kNotFound, "unknown_reference");
  EXPECT_ERROR(select(participant_row(round, "pi-1")), kAlreadyExists, "duplicate");
  EXPECT_ERROR(select(participant_row(round_row(job, 2), "pi-1")), kInternal, "wrong_round");
  reopen();
  EXPECT_EQ((**store_->find_round(job, 1)).phase, "selecting");
  EXPECT_TRUE(store_->list_participants(job, 1, 1)->empty());
}

TEST_F(StoreRounds, SavesMachineReasonAndPhaseAndKeepsHowItBegan) {
  const std::string job = submit("demo");
  const RoundRow begun = start_round(job, 1, {});
  RoundRow changed = begun;
  changed.phase = "aggregating";
  changed.reason = "averaging";
  changed.machine = {{"reported", {"pi-1"}}};
  changed.seed = 1;
  changed.base = sha256("other");
  changed.started_at_ms = 1;
  ASSERT_OK(store_->save_round(changed));
  reopen();
  changed.seed = begun.seed;
  changed.base = begun.base;
  changed.started_at_ms = begun.started_at_ms;
  EXPECT_EQ(**store_->find_round(job, 1), changed);
  EXPECT_ERROR(store_->save_round(round_row(job, 2)), kNotFound, "round_unknown");
}

TEST_F(StoreRounds, CommittingMovesTheJobToTheNewState) {
  const std::string job = submit("demo");
  RoundRow round = start_round(job, 1, {});
  round.state = sha256("new state");
  round.metrics = {{"test_accuracy", 0.8423}};
  ASSERT_OK(store_->commit_round(round, JobStatus::kFinished, "all rounds are committed",
                                 event_at(900, "round_committed")));
  reopen();
  const RoundRow stored = **store_->find_round(job, 1);
  EXPECT_EQ(stored.phase, "committed");
  EXPECT_EQ(stored.state, round.state);
  EXPECT_EQ(stored.ended_at_ms, 900);
  EXPECT_EQ(stored.metrics, round.metrics);
  const JobRow row = **store_->find_job(job);
  EXPECT_EQ(row.global_state, *round.state);
  EXPECT_EQ(row.rounds_committed, 1);
  EXPECT_EQ(row.status, JobStatus::kFinished);
  EXPECT_EQ(row.finished_at_ms, 900);
  EXPECT_EQ(store_->list_events("", 0, 100)->back().kind, "round_committed");
}

TEST_F(StoreRounds, CommittingWithoutStateIsRefusedAndChangesNothing) {
  const std::string job = submit("demo");
  const RoundRow round = start_round(job, 1, {});
  EXPECT_ERROR(store_->commit_round(round, JobStatus::kRunning, "", event_at(900)), kInternal,
               "no_state");
  EXPECT_EQ(**store_->find_round(job, 1), round);
  EXPECT_EQ((**store_->find_job(job)).rounds_committed, 0);
}

TEST_F(StoreRounds, AnEndedRoundTakesNoChange) {
  enrol("pi-1");
  const std::string job = submit("demo");
  RoundRow round = start_round(job, 1, {"pi-1"});
  round.state = sha256("new state");
  ASSERT_OK(store_->commit_round(round, JobStatus::kRunning, "", event_at(900)));
  RoundRow late = round;
  late.phase = "training";
  const auto closed = [](const Status& status) {
    EXPECT_ERROR(status, kFailedPrecondition, "round_closed");
  };
  closed(store_->save_round(late));
  closed(store_->save_selection(late, {}, event_at(901)));
  closed(store_->accept_update(update_row(late, "pi-1"), late, event_at(901)));
  closed(store_->commit_round(round, JobStatus::kRunning, "", event_at(901)));
  closed(store_->abandon_round(round, JobStatus::kRunning, "", event_at(901)));
  EXPECT_TRUE(store_->list_updates(job, 1)->empty());
  EXPECT_EQ((**store_->find_round(job, 1)).phase, "committed");
}

TEST_F(StoreRounds, AnEarlierRoundIsNotCommittedAfterALaterOne) {
  const std::string job = submit("demo");
  RoundRow first = start_round(job, 1, {});
  RoundRow second = start_round(job, 2, {});
  first.state = sha256("first");
  second.state = sha256("second");
  ASSERT_OK(store_->commit_round(second, JobStatus::kRunning, "", event_at(900)));
  EXPECT_ERROR(store_->commit_round(first, JobStatus::kRunning, "", event_at(901)),
               kFailedPrecondition, "round_out_of_order");
  EXPECT_EQ((**store_->find_round(job, 1)).phase, "training");
  EXPECT_EQ((**store_->find_job(job)).global_state, *second.state);
}

TEST_F(StoreRounds, AnAbandonedRoundKeepsTheGlobalStateAndIsTriedAgain) {
  const std::string job = submit("demo");
  RoundRow first = start_round(job, 1, {});
  first.reason = "2 of 4 updates at the deadline";
  ASSERT_OK(store_->abandon_round(first, JobStatus::kPaused, "lacks devices", event_at(900)));
  ASSERT_OK(store_->begin_round(round_row(job, 1, 2), event_at(901)));
  reopen();
  const auto rounds = store_->list_rounds(job);
  ASSERT_EQ(rounds->size(), 2U);
  EXPECT_EQ(rounds->at(0).phase, "abandoned");
  EXPECT_EQ(rounds->at(0).reason, first.reason);
  EXPECT_EQ(rounds->at(0).ended_at_ms, 900);
  EXPECT_EQ((**store_->find_round(job, 1)).attempt, 2) << "the last attempt";
  const JobRow row = **store_->find_job(job);
  EXPECT_EQ(row.status, JobStatus::kPaused);
  EXPECT_EQ(row.global_state, row.initial_state);
  EXPECT_EQ(row.rounds_committed, 0);
}

TEST_F(StoreRounds, AJobThatWasStoppedIsNotRevivedByItsLastRound) {
  const std::string job = submit("demo");
  RoundRow round = start_round(job, 1, {});
  ASSERT_OK(store_->set_job_status(job, JobStatus::kStopped, "by olga", event_at(500)));
  round.state = sha256("new state");
  ASSERT_OK(store_->commit_round(round, JobStatus::kRunning, "", event_at(900)));
  const JobRow row = **store_->find_job(job);
  EXPECT_EQ(row.status, JobStatus::kStopped);
  EXPECT_EQ(row.finished_at_ms, 500);
  EXPECT_EQ(row.rounds_committed, 1);
}

TEST_F(StoreRounds, MetricsAndBytesAddUpAlsoAfterTheEnd) {
  const std::string job = submit("demo");
  RoundRow round = start_round(job, 1, {});
  ASSERT_OK(store_->add_round_bytes(job, 1, 1, 100, 10));
  ASSERT_OK(store_->add_round_metrics(job, 1, 1, {{"train_loss", 0.1}, {"test_loss", 0.2}}));
  round.state = sha256("new state");
  ASSERT_OK(store_->commit_round(round, JobStatus::kRunning, "", event_at(900)));
  ASSERT_OK(store_->add_round_bytes(job, 1, 1, 1, 2));
  const double third = 1.0 / 3.0;
  ASSERT_OK(store_->add_round_metrics(job, 1, 1, {{"test_loss", third}, {"train_loss", nullptr}}));
  reopen();
  const RoundRow stored = **store_->find_round(job, 1);
  EXPECT_EQ(stored.metrics, (Json{{"test_loss", third}})) << "to the last bit";
  ASSERT_OK(store_->add_round_metrics(job, 1, 1, Json()));
  EXPECT_ERROR(store_->add_round_metrics(job, 1, 1, Json(3)), kInvalidArgument, "bad_value");
  EXPECT_EQ((**store_->find_round(job, 1)).metrics, stored.metrics) << "nothing was replaced";
  EXPECT_EQ(stored.bytes_down, 101);
  EXPECT_EQ(stored.bytes_up, 12);
  EXPECT_ERROR(store_->add_round_metrics(job, 2, 1, Json::object()), kNotFound, "round_unknown");
  EXPECT_ERROR(store_->add_round_bytes(job, 1, 2, 1, 1), kNotFound, "round_unknown");
}

TEST_F(StoreRounds, WhatTheAggregationKeepsMovesWithTheCommit) {
  enrol("pi-1");
  const std::string job = submit("demo");
  RoundRow first = start_round(job, 1, {"pi-1"});
  first.state = sha256("first");
  first.rule_state = sha256("moments");
  EXPECT_FALSE(*store_->names_state(sha256("moments")));
  ASSERT_OK(store_->commit_round(first, JobStatus::kRunning, "", event_at(300)));
  reopen();
  EXPECT_EQ((**store_->find_job(job)).rule_state, sha256("moments"));
  EXPECT_EQ((**store_->find_round(job, 1)).rule_state, sha256("moments"));
  EXPECT_TRUE(*store_->names_state(sha256("moments")));

  RoundRow second = start_round(job, 2, {"pi-1"});
  second.rule_state = sha256("never");
  ASSERT_OK(store_->abandon_round(second, JobStatus::kRunning, "", event_at(400)));
  EXPECT_EQ((**store_->find_job(job)).rule_state, sha256("moments"))
      << "an abandoned one changes nothing";
  EXPECT_FALSE(*store_->names_state(sha256("never")));

  RoundRow again = start_round(job, 2, {"pi-1"}, 2);
  again.state = sha256("second");
  ASSERT_OK(store_->commit_round(again, JobStatus::kRunning, "", event_at(500)));
  EXPECT_EQ((**store_->find_job(job)).rule_state, std::nullopt);
}

TEST_F(StoreRounds, ATaskIsCarriedOverIntoLaterRoundsAndGivenOnce) {
  enrol("pi-1");
  enrol("pi-2");
  const std::string job = submit("demo");
  RoundRow first = start_round(job, 1, {"pi-1", "pi-2"});
  first.state = sha256("first");
  ASSERT_OK(store_->commit_round(first, JobStatus::kRunning, "", event_at(300)));

  RoundRow second = round_row(job, 2);
  second.phase = "training";
  ParticipantRow carried = participant_row(first, "pi-2");
  const std::string task = carried.task;
  carried.round = 2;
  EXPECT_ERROR(store_->begin_round(second, event_at(310), {carried}), kAlreadyExists,
               "duplicate");  // the same task given twice
  EXPECT_EQ(*store_->find_round(job, 2), std::nullopt);
  carried.began_round = 1;
  carried.began_attempt = 1;
  ASSERT_OK(store_->begin_round(second, event_at(310), {carried}));
  EXPECT_EQ(*store_->list_participants(job, 2, 1), (std::vector<ParticipantRow>{carried}));

  EXPECT_EQ(*store_->find_update_of_task(task, "pi-2"), std::nullopt);
  UpdateRow update = update_row(second, "pi-2");
  update.staleness = 1;
  ASSERT_OK(store_->accept_update(update, second, event_at(320)));
  EXPECT_EQ(*store_->find_update_of_task(task, "pi-2"), update);
  EXPECT_EQ(*store_->find_update_of_task(task, "pi-1"), std::nullopt);
  UpdateRow staler = update_row(second, "pi-1");
  EXPECT_ERROR(store_->accept_update(staler, second, event_at(330)), kFailedPrecondition,
               "not_selected");
}

}  // namespace
}  // namespace muster
