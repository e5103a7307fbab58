#include "server/cli/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "server/cli/text.h"

namespace muster::cli {
namespace {

constexpr std::chrono::milliseconds kPollEvery{250};
constexpr std::chrono::seconds kServerAway{60};
constexpr std::size_t kBarWidth = 24;

// The bar counts rounds, and within one the devices that reported.
double progress(const Json& job) {
  const auto rounds = job.at("rounds").get<double>();
  auto done = job.at("rounds_committed").get<double>();
  if (const Json& live = job.at("live");
      live.is_object() && live.contains("invited") && !live.at("invited").empty()) {
    done += static_cast<double>(live.at("reported").size()) /
            static_cast<double>(live.at("invited").size());
  }
  return std::min(1.0, done / rounds);
}

std::string live_line(const Json& job) {
  const Json& live = job.at("live");
  const Json& evaluated = job.at("last_evaluated");
  const Json metrics = evaluated.is_object() ? evaluated.at("metrics") : Json();
  const Json last = job.at("last_round").is_object() ? job.at("last_round").at("metrics") : Json();
  std::string devices = "-";
  std::string phase = job.at("status").get<std::string>();
  std::int64_t bytes =
      job.at("bytes_up").get<std::int64_t>() + job.at("bytes_down").get<std::int64_t>();
  if (live.is_object()) {
    phase = live.at("phase").get<std::string>();
    if (live.contains("reported")) {
      devices = phase == "selecting" ? fmt::format("{} waiting", live.at("candidates").size())
                                     : fmt::format("{}/{} in", live.at("reported").size(),
                                                   live.at("invited").size());
    }
  }
  const std::string left = job.contains("time_left_ms")
                               ? duration_text(job.at("time_left_ms").get<std::int64_t>())
                               : "-";
  return fmt::format("{} {} round {}/{} {} | {} | loss {} | acc {} | {} | {} left",
                     job.at("job").get<std::string>(), bar_text(progress(job), kBarWidth),
                     std::min(job.at("rounds_committed").get<std::int64_t>() + 1,
                              job.at("rounds").get<std::int64_t>()),
                     job.at("rounds").get<std::int64_t>(), phase, devices,
                     metric_text(last, "train_loss"),
                     metric_text(metrics, metrics.is_object() && metrics.contains("test_accuracy")
                                              ? "test_accuracy"
                                              : "eval_accuracy"),
                     bytes_text(bytes), left);
}

std::string round_line(const Json& round, const Json& job) {
  const Json& metrics = round.at("metrics");
  const std::int64_t took =
      round.at("ended_at_ms").get<std::int64_t>() - round.at("started_at_ms").get<std::int64_t>();
  return fmt::format(
      "round {:>3}/{}  {:>3} devices  loss {}  test acc {}  device acc {}  {:>9} up  {:>9} down  "
      "{:>7}",
      round.at("round").get<std::int64_t>(), job.at("rounds").get<std::int64_t>(),
      metrics.value("updates", std::int64_t{0}), metric_text(metrics, "train_loss"),
      metric_text(metrics, "test_accuracy"), metric_text(metrics, "eval_accuracy"),
      bytes_text(round.at("bytes_up").get<std::int64_t>()),
      bytes_text(round.at("bytes_down").get<std::int64_t>()), duration_text(took));
}

// Prints rounds as they are committed and evaluated, and keeps the live line below them.
class Display {
 public:
  explicit Display(bool json) : json_(json), live_(!json && is_terminal()) {}

  void show(const Json& job, const Json& rounds) {
    clear_live_line();
    for (const Json& round : rounds.at("rounds")) show_round(round, job);
    if (live_) {
      print(live_line(job));
      drawn_ = true;
    }
  }

  void end() { clear_live_line(); }

 private:
  void show_round(const Json& round, const Json& job) {
    const std::string phase = round.at("phase").get<std::string>();
    const auto key =
        std::pair(round.at("round").get<std::int64_t>(), round.at("attempt").get<std::int64_t>());
    if (phase == "abandoned" && shown_.insert(key).second) {
      print(json_ ? round.dump() + "\n"
                  : fmt::format("round {:>3} attempt {} abandoned: {}\n", key.first, key.second,
                                round.at("reason").get<std::string>()));
    }
    if (phase != "committed" || shown_.contains(key)) return;
    // A round's evaluation comes after its commit; it is waited for until the next round is
    // committed or the job has ended.
    const bool later =
        job.at("rounds_committed").get<std::int64_t>() > key.first || job.at("status") != "running";
    const Json& metrics = round.at("metrics");
    if (!later && !(metrics.contains("test_examples") && metrics.contains("eval_examples"))) return;
    shown_.insert(key);
    print(json_ ? round.dump() + "\n" : round_line(round, job) + "\n");
  }

  void clear_live_line() {
    if (drawn_) print("\r\x1b[K");
    drawn_ = false;
  }

  bool json_;
  bool live_;
  bool drawn_ = false;
  std::set<std::pair<std::int64_t, std::int64_t>> shown_;
};

}  // namespace

Status watch_job(OperatorClient& client, const std::string& job_id, bool json) {
  Display display(json);
  auto last_answer = std::chrono::steady_clock::now();
  while (true) {
    Result<Json> job = client.get("/v1/jobs/" + job_id);
    Result<Json> rounds = job ? client.get("/v1/jobs/" + job_id + "/rounds") : job;
    if (!rounds) {
      const bool away = rounds.error().code == ErrorCode::kUnavailable ||
                        rounds.error().code == ErrorCode::kDeadlineExceeded;
      if (!away || std::chrono::steady_clock::now() - last_answer > kServerAway) {
        display.end();
        return rounds.error();
      }
      std::this_thread::sleep_for(kPollEvery);
      continue;
    }
    last_answer = std::chrono::steady_clock::now();
    display.show(*job, *rounds);
    MUSTER_TRY_STATUS(check_printed());  // nobody reads any more
    const std::string status = job->at("status").get<std::string>();
    if (status != "running") {
      display.end();
      const std::string reason = job->at("status_reason").get<std::string>();
      if (status == "finished") {
        if (!json)
          print(fmt::format("{} finished in {}: {}\n", job_id,
                            duration_text(job->at("elapsed_ms").get<std::int64_t>()), reason));
        return {};
      }
      return Error{ErrorCode::kFailedPrecondition,
                   fmt::format("{} is {}: {}", job_id, status, reason), "job_" + status};
    }
    std::this_thread::sleep_for(kPollEvery);
  }
}

}  // namespace muster::cli
