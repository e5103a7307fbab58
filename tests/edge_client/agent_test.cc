#include "edge_client/agent.h"

#include <gmock/gmock.h>

#include "tests/edge_client/agent_fixture.h"

namespace muster {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using Kind = AgentEvent::Kind;
using std::chrono::milliseconds;

TEST_F(AgentTest, TrainsSendsAndWaitsForMore) {
  Json checkin;
  on_checkin_ = [&](const ScriptedRequest& request) {
    if (checkins_++ > 0) return nothing();
    checkin = must(parse_json(request.body));
    return give(task());
  };
  Json statement;
  on_update_ = [&](const ScriptedRequest& request) {
    statement = must(parse_json(as_text(must(base64_decode(request.headers.at("muster-update"))))));
    return receipt(request);
  };
  options_.tags = {"arm"};
  start();
  EXPECT_THAT(wait_for(Kind::kConnected).text, HasSubstr("https://localhost:"));
  EXPECT_EQ(wait_for(Kind::kTraining).job, "job-1");
  EXPECT_EQ(wait_for(Kind::kProgress).steps_total, 1);
  const auto uploaded = wait_for(Kind::kUploaded);
  EXPECT_EQ(uploaded.round, 1);
  EXPECT_DOUBLE_EQ(uploaded.loss, 0.25);
  EXPECT_TRUE(stop());
  EXPECT_EQ(uploads(), std::vector{trained_digest()});
  EXPECT_FALSE(is_pending());
  EXPECT_EQ(checkin["tags"], Json({"arm"}));
  EXPECT_EQ(checkin["examples"], 5);
  EXPECT_EQ(checkin["wait_ms"], 20'000);
  EXPECT_EQ(statement["base"], state_digest(global_).hex());
  EXPECT_EQ(statement["metrics"], Json({{"loss", 0.25}})) << "only finite, named metrics";
}

TEST_F(AgentTest, EvaluatesAndReports) {
  on_checkin_ = [&](const ScriptedRequest&) {
    return checkins_++ == 0 ? give(task(protocol::TaskKind::kEvaluate)) : nothing();
  };
  Json result;
  on_result_ = [&](const ScriptedRequest& request) {
    EXPECT_EQ(request.path, "/v1/tasks/task-1/result");
    result = must(parse_json(request.body));
    return http(200, "{}");
  };
  start();
  EXPECT_DOUBLE_EQ(wait_for(Kind::kEvaluated).loss, 0.5);
  EXPECT_TRUE(stop());
  EXPECT_EQ(result, Json({{"examples", 7}, {"metrics", {{"loss", 0.5}}}}));
}

TEST_F(AgentTest, EndsAfterTheWantedNumberOfTasks) {
  on_checkin_ = [&](const ScriptedRequest&) { return give(task()); };
  options_.exit_after_tasks = 3;
  start();
  ASSERT_TRUE(wait_for_end());
  EXPECT_TRUE(stop());
  EXPECT_EQ(uploads().size(), 3U);
}

TEST_F(AgentTest, KeepsTheTwoNewestStates) {
  on_checkin_ = [&](const ScriptedRequest&) {
    set_global(static_cast<float>(++checkins_));
    return give(task());
  };
  options_.exit_after_tasks = 4;
  start();
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path() / "states"), {}), 2);
}

TEST_F(AgentTest, ServerGoneAndBackTheUpdateIsSentOnce) {
  Gate gone;
  std::atomic<bool> refuse = true;
  on_update_ = [&](const ScriptedRequest& request) {
    return refuse ? std::string() : receipt(request);
  };
  start();
  const int port = server_->port();
  EXPECT_FALSE(wait_for(Kind::kRetrying).text.empty());
  closing_.open();
  server_.reset();
  (void)wait_for(Kind::kRetrying);
  refuse = false;
  serve(port);
  EXPECT_EQ(wait_for(Kind::kUploaded).round, 1);
  EXPECT_TRUE(stop());
  EXPECT_EQ(trainer_.fits, 1);
  for (const Digest& digest : uploads()) EXPECT_EQ(digest, trained_digest());
}

