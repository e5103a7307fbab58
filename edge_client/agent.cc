#include "edge_client/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "core/aggregate/encoding/update_encoding.h"
#include "core/base/file.h"
#include "core/base/names.h"
#include "core/base/random.h"
#include "edge_client/corrected_training.h"
#include "edge_client/identity_files.h"
#include "edge_client/pending_update.h"
#include "edge_client/task_stop.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Kind = AgentEvent::Kind;
using std::chrono::milliseconds;

constexpr std::size_t kStatesKept = 2;
constexpr std::size_t kMostMetrics = 32;
constexpr milliseconds kShortestWait{50};
constexpr milliseconds kProgressInterval{200};

// Trainers are other people's code.
template <typename Call>
auto guarded(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& exception) {
    return Error{ErrorCode::kInternal, fmt::format("the trainer threw: {}", exception.what()),
                 "trainer_threw"};
  }
}

// The server has decided, and would decide the same again.
bool is_final(const Error& error) {
  if (error.reason == "unexpected_answer" || error.reason == "reply_too_large") return false;
  switch (error.code) {
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kCancelled:
    case ErrorCode::kUnauthenticated:
      return false;
    default:
      return true;
  }
}

bool ends_agent(const Error& error) {
  return error.reason == "server_not_verified" || error.reason == "certificate_rejected";
}

bool is_about_model(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kDataLoss;
}

Metrics usable(const Metrics& metrics) {
  Metrics kept;
  for (const auto& [name, value] : metrics) {
    if (kept.size() < kMostMetrics && is_name(name) && std::isfinite(value))
      kept.emplace(name, value);
  }
  return kept;
}

// The part of the time left that training may take. The rest is for sending: a tenth, or twice what
// fetching the model took where that is longer, but no more than half.
milliseconds time_to_train(Clock::duration left, Clock::duration fetching) {
  const Clock::duration reserve = std::min(left / 2, std::max(left / 10, 2 * fetching));
  return std::chrono::duration_cast<milliseconds>(left - reserve);
}

// NaN where there is none.
double loss_of(const Metrics& metrics) {
  const auto loss = metrics.find("loss");
  return loss == metrics.end() ? std::numeric_limits<double>::quiet_NaN() : loss->second;
}

std::uint64_t seed_of(const DeviceIdentity& identity) {
  return load_le64(identity.certificate.fingerprint().bytes) ^
         static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
}

class Agent {
 public:
  Agent(const DeviceIdentity& identity, LocalTrainer& trainer, const AgentOptions& options,
        PendingUpdate pending, KeptStates kept, std::stop_token stop,
        const std::function<void(const AgentEvent&)>& report)
      : identity_(identity),
        trainer_(trainer),
        options_(options),
        pending_(std::move(pending)),
        kept_(std::move(kept)),
        stop_(std::move(stop)),
        report_(report),
        client_(identity),
        backoff_(options.backoff_first, options.backoff_most, seed_of(identity)),
        jitter_(seed_of(identity) + 1) {}

  Status run() {
    const std::stop_callback interrupt(stop_, [this] { client_.transport().interrupt(); });
    while (!stop_.stop_requested()) {
      const auto next = step();
      if (stop_.stop_requested()) break;
      if (!next && ends_agent(next.error())) return next.error();
      if (options_.exit_after_tasks > 0 && tasks_ >= options_.exit_after_tasks) break;
      if (!next) {
        retry_later(next.error());
      } else if (*next == Next::kBackOff) {
        wait_unless_stopped(stop_, backoff_.next());
      } else {
        backoff_.reset();
      }
    }
    report({.kind = Kind::kStopped, .text = "stopped"});
    return {};
  }

 private:
  enum class Next { kGoOn, kBackOff };

  // One turn: send what is left over, or ask for a task and do it. Errors are those worth another
  // try, and those that end the agent.
  Result<Next> step() {
    if (const auto statement = pending_.read()) return send(*statement);
    const protocol::CheckinRequest request{options_.tags, trainer_.num_examples(),
                                           options_.long_poll.count()};
    const auto asked = Clock::now();
    MUSTER_TRY(const auto answer, client_.check_in(request));
    if (!connected_)
      report({.kind = Kind::kConnected, .text = "connected to " + identity_.server.text()});
    connected_ = true;
    if (!answer.task) return wait_for_work(answer.retry_after, Clock::now() - asked);
    waiting_ = false;
    const auto& task = *answer.task;
    return task.kind == protocol::TaskKind::kTrain ? train(task) : evaluate(task);
  }

  Result<Next> wait_for_work(milliseconds asked_for, Clock::duration held_back) {
    milliseconds wait = with_jitter(asked_for);
    if (held_back < options_.long_poll / 2) wait = std::max(wait, with_jitter(kShortestWait));
    if (!waiting_) report({.kind = Kind::kWaiting, .text = "waiting for work", .wait = wait});
    waiting_ = true;
    wait_unless_stopped(stop_, wait);
    return Next::kGoOn;
  }

