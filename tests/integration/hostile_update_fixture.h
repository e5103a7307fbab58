#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensor/safetensors.h"
#include "storage/state_files.h"
#include "tests/integration/raw_client.h"

namespace muster::testing {

// Round 1 of a job is open for two devices: mallory, and one that only ever sends what it should.
class HostileUpdate : public ::testing::Test {
 protected:
  static constexpr std::int64_t kMaxExamples = 1'000;

  HostileUpdate() {
    Json wanted = small_job(2, 2);
    wanted["evaluation"] = {{"federated", false}};
    job = federation.submit(wanted);
    const auto tasks = tasks_of({&mallory, &honest});
    task = tasks[0];
    honest_task = tasks[1];
    layout = mallory.state_of(task).layout_ptr();
  }

  // A good update of mallory's, to be bent.
  Upload good() const { return upload_for(task, *layout, 1.0F, 30); }
  Upload of(std::vector<RawTensor> tensors) const {
    Upload upload = good();
    upload.set_body(safetensors_of(tensors));
    return upload;
  }
  void expect_refused(const Upload& upload, const std::string& wanted) {
    EXPECT_EQ(outcome(mallory.send(upload)), wanted);
  }

  // Both send what they should. Ones of weight 3 and fives of weight 1 are twos: nothing else got
  // in. `reasons` are what the round's history says of mallory's other tries, in their order.
  void expect_commit_of_the_good_updates(const std::vector<std::string>& reasons) {
    EXPECT_EQ(federation.get_json("/v1/jobs/" + job).at("rounds_committed"), 0);
    EXPECT_EQ(outcome(mallory.send(good())), "200");
    EXPECT_EQ(outcome(honest.send(upload_for(honest_task, *layout, 5.0F, 10))), "200");
    expect_committed_twos(reasons);
  }
  void expect_committed_twos(const std::vector<std::string>& reasons) {
    federation.wait_until(job, [](const Json& now) { return now.at("rounds_committed") == 1; });
    const Json round = federation.get_json("/v1/jobs/" + job + "/rounds/1");
    EXPECT_EQ(round.at("metrics").at("updates"), 2);
    EXPECT_EQ(round.at("metrics").at("examples"), 40);
    for (const Json& participant : round.at("participants"))
      EXPECT_EQ(participant.at("verdict"), "accepted");
    EXPECT_EQ(refused_reasons(federation, job, 1, "mallory"), reasons);
    EXPECT_EQ(logged_refusals("mallory"), reasons);
    const auto states = take(StateFiles::open(federation.root() / "states"));
    const StateDict state =
        take(states.read(take(Digest::from_hex(round.at("state").get<std::string>()))));
    for (const float value : state.values()) EXPECT_EQ(value, 2.0F);
  }

  // The reasons in the job's event log: one entry a refusal.
  std::vector<std::string> logged_refusals(const std::string& device) {
    std::vector<std::string> reasons;
    const Json events = federation.get_json("/v1/jobs/" + job + "/events").at("events");
    for (const Json& event : events) {
      if (event.at("kind") == "update_refused" && event.at("actor") == device &&
          event.at("round") == 1)
        reasons.push_back(event.at("details").at("reason"));
    }
    return reasons;
  }
  // Files are removed by another thread than the one that answers.
  bool spool_becomes_empty() {
    const auto end = SteadyClock::now() + kPatience;
    while (!std::filesystem::is_empty(federation.root() / "spool")) {
      if (SteadyClock::now() > end) return false;
      federation.get_json("/v1/jobs");
    }
    return true;
  }

  Federation federation{[](Json& config) { config["max_examples"] = kMaxExamples; }};
  HandDevice mallory{federation, "mallory"};
  HandDevice honest{federation, "honest"};
  std::string job;
  protocol::Task task, honest_task;
  LayoutPtr layout;
};

}  // namespace muster::testing
