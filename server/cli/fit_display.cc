#include "server/cli/fit_display.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "server/cli/text.h"

namespace muster::cli {
namespace {

constexpr std::chrono::milliseconds kDrawEvery{100};
constexpr std::size_t kBarWidth = 24;
constexpr std::int64_t kMostLines = 200;

std::string rate_text(double rate) {
  return rate >= 10 ? count_text(static_cast<std::int64_t>(rate)) : fmt::format("{:.1f}", rate);
}

std::string pace_text(const FitProgress& progress, const FitDisplay::Pace& pace) {
  std::string text = rate_text(pace.examples_per_second) + " examples/s";
  if (progress.steps_done < progress.steps_total)
    text += ", " + duration_text(static_cast<std::int64_t>(pace.seconds_left * 1e3)) + " left";
  return text;
}

std::string measured_text(const Metrics& metrics) {
  std::string text;
  for (const MeasuredName& name : measured_names(metrics))
    text += fmt::format("{}{} {:.4f}", text.empty() ? "" : ", ", name.title, metrics.at(name.key));
  return text;
}

}  // namespace

std::vector<MeasuredName> measured_names(const Metrics& metrics) {
  std::vector<MeasuredName> held_out;
  std::vector<MeasuredName> test;
  for (const auto& [key, unused] : metrics) {
    const bool is_test = key.starts_with("test_");
    std::string title = (is_test ? "" : "held-out ") + key;
    std::replace(title.begin(), title.end(), '_', ' ');
    (is_test ? test : held_out).push_back({key, std::move(title)});
  }
  held_out.insert(held_out.end(), test.begin(), test.end());
  return held_out;
}

FitDisplay::FitDisplay(std::string name, std::int64_t epochs, std::int64_t steps)
    : name_(std::move(name)),
      epochs_(epochs),
      steps_(steps),
      live_(isatty(STDERR_FILENO) == 1),
      next_(std::chrono::steady_clock::now() + kDrawEvery) {}

bool FitDisplay::is_due() const {
  return live_ && std::chrono::steady_clock::now() >= next_;
}

void FitDisplay::step(const FitProgress& progress, const Pace& pace) {
  next_ = std::chrono::steady_clock::now() + kDrawEvery;
  const double share = static_cast<double>(progress.steps_done) / static_cast<double>(steps_);
  say(fmt::format("\r\x1b[K{} {} epoch {}/{} | loss {:.4f}{} | {}", name_,
                  bar_text(share, kBarWidth), progress.epoch, epochs_, progress.loss,
                  measured_.empty() ? "" : " | " + measured_, pace_text(progress, pace)));
  drawn_ = true;
}

void FitDisplay::epoch(const FitProgress& progress, const Pace& pace, const Metrics& measured) {
  measured_ = measured_text(measured);
  if (live_) {
    step(progress, pace);
    return;
  }
  const std::int64_t every = std::max<std::int64_t>(1, epochs_ / kMostLines);
  if (progress.epoch % every != 0 && progress.steps_done != steps_) return;
  say(fmt::format("{}: epoch {}/{}: loss {:.4f}{}, {}\n", name_, progress.epoch, epochs_,
                  progress.loss, measured_.empty() ? "" : ", " + measured_,
                  pace_text(progress, pace)));
}

void FitDisplay::clear() {
  if (drawn_) say("\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace muster::cli
