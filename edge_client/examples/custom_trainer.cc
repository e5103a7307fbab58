// Your own model in Muster: softmax regression by hand, for jobs with the preset "logistic".
//   edge-example-custom-trainer DIR [TASKS]      (DIR from: muster-edge enroll --dir DIR ...)
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "core/base/random.h"
#include "edge_client/agent.h"

using namespace muster;
constexpr std::size_t kPixels = 784, kClasses = 10, kExamples = 500;

class SoftmaxRegression final : public LocalTrainer {
 public:
  explicit SoftmaxRegression(std::uint64_t seed) : x_(kExamples * kPixels), y_(kExamples) {
    Random random(seed);  // an image of class c has bright rows from 2c on, in noise
    for (std::size_t& label : y_) label = random.below(kClasses);
    for (std::size_t j = 0; j < x_.size(); ++j) {
      const std::size_t row = j % kPixels / 28, first = 2 * y_[j / kPixels];
      x_[j] = static_cast<float>(random.uniform() + (row >= first && row < first + 6)) / 2;
    }
  }
  std::int64_t num_examples() const override { return kExamples; }

  Result<FitResult> fit(const StateDict& global, const FitTask& task, std::stop_token stop,
                        const std::function<void(const FitProgress&)>& progress) override {
    MUSTER_TRY_STATUS(check(global));
    FitResult result{global.clone(), kExamples, 0, {}};
    for (std::int64_t epoch = 0; epoch < task.local.epochs; ++epoch) {
      double loss = 0;
      for (std::size_t i = 0; i < kExamples; ++i, ++result.steps) {
        if (stop.stop_requested()) return Error{ErrorCode::kCancelled, "stopped"};
        loss += step(result.state, i, static_cast<float>(task.local.optimizer.lr));
      }
      result.metrics["loss"] = loss / kExamples;
      progress({result.steps, task.local.epochs * 500, loss / kExamples});
    }
    return result;
  }
  Result<EvaluateResult> evaluate(const StateDict&, const FitTask&, std::stop_token) override {
    return EvaluateResult{0, {}};  // no examples are held out here
  }

 private:
  static Status check(const StateDict& state) {
    const auto wanted = StateLayout::create({{"fc1.weight", {10, 784}}, {"fc1.bias", {10}}});
    return check_same_layout(**wanted, state.layout());
  }
  double step(StateDict& state, std::size_t i, float rate) {  // one example; gives its loss
    const auto w = state.tensor("fc1.weight"), b = state.tensor("fc1.bias");
    const float* x = &x_[i * kPixels];
    double e[kClasses], sum = 0;
    for (std::size_t c = 0; c < kClasses; ++c) {
      double logit = b[c];
      for (std::size_t j = 0; j < kPixels; ++j) logit += double(w[c * kPixels + j] * x[j]);
      sum += e[c] = std::exp(logit);
    }
    for (std::size_t c = 0; c < kClasses; ++c) {
      const float g = rate * static_cast<float>(e[c] / sum - (c == y_[i]));
      b[c] -= g;
      for (std::size_t j = 0; j < kPixels; ++j) w[c * kPixels + j] -= g * x[j];
    }
    return -std::log(e[y_[i]] / sum);
  }
  std::vector<float> x_;
  std::vector<std::size_t> y_;
};

int main(int argc, char** argv) {
  if (argc < 2) return std::puts("wanted: the folder of an enrolled device"), 2;
  AgentOptions options;
  options.folder = argv[1];
  options.exit_after_tasks = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  SoftmaxRegression trainer(1);
  const auto show = [](const AgentEvent& event) { std::puts(event.text.c_str()); };
  const auto identity = DeviceIdentity::read(options.folder);
  const auto done = identity ? run_agent(*identity, trainer, options, {}, show) : identity.error();
  return done ? 0 : (std::puts(done.error().message.c_str()), 1);
}