  Result<Next> train(const protocol::Task& task) {
    const auto asked = Clock::now();
    const auto deadline = asked + milliseconds(task.deadline_ms);
    if (trainer_.num_examples() < 1)
      return decline(task, "no_data: this device holds no training examples");
    if (auto able = check_trainer(task, trainer_); !able)
      return decline(task, able.error().message);
    auto global = fetch(task);
    if (!global) return model_rejected(task, std::move(global).error());
    auto control = fetch_control(task, *global);
    if (!control) return model_rejected(task, std::move(control).error());
    auto training = CorrectedTraining::prepare(
        task, *global, *std::move(control), kept_,
        [&](const auto& text) { report(event(task, Kind::kTraining, text)); });
    report(event(task, Kind::kTraining, "training"));
    FitTask work = training.fit_task();
    work.budget = time_to_train(deadline - Clock::now(), Clock::now() - asked);
    const TaskStop task_stop(stop_, deadline);
    auto fitted = guarded([&]() -> Result<FitResult> {
      return trainer_.fit(*global, work, task_stop.token(),
                          [&](const FitProgress& progress) { show(task, progress); });
    });
    if (stop_.stop_requested()) return decline(task, "stopped before the training was done");
    if (task_stop.deadline_passed())
      return decline(task, "the round's deadline passed before the training was done");
    if (!fitted) return decline(task, "nothing is sent: " + fitted.error().message);
    if (auto checked = check(*fitted, *global); !checked) {
      return decline(task, "nothing is sent: " + checked.error().message);
    }
    if (!fitted->complete) {
      report(event(
          task, Kind::kTraining,
          fmt::format("the time ended after {} steps: the partial work is sent", fitted->steps)));
    }
    fitted->metrics = usable(fitted->metrics);
    return store_and_send(task, *std::move(fitted), std::move(training));
  }

  Result<Next> store_and_send(const protocol::Task& task, FitResult fitted,
                              CorrectedTraining training) {
    const auto ready = std::move(training).finish(fitted);
    if (!ready) return decline(task, "nothing is sent: " + ready.error().message);
    protocol::UpdateStatement statement{.job = task.fit.job,
                                        .round = task.fit.round,
                                        .attempt = task.attempt,
                                        .task = task.id,
                                        .base = task.state,
                                        .digest = {},
                                        .examples = fitted.examples,
                                        .steps = fitted.steps,
                                        .metrics = std::move(fitted.metrics)};
    if (auto kept = pending_.write(statement, ready->body, ready->kept); !kept) {
      return decline(task, "the update cannot be stored: " + kept.error().message);
    }
    return send(statement);
  }

  static Status check(const FitResult& fitted, const StateDict& global) {
    if (fitted.examples < 1 || fitted.steps < 0) {
      return Error{ErrorCode::kFailedPrecondition,
                   fmt::format("the trainer reports {} examples and {} steps", fitted.examples,
                               fitted.steps)};
    }
    MUSTER_TRY_STATUS(check_same_layout(global.layout(), fitted.state.layout()));
    return check_finite(fitted.state.layout(), fitted.state.values());
  }