TEST_F(AgentTest, ARefusalForGoodDropsTheUpdate) {
  for (const auto& [status, code] :
       std::vector<std::pair<int, std::string>>{{410, "round_closed"},
                                                {422, "non_finite"},
                                                {409, "stale_base"},
                                                {403, "not_selected"},
                                                {413, "body_too_large"}}) {
    checkins_ = 0;
    on_update_ = [&](const ScriptedRequest&) { return problem(status, code); };
    closing_.open();
    start();
    EXPECT_THAT(wait_for(Kind::kRefused).text, HasSubstr(code));
    EXPECT_TRUE(stop());
    EXPECT_FALSE(is_pending());
    identity_.reset();
  }
  EXPECT_EQ(uploads().size(), 5U) << "each was sent once";
}

TEST_F(AgentTest, P18_AServiceThatIsNotReadyIsLeftAloneForAsLongAsItAsks) {
  on_checkin_ = [&](const ScriptedRequest&) {
    return checkins_++ == 0 ? http(503, "", "text/plain", "Muster-Retry-After-Ms: 300\r\n")
                            : give(task());
  };
  start();
  const auto retrying = wait_for(Kind::kRetrying);
  EXPECT_GE(retrying.wait, milliseconds(300));
  EXPECT_LE(retrying.wait, milliseconds(375));
  (void)wait_for(Kind::kUploaded);
  EXPECT_TRUE(stop());
}

TEST_F(AgentTest, APauseThatTheServerAsksForIsKept) {
  std::chrono::steady_clock::time_point first, second;
  on_checkin_ = [&](const ScriptedRequest&) {
    const int number = checkins_++;
    if (number == 0) {
      first = std::chrono::steady_clock::now();
      return std::string("HTTP/1.1 204 X\r\nRetry-After: 1\r\nMuster-Retry-After-Ms: 200\r\n\r\n");
    }
    if (number == 1) second = std::chrono::steady_clock::now();
    return number == 1 ? give(task()) : nothing();
  };
  start();
  const auto waiting = wait_for(Kind::kWaiting);
  EXPECT_GE(waiting.wait, milliseconds(200));
  EXPECT_LE(waiting.wait, milliseconds(250));
  (void)wait_for(Kind::kUploaded);
  EXPECT_TRUE(stop());
  EXPECT_GE(second - first, milliseconds(200));
}

TEST_F(AgentTest, E05_ABadModelIsNotTrained) {
  set_global(std::nanf(""));
  start();
  EXPECT_THAT(wait_for(Kind::kDeclined).text, HasSubstr("model_rejected"));
  EXPECT_TRUE(stop());
  EXPECT_EQ(trainer_.fits, 0);
  EXPECT_TRUE(uploads().empty());
}

TEST_F(AgentTest, E05_AModelOfAnotherDigestIsNotTrained) {
  on_checkin_ = [&](const ScriptedRequest&) {
    auto wrong = task();
    wrong.state = sha256("another");
    return checkins_++ == 0 ? give(wrong) : nothing();
  };
  start();
  EXPECT_THAT(wait_for(Kind::kDeclined).text, HasSubstr("model_rejected"));
  EXPECT_TRUE(stop());
  EXPECT_EQ(trainer_.fits, 0);
}

TEST_F(AgentTest, E09_WithoutDataTheDeviceDeclines) {
  trainer_.examples = 0;
  start();
  EXPECT_THAT(wait_for(Kind::kDeclined).text, HasSubstr("no_data"));
  EXPECT_TRUE(stop());
  EXPECT_EQ(trainer_.fits, 0);
}

