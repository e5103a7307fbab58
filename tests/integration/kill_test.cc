#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include "core/base/file.h"
#include "storage/store.h"
#include "tests/support/federation.h"
#include "tests/support/process.h"

// kill -9 of real processes: the server in the middle of a round, a device in the middle of its
// training.
namespace muster {
namespace {

using muster::testing::free_port;
using muster::testing::Outcome;
using muster::testing::Process;
using muster::testing::run;
using muster::testing::small_job;
using muster::testing::take;
using muster::testing::TemporaryFolder;
using muster::testing::write_csv;

// A server and devices as processes of the two programs.
class Processes {
 public:
  explicit Processes(int devices)
      : devices_(devices), api_port_(free_port()), enroll_port_(free_port()) {
    file_ = write_csv(folder_.path(), 300, 3);
    must({MUSTER_BINARY, "init", root(), "--host", "localhost", "--port", std::to_string(api_port_),
          "--enroll-port", std::to_string(enroll_port_)});
    start_server();
    const Json codes =
        take(parse_json(muster({"token", "create", "--uses", std::to_string(devices), "--json"})))
            .at("codes");
    for (int i = 0; i < devices; ++i) {
      must({MUSTER_EDGE_BINARY, "enroll", "--server",
            fmt::format("https://localhost:{}", enroll_port_), "--code",
            codes[static_cast<std::size_t>(i)].get<std::string>(), "--dir", device_folder(i),
            "--name", device_name(i)});
    }
  }

  void start_server() {
    server_ = std::make_unique<Process>(std::vector<std::string>{MUSTER_BINARY, "serve", root()},
                                        folder_.path() / "server");
    server_->wait_for_output("serves");
  }
  void kill_server() {
    server_->signal(SIGKILL);
    EXPECT_EQ(server_->wait(), 128 + SIGKILL);
  }

  void start_device(int i) {
    const std::string data =
        fmt::format("csv:{};target=label;shard={}/{};seed=1", file_.string(), i, devices_);
    running_[i] =
        std::make_unique<Process>(std::vector<std::string>{MUSTER_EDGE_BINARY, "run", "--dir",
                                                           device_folder(i), "--data", data},
                                  folder_.path() / device_name(i));
  }
  void start_devices() {
    for (int i = 0; i < devices_; ++i) start_device(i);
  }
  void kill_device(int i) {
    running_.at(i)->signal(SIGKILL);
    EXPECT_EQ(running_.at(i)->wait(), 128 + SIGKILL);
  }

  std::string submit(const Json& job) {
    const auto path = folder_.path() / "job.json";
    take(write_file_durably(path, as_bytes(job.dump())));
    return take(parse_json(muster({"job", "submit", path.string(), "--json"}))).at("job");
  }
  Json job(const std::string& id) {
    return take(parse_json(muster({"job", "show", id, "--json"}), {.bytes = 1 << 22, .depth = 64}));
  }
  Json rounds(const std::string& id) {
    return take(
               parse_json(muster({"round", "list", id, "--json"}), {.bytes = 1 << 22, .depth = 64}))
        .at("rounds");
  }

  Json wait_until(const std::string& id, const std::function<bool(const Json&)>& holds,
                  std::chrono::seconds limit = std::chrono::seconds(90)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (true) {
      const Json now = job(id);
      if (holds(now)) return now;
      if (std::chrono::steady_clock::now() > end)
        throw std::runtime_error("waited too long: " + now.dump(2));
    }
  }

  std::string root() const { return (folder_.path() / "server-dir").string(); }
  static std::string device_name(int i) { return fmt::format("device-{}", i); }
  std::string device_folder(int i) const {
    return (folder_.path() / fmt::format("dir-{}", i)).string();
  }
  void stop_server() {
    server_->signal(SIGTERM);
    EXPECT_EQ(server_->wait(), 0) << server_->errors();
  }

 private:
  std::string must(const std::vector<std::string>& arguments) {
    const Outcome outcome = run(arguments, folder_.path(), {{"MUSTER_DIR", root()}});
    if (outcome.exit_code != 0)
      throw std::runtime_error(
          fmt::format("{} {}: {}", arguments[0], arguments[1], outcome.errors));
    return outcome.output;
  }
  std::string muster(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), MUSTER_BINARY);
    return must(arguments);
  }

  int devices_;
  TemporaryFolder folder_;
  int api_port_, enroll_port_;
  std::filesystem::path file_;
  std::unique_ptr<Process> server_;
  std::map<int, std::unique_ptr<Process>> running_;
};

// Enough local work that a round can be caught in the middle.
Json slow_job(int devices, int rounds) {
  Json job = small_job(devices, rounds);
  job["local"]["epochs"] = 8'000;
  job["local"]["batch_size"] = 1;
  return job;
}

