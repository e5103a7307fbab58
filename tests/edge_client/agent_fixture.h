#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "core/tensor/safetensors.h"
#include "edge_client/agent.h"
#include "tests/edge_client/scripted_server.h"

namespace muster::testing {

// Adds one to every value; or does what the test puts in `fit_hook` and `evaluate_hook` first.
class TinyTrainer final : public LocalTrainer {
 public:
  std::int64_t num_examples() const override { return examples; }
  Result<FitResult> fit(const StateDict& global, const FitTask& task, std::stop_token stop,
                        const std::function<void(const FitProgress&)>& progress) override {
    ++fits;
    budget_ms = task.budget ? task.budget->count() : -1;
    mu = task.local.mu;
    offset.clear();
    if (task.gradient_offset != nullptr) {
      const auto values = task.gradient_offset->values();
      offset.assign(values.begin(), values.end());
    }
    StateDict state = global.clone();
    for (float& value : state.values()) value += 1;
    if (fit_hook) MUSTER_TRY_STATUS(fit_hook(state, stop));
    progress({1, 1, 0.25});
    FitResult result{.state = std::move(state),
                     .examples = 5,
                     .steps = 1,
                     .metrics = {{"loss", 0.25}, {"broken", std::nan("")}, {"bad name", 1}},
                     .complete = complete};
    if (task.report_initial_loss && knows_initial_loss) result.metrics["initial_loss"] = 0.75;
    return result;
  }
  Result<EvaluateResult> evaluate(const StateDict&, const FitTask&, std::stop_token) override {
    return EvaluateResult{7, {{"loss", 0.5}}};
  }

  bool takes_gradient_offset() const override { return takes_offset; }

  std::int64_t examples = 5;
  bool complete = true;
  bool takes_offset = true;
  bool knows_initial_loss = true;
  std::atomic<double> mu = 0;  // of the last task
  std::vector<float> offset;   // of the last task; only while nobody trains
  std::atomic<int> fits = 0;
  std::atomic<std::int64_t> budget_ms = -1;  // of the last task; -1: none
  std::function<Status(StateDict&, std::stop_token)> fit_hook;
};

// The scripted server's side of one round, and an agent in a thread.
class AgentTest : public ::testing::Test {
 protected:
  AgentTest() : global_(must(StateLayout::create({{"w", {3}}}))) { set_global(1); }
  ~AgentTest() override { (void)stop().has_value(); }

  void set_global(float value) {
    for (float& v : global_.values()) v = value;
  }
  // Served by default: one train task, its state, receipts; then nothing to do (a held long poll).
  std::string answer(const ScriptedRequest& request) {
    if (request.path == "/v1/checkin") return on_checkin_(request);
    if (request.path.starts_with("/v1/models/")) {
      if (control_ && request.path.ends_with(state_digest(*control_).hex()))
        return http(200, std::string(as_text(write_state(*control_))));
      return http(200, std::string(as_text(write_state(global_))));
    }
    if (request.path.starts_with("/v1/tasks/")) return on_result_(request);
    if (request.path.ends_with("/update")) {
      {
        const std::lock_guard lock(mutex_);
        uploads_.push_back(sha256(request.body));
        last_body_ = request.body;
      }
      return on_update_(request);
    }
    return problem(404, "not_found");
  }
  protocol::Task task(protocol::TaskKind kind = protocol::TaskKind::kTrain) const {
    protocol::Task task;
    task.kind = kind;
    task.id = "task-1";
    task.fit.job = "job-1";
    task.fit.round = 1;
    task.fit.model = {{"graph", Json::object()}};
    task.state = state_digest(global_);
    task.state_bytes = static_cast<std::int64_t>(write_state(global_).size());
    task.max_update_bytes = task.state_bytes + 4096;
    task.deadline_ms = 60'000;
    return task;
  }
  std::string give(const protocol::Task& task) const {
    return http(200, protocol::to_json(task).dump());
  }
  std::string nothing() {
    closing_.wait();
    return "HTTP/1.1 204 X\r\nMuster-Retry-After-Ms: 0\r\n\r\n";
  }
  static std::string receipt(const ScriptedRequest& request) {
    const auto text = must(base64_decode(request.headers.at("muster-update")));
    const auto sent = must(protocol::update_statement_from_json(must(parse_json(as_text(text)))));
    return http(200, protocol::to_json(protocol::Receipt{sent.job, sent.round, "device-01",
                                                         sent.digest, sent.examples, 1})
                         .dump());
  }

  void serve(int port = 0) {
    server_ = std::make_unique<ScriptedServer>(
        world_.server, world_.authority.certificate(), &world_.authority.certificate(),
        answering([this](const ScriptedRequest& request) { return answer(request); }), port);
  }
  void start() {
    if (!server_) serve();
    if (!identity_) identity_.emplace(world_.identity(folder_.path(), server_->port()));
    {
      const std::lock_guard lock(mutex_);
      events_.clear();
      ended_ = false;
    }
    options_.folder = folder_.path();
    options_.backoff_first = std::chrono::milliseconds(20);
    options_.backoff_most = std::chrono::milliseconds(100);
    thread_ = std::jthread([this](std::stop_token stop) {
      result_ = run_agent(*identity_, trainer_, options_, stop,
                          [this](const AgentEvent& event) { note(event); });
      const std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    });
  }
  // Stops the agent; its result.
  Status stop() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
    closing_.open();
    server_.reset();
    return result_;
  }
  bool wait_for_end() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return ended_; });
  }
  // The first event of that kind that nobody waited for yet.
  AgentEvent wait_for(AgentEvent::Kind kind) {
    std::unique_lock lock(mutex_);
    while (true) {
      while (!events_.empty()) {
        const AgentEvent event = events_.front();
        events_.pop_front();
        if (event.kind == kind) return event;
      }
      if (changed_.wait_for(lock, std::chrono::seconds(20)) == std::cv_status::timeout) {
        ADD_FAILURE() << "the event did not come: " << static_cast<int>(kind);
        return {};
      }
    }
  }
  std::string last_body() {
    const std::lock_guard lock(mutex_);
    return last_body_;
  }
  std::vector<Digest> uploads() {
    const std::lock_guard lock(mutex_);
    return uploads_;
  }
  Digest trained_digest() const {
    StateDict trained = global_.clone();
    for (float& value : trained.values()) value += 1;
    return state_digest(trained);
  }
  bool is_pending() const {
    return std::filesystem::exists(folder_.path() / "pending" / "statement.json");
  }

  World world_;
  TemporaryFolder folder_;
  StateDict global_;
  std::optional<StateDict> control_;  // SCAFFOLD's, as the server keeps it
  TinyTrainer trainer_;
  AgentOptions options_;
  std::atomic<int> checkins_ = 0;
  std::function<std::string(const ScriptedRequest&)> on_checkin_ = [this](const ScriptedRequest&) {
    return checkins_++ == 0 ? give(task()) : nothing();
  };
  std::function<std::string(const ScriptedRequest&)> on_update_ = receipt;
  std::function<std::string(const ScriptedRequest&)> on_result_ = [](const ScriptedRequest&) {
    return http(200, "{}");
  };
  Gate closing_;
  std::optional<DeviceIdentity> identity_;
  std::unique_ptr<ScriptedServer> server_;

 private:
  void note(const AgentEvent& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<AgentEvent> events_;
  std::vector<Digest> uploads_;
  std::string last_body_;
  bool ended_ = false;
  Status result_;
  std::jthread thread_;
};

}  // namespace muster::testing