  Result<StateDict> fetch_file(const Digest& digest, std::int64_t bytes) {
    if (bytes < 0 || static_cast<std::uint64_t>(bytes) > options_.max_state_bytes) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("the model has {} bytes, at most {} are taken", bytes,
                               options_.max_state_bytes)};
    }
    const auto folder = options_.folder / identity_files::kStates;
    MUSTER_TRY(StateDict state,
               client_.fetch_state(digest, static_cast<std::uint64_t>(bytes), folder));
    remove_old_states(folder, kStatesKept);
    return state;
  }

  // What SCAFFOLD's server sends beside the model; nothing where it sends none.
  Result<std::optional<StateDict>> fetch_control(const protocol::Task& task,
                                                 const StateDict& global) {
    if (!task.control) return std::nullopt;
    MUSTER_TRY_IN("control state", const StateDict state,
                  fetch_file(*task.control, task.control_bytes));
    MUSTER_TRY_IN("control state", StateDict control, control_of(state, global.layout_ptr()));
    return control;
  }

  Result<StateDict> fetch(const protocol::Task& task) {
    MUSTER_TRY(StateDict state, fetch_file(task.state, task.state_bytes));
    MUSTER_TRY_STATUS(check_finite(state.layout(), state.values()));
    const auto wanted = most_body_bytes(task.encoding, state.layout());
    if (task.kind == protocol::TaskKind::kTrain &&
        wanted > static_cast<std::uint64_t>(std::max<std::int64_t>(task.max_update_bytes, 0))) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("an update has up to {} bytes, the task allows {}", wanted,
                               task.max_update_bytes)};
    }
    return state;
  }

  Result<Next> send(const protocol::UpdateStatement& statement) {
    AgentEvent event{
        .job = statement.job, .round = statement.round, .loss = loss_of(statement.metrics)};
    const auto receipt = client_.send_update(statement, pending_.body());
    if (receipt) {
      const Status kept = pending_.accept(statement.job);
      ++tasks_;
      event.kind = Kind::kUploaded;
      event.text = fmt::format("update of {} examples accepted", receipt->examples);
      if (!kept) event.text += "; nothing is kept for the next round: " + kept.error().message;
      report(event);
      return Next::kGoOn;
    }
    if (!is_final(receipt.error())) return receipt.error();
    pending_.remove();
    ++tasks_;
    event.kind = Kind::kRefused;
    event.text = "update refused and dropped: " + receipt.error().message;
    report(event);
    return Next::kBackOff;
  }

  Result<Next> evaluate(const protocol::Task& task) {
    const auto deadline = Clock::now() + milliseconds(task.deadline_ms);
    auto global = fetch(task);
    if (!global) return model_rejected(task, std::move(global).error());
    const TaskStop task_stop(stop_, deadline);
    auto result = guarded([&] { return trainer_.evaluate(*global, task.fit, task_stop.token()); });
    if (stop_.stop_requested() || task_stop.deadline_passed())
      return decline(task, "the evaluation was not done in time");
    if (!result) return decline(task, result.error().message);
    result->metrics = usable(result->metrics);
    auto sent = client_.send_result(task.id, *result);
    while (!sent && !is_final(sent.error()) && !ends_agent(sent.error()) &&
           !task_stop.token().stop_requested()) {
      retry_later(sent.error());
      sent = client_.send_result(task.id, *result);
    }
    if (!sent && !is_final(sent.error())) return sent.error();
    ++tasks_;
    AgentEvent done = event(task, sent ? Kind::kEvaluated : Kind::kRefused,
                            sent ? fmt::format("evaluated on {} examples", result->examples)
                                 : "evaluation refused: " + sent.error().message);
    done.loss = loss_of(result->metrics);
    report(done);
    return sent ? Next::kGoOn : Next::kBackOff;
  }

  Result<Next> model_rejected(const protocol::Task& task, Error error) {
    if (!is_about_model(error) && !is_final(error)) return error;
    return decline(task, "model_rejected: " + error.message);
  }

  Result<Next> decline(const protocol::Task& task, std::string why) {
    report(event(task, Kind::kDeclined, std::move(why)));
    return Next::kBackOff;
  }

  // Waits before the next try: the back-off, or longer when the server asked for it.
  void retry_later(const Error& error) {
    milliseconds wait = backoff_.next();
    if (const auto asked = client_.retry_after()) wait = std::max(wait, with_jitter(*asked));
    connected_ = waiting_ = false;
    report({.kind = Kind::kRetrying, .text = error.message, .wait = wait});
    wait_unless_stopped(stop_, wait);
  }

  // Never earlier than asked, and up to a quarter later.
  milliseconds with_jitter(milliseconds time) {
    const auto quarter = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count() / 4, 0));
    return time + milliseconds(static_cast<std::int64_t>(jitter_.below(quarter + 1)));
  }

  void show(const protocol::Task& task, const FitProgress& progress) {
    const auto now = Clock::now();
    if (progress.steps_done < progress.steps_total && now - shown_ < kProgressInterval) return;
    shown_ = now;
    AgentEvent shown = event(task, Kind::kProgress, "training");
    shown.loss = progress.loss;
    shown.steps_done = progress.steps_done;
    shown.steps_total = progress.steps_total;
    report(shown);
  }

  static AgentEvent event(const protocol::Task& task, Kind kind, std::string text) {
    return {.kind = kind, .job = task.fit.job, .round = task.fit.round, .text = std::move(text)};
  }
  void report(const AgentEvent& event) const {
    if (report_) report_(event);
  }

  const DeviceIdentity& identity_;
  LocalTrainer& trainer_;
  const AgentOptions& options_;
  PendingUpdate pending_;
  KeptStates kept_;
  std::stop_token stop_;
  const std::function<void(const AgentEvent&)>& report_;
  Client client_;
  Backoff backoff_;
  Random jitter_;
  std::uint64_t tasks_ = 0;
  bool connected_ = false, waiting_ = false;
  Clock::time_point shown_{};
};

}  // namespace

Status run_agent(const DeviceIdentity& identity, LocalTrainer& trainer, const AgentOptions& options,
                 std::stop_token stop, const std::function<void(const AgentEvent&)>& report) {
  for (const std::string& tag : options.tags) MUSTER_TRY_STATUS(check_name("tag", tag));
  MUSTER_TRY(const FileLock lock, FileLock::acquire(options.folder / identity_files::kLock));
  std::error_code error;
  fs::create_directories(options.folder / identity_files::kStates, error);
  if (error) {
    return Error{ErrorCode::kFailedPrecondition,
                 fmt::format("create {}: {}", (options.folder / identity_files::kStates).string(),
                             error.message())};
  }
  const KeptStates kept(options.folder / identity_files::kKept);
  MUSTER_TRY(PendingUpdate pending,
             PendingUpdate::open(options.folder / identity_files::kPending, kept));
  return Agent(identity, trainer, options, std::move(pending), kept, std::move(stop), report).run();
}

}  // namespace muster