// Every committed round has exactly one accepted update of each of its participants, and their
// number is what was aggregated.
void expect_each_update_counted_once(const std::string& root, const std::string& job, int devices) {
  const auto store = take(Store::open(std::filesystem::path(root) / "muster.db"));
  for (const RoundRow& round : take(store->list_rounds(job))) {
    if (round.phase != "committed") continue;
    std::multiset<std::string> counted;
    for (const UpdateRow& update : take(store->list_updates(job, round.round))) {
      if (update.accepted && update.attempt == round.attempt) counted.insert(update.device);
    }
    std::multiset<std::string> invited;
    for (const ParticipantRow& row :
         take(store->list_participants(job, round.round, round.attempt)))
      invited.insert(row.device);
    EXPECT_EQ(counted, invited) << "round " << round.round;
    EXPECT_EQ(static_cast<int>(counted.size()), devices);
    EXPECT_EQ(round.metrics.at("updates"), devices);
  }
}

TEST(Kill, AServerKilledInTheMiddleOfRoundsLosesNothingAndEndsWithTheSameStates) {
  constexpr int kDevices = 3;
  constexpr int kRounds = 6;
  constexpr int kKills = 3;
  Json undisturbed;
  {
    Processes processes(kDevices);
    processes.start_devices();
    const std::string id = processes.submit(slow_job(kDevices, kRounds));
    EXPECT_EQ(
        processes.wait_until(id, [](const Json& job) { return job.at("status") != "running"; })
            .at("status"),
        "finished");
    undisturbed = processes.rounds(id);
  }

  Processes processes(kDevices);
  processes.start_devices();
  const std::string id = processes.submit(slow_job(kDevices, kRounds));
  for (int kills = 0; kills < kKills; ++kills) {
    // In the middle: some updates are acknowledged, some are not, or devices are training.
    const Json caught = processes.wait_until(id, [&](const Json& job) {
      const Json& live = job.at("live");
      if (job.at("status") != "running")
        throw std::runtime_error("the job ended before the server was killed");
      return job.at("rounds_committed").get<int>() >= kills && live.is_object() &&
             live.at("phase") == "training" && (kills % 2 == 1 || !live.at("reported").empty());
    });
    processes.kill_server();
    processes.start_server();
    const Json after = processes.job(id);
    // The round may have ended between the look and the kill; it never goes back.
    EXPECT_GE(after.at("live").at("round").get<int>(), caught.at("live").at("round").get<int>());
    for (const Json& device : caught.at("live").at("reported")) {
      const bool still_counted = after.at("rounds_committed") != caught.at("rounds_committed") ||
                                 std::ranges::count(after.at("live").at("reported"), device) == 1;
      EXPECT_TRUE(still_counted) << "the acknowledged update of " << device << " was lost";
    }
  }
  const Json ended =
      processes.wait_until(id, [](const Json& job) { return job.at("status") != "running"; });
  EXPECT_EQ(ended.at("status"), "finished");
  const Json rounds = processes.rounds(id);
  ASSERT_EQ(rounds.size(), undisturbed.size()) << rounds.dump(1);
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    EXPECT_EQ(rounds[i].at("phase"), "committed");
    EXPECT_EQ(rounds[i].at("state"), undisturbed[i].at("state")) << "round " << i + 1;
  }
  processes.stop_server();
  expect_each_update_counted_once(processes.root(), id, kDevices);
}

TEST(Kill, ARoundEndsAtItsDeadlineWithoutAKilledDevice) {
  Processes processes(3);
  processes.start_devices();
  Json job = slow_job(3, 2);
  job["round"] = {{"deadline_s", 4}, {"min_updates", 2}, {"selection_window_s", 3}};
  job["evaluation"] = {{"federated", false}};
  const std::string id = processes.submit(job);
  processes.wait_until(id, [](const Json& now) {
    return now.at("live").is_object() && now.at("live").at("phase") == "training";
  });
  processes.kill_device(1);
  const Json ended =
      processes.wait_until(id, [](const Json& now) { return now.at("status") != "running"; });
  EXPECT_EQ(ended.at("status"), "finished") << ended.dump(2);
  const Json rounds = processes.rounds(id);
  for (const Json& round : rounds) {
    EXPECT_EQ(round.at("phase"), "committed");
    EXPECT_GE(round.at("metrics").at("updates").get<int>(), 2);
  }
  EXPECT_EQ(rounds.back().at("metrics").at("updates"), 2) << "the killed device was counted";
}

TEST(Kill, AKilledDeviceComesBackAndFinishesItsRound) {
  Processes processes(2);
  processes.start_devices();
  Json job = slow_job(2, 3);
  const std::string id = processes.submit(job);
  processes.wait_until(id, [](const Json& now) {
    return now.at("live").is_object() && now.at("live").at("phase") == "training";
  });
  processes.kill_device(0);
  processes.start_device(0);
  const Json ended =
      processes.wait_until(id, [](const Json& now) { return now.at("status") != "running"; });
  EXPECT_EQ(ended.at("status"), "finished");
  processes.stop_server();
  expect_each_update_counted_once(processes.root(), id, 2);
}

}  // namespace
}  // namespace muster
