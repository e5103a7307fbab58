#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/train/local_trainer.h"

namespace muster::cli {

// What a training shows while it runs, on standard error: on a terminal a bar that is rewritten in
// place, else a line an epoch (of many epochs, about two hundred lines). One thread.
class FitDisplay {
 public:
  // `epochs` and `steps`: of the whole training.
  FitDisplay(std::string name, std::int64_t epochs, std::int64_t steps);
  ~FitDisplay() { clear(); }
  FitDisplay(const FitDisplay&) = delete;
  FitDisplay& operator=(const FitDisplay&) = delete;

  struct Pace {
    double examples_per_second = 0;
    double seconds_left = 0;
  };
  // After a step; draws a few times a second at most.
  bool is_due() const;
  void step(const FitProgress& progress, const Pace& pace);
  // After an epoch, with what was measured behind it.
  void epoch(const FitProgress& progress, const Pace& pace, const Metrics& measured);
  // Takes the bar away.
  void clear();

 private:
  std::string name_;
  std::int64_t epochs_;
  std::int64_t steps_;
  bool live_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_;
  std::string measured_;  // of the last epoch
};

// A metric that was measured after an epoch: its key there, "test_accuracy" or, of the held-out
// examples, "accuracy", and what people read: "test accuracy", "held-out accuracy".
struct MeasuredName {
  std::string key;
  std::string title;
};
// Those of the held-out examples first.
std::vector<MeasuredName> measured_names(const Metrics& metrics);

}  // namespace muster::cli
