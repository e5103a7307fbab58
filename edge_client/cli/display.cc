#include "edge_client/cli/display.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>

#include "core/base/console.h"
#include "core/base/json.h"

namespace muster::cli {
namespace {

using Kind = AgentEvent::Kind;

constexpr int kBarWidth = 24;

std::string_view word(Kind kind) {
  switch (kind) {
    case Kind::kConnected:
      return "connected";
    case Kind::kWaiting:
      return "waiting";
    case Kind::kTraining:
      return "training";
    case Kind::kProgress:
      return "progress";
    case Kind::kUploaded:
      return "uploaded";
    case Kind::kRefused:
      return "refused";
    case Kind::kEvaluated:
      return "evaluated";
    case Kind::kDeclined:
      return "declined";
    case Kind::kRetrying:
      return "retrying";
    case Kind::kStopped:
      return "stopped";
  }
  return "unknown";
}

bool is_warning(Kind kind) {
  return kind == Kind::kRefused || kind == Kind::kDeclined || kind == Kind::kRetrying;
}

std::string sentence(const AgentEvent& event) {
  std::string text;
  if (!event.job.empty()) text += fmt::format("{} round {}: ", event.job, event.round);
  text += event.text;
  const bool has_loss = event.kind == Kind::kUploaded || event.kind == Kind::kEvaluated;
  if (has_loss && std::isfinite(event.loss)) text += fmt::format(", loss {:.4f}", event.loss);
  if (event.kind == Kind::kRetrying)
    text += fmt::format("; next try in {:.1f} s", static_cast<double>(event.wait.count()) / 1000);
  return text;
}

std::string bar(const AgentEvent& event) {
  const std::int64_t total = std::max<std::int64_t>(event.steps_total, 1);
  const std::int64_t done = std::clamp<std::int64_t>(event.steps_done, 0, total);
  const auto filled = static_cast<std::size_t>(done * kBarWidth / total);
  return fmt::format("{} round {} [{}{}] {:3}% loss {:.4f}", event.job, event.round,
                     std::string(filled, '#'), std::string(kBarWidth - filled, '.'),
                     done * 100 / total, event.loss);
}

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

}  // namespace

Display::Mode Display::choose_mode(bool quiet, bool json) {
  if (json) return Mode::kJson;
  if (quiet) return Mode::kQuiet;
  return isatty(STDERR_FILENO) == 1 ? Mode::kLive : Mode::kLines;
}

Display::Display(Mode mode) : mode_(mode) {
  log_ = std::make_shared<spdlog::logger>("muster-edge",
                                          std::make_shared<spdlog::sinks::stderr_sink_mt>());
  log_->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  if (mode == Mode::kQuiet) log_->set_level(spdlog::level::warn);
}

Display::~Display() = default;

void Display::show(const AgentEvent& event) {
  switch (mode_) {
    case Mode::kJson:
      return show_json(event);
    case Mode::kLive:
      return show_live(event);
    case Mode::kLines:
    case Mode::kQuiet:
      return show_line(event);
  }
}

void Display::finish() {
  if (line_open_) say("\n");
  line_open_ = false;
}

// What is over or went wrong stays on the screen; what is going on replaces the line.
void Display::show_live(const AgentEvent& event) {
  const bool stays =
      is_warning(event.kind) || event.kind == Kind::kUploaded || event.kind == Kind::kEvaluated;
  std::string text = event.kind == Kind::kProgress ? bar(event) : sentence(event);
  if (!stays && text.size() >= terminal_width()) text.resize(terminal_width() - 1);
  say(fmt::format("\r\x1b[2K{}{}", text, stays ? "\n" : ""));
  line_open_ = !stays;
}

void Display::show_line(const AgentEvent& event) {
  if (event.kind == Kind::kProgress) return;
  log_->log(is_warning(event.kind) ? spdlog::level::warn : spdlog::level::info, "{} {}",
            word(event.kind), sentence(event));
}

void Display::show_json(const AgentEvent& event) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  Json json{{"event", word(event.kind)}, {"time_ms", now.count()}, {"text", event.text}};
  if (!event.job.empty()) {
    json["job"] = event.job;
    json["round"] = event.round;
  }
  if (event.kind == Kind::kProgress) {
    json["steps_done"] = event.steps_done;
    json["steps_total"] = event.steps_total;
  }
  const bool has_loss = event.kind == Kind::kProgress || event.kind == Kind::kUploaded ||
                        event.kind == Kind::kEvaluated;
  if (has_loss && std::isfinite(event.loss)) json["loss"] = event.loss;
  if (event.wait.count() > 0) json["wait_ms"] = event.wait.count();
  print(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace muster::cli