TEST_F(AgentTest, E10_NothingIsSentWhenTrainingTurnsNonFiniteOrFails) {
  const std::vector<std::function<Status(StateDict&, std::stop_token)>> hooks = {
      [](StateDict& state, std::stop_token) { return state.values()[1] = std::nanf(""), Status{}; },
      [](StateDict&, std::stop_token) {
        return Status(Error{ErrorCode::kFailedPrecondition, "the loss is NaN", "non_finite"});
      },
      [](StateDict& state, std::stop_token) {
        return state = StateDict(must(StateLayout::create({{"w", {4}}}))), Status{};
      },
      [](StateDict&, std::stop_token) -> Status { throw std::runtime_error("a library's"); }};
  closing_.open();
  for (const auto& hook : hooks) {
    checkins_ = 0;
    trainer_.fit_hook = hook;
    start();
    EXPECT_FALSE(wait_for(Kind::kDeclined).text.empty());
    EXPECT_TRUE(stop());
    identity_.reset();
  }
  EXPECT_TRUE(uploads().empty());
  EXPECT_FALSE(is_pending());
}

TEST_F(AgentTest, TrainingEndsAtTheDeadlineAndSendsNothing) {
  on_checkin_ = [&](const ScriptedRequest&) {
    auto short_task = task();
    short_task.deadline_ms = 50;
    return checkins_++ == 0 ? give(short_task) : nothing();
  };
  trainer_.fit_hook = [](StateDict&, std::stop_token stop) {
    Gate stopped;
    const std::stop_callback on_stop(stop, [&] { stopped.open(); });
    stopped.wait();
    return Status(Error{ErrorCode::kCancelled, "stopped"});
  };
  start();
  EXPECT_THAT(wait_for(Kind::kDeclined).text, HasSubstr("deadline"));
  EXPECT_TRUE(stop());
  EXPECT_TRUE(uploads().empty());
}

TEST_F(AgentTest, TrainingGetsTheTimeLeftLessSomeForSending) {
  start();
  (void)wait_for(Kind::kUploaded);
  EXPECT_TRUE(stop());
  // Of 60 s; half is the least, however long fetching took.
  EXPECT_LE(trainer_.budget_ms, 54'000);
  EXPECT_GE(trainer_.budget_ms, 10'000);
}

TEST_F(AgentTest, PartialWorkIsSent) {
  trainer_.complete = false;
  start();
  EXPECT_THAT(wait_for(Kind::kTraining).text, HasSubstr("training"));
  EXPECT_THAT(wait_for(Kind::kTraining).text, HasSubstr("ended after 1 steps"));
  (void)wait_for(Kind::kUploaded);
  EXPECT_TRUE(stop());
  EXPECT_EQ(uploads(), std::vector{trained_digest()});
}

TEST_F(AgentTest, E13_StopsWithinASecondInALongPoll) {
  Gate polled;
  on_checkin_ = [&](const ScriptedRequest&) {
    polled.open();
    return nothing();
  };
  start();
  ASSERT_TRUE(polled.wait());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(stop());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST_F(AgentTest, E13_StopsWithinASecondInTraining) {
  Gate training;
  trainer_.fit_hook = [&](StateDict&, std::stop_token stop) {
    training.open();
    Gate stopped;
    const std::stop_callback on_stop(stop, [&] { stopped.open(); });
    stopped.wait();
    return Status(Error{ErrorCode::kCancelled, "stopped"});
  };
  start();
  ASSERT_TRUE(training.wait());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(stop());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  EXPECT_TRUE(uploads().empty());
}

TEST_F(AgentTest, E08_ASecondAgentOnOneIdentityIsRefused) {
  start();
  (void)wait_for(Kind::kUploaded);
  TinyTrainer other;
  const auto second = run_agent(*identity_, other, options_, {}, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().reason, "locked");
  EXPECT_TRUE(stop());
}

TEST_F(AgentTest, TLS30_ARejectedCertificateEndsTheAgent) {
  const World others;
  server_ = std::make_unique<ScriptedServer>(
      world_.server, world_.authority.certificate(), &others.authority.certificate(),
      answering([](const ScriptedRequest&) { return http(200, "{}"); }));
  start();
  ASSERT_TRUE(wait_for_end());
  const auto ended = stop();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().reason, "certificate_rejected");
}

}  // namespace
}  // namespace muster
