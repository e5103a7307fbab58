#pragma once

#include <memory>
#include <string>

#include "edge_client/agent.h"

namespace spdlog {
class logger;
}

namespace muster::cli {

// Shows what the agent does: a live line on a terminal, a log line per event elsewhere (standard
// error), or one JSON object per event on standard output. One thread.
class Display {
 public:
  enum class Mode { kLive, kLines, kQuiet, kJson };
  // Live when standard error is a terminal.
  static Mode choose_mode(bool quiet, bool json);

  explicit Display(Mode mode);
  ~Display();

  void show(const AgentEvent& event);
  // Leaves the terminal on a fresh line.
  void finish();

 private:
  void show_live(const AgentEvent& event);
  void show_line(const AgentEvent& event);
  static void show_json(const AgentEvent& event);

  Mode mode_;
  std::shared_ptr<spdlog::logger> log_;
  bool line_open_ = false;
};

}  // namespace muster::cli
