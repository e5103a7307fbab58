#include "core/train/optimizer/optimizer.h"

#include <algorithm>
#include <atomic>

namespace muster {
namespace {

// Elements in a part of the loop: much work beside what handing it out costs, and small enough for
// all threads to have some.
constexpr std::int64_t kPart = 32'768;

}  // namespace

void add_proximal_gradient(std::span<float> gradient, std::span<const float> w,
                           std::span<const float> w_global, double mu) {
  const auto factor = static_cast<float>(mu);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += factor * (w[i] - w_global[i]);
}

OptimizerState Optimizer::start(const LayoutPtr& layout) const {
  OptimizerState state;
  for (const Moment& moment : moments_) {
    StateDict& values = state.moments.emplace_back(layout);
    if (moment.initial == 0) continue;
    std::fill(values.values().begin(), values.values().end(), static_cast<float>(moment.initial));
  }
  return state;
}

bool Optimizer::step(StateDict& w, const StateDict& gradient, std::span<const Graph::Range> ranges,
                     const Step& step, OptimizerState& state) const {
  const Numbers numbers{.step = state.steps + 1,
                        .lr = step.lr,
                        .mu = static_cast<float>(step.proximal.mu),
                        .scale = static_cast<float>(step.scale)};
  const float* global = step.proximal.active() ? step.proximal.global->values().data() : nullptr;
  std::atomic<std::uint32_t> watch = 0;
  for (const Graph::Range& range : ranges) {
    const auto part = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
      const std::int64_t at = range.offset + begin;
      OptimizerArrays arrays{.n = static_cast<std::size_t>(end - begin),
                             .w = w.values().data() + at,
                             .gradient = gradient.values().data() + at,
                             .global = global == nullptr ? nullptr : global + at};
      for (std::size_t i = 0; i < state.moments.size(); ++i) {
        arrays.moments[i] = state.moments[i].values().data() + at;
      }
      watch.fetch_or(run(arrays, numbers), std::memory_order_relaxed);
    };
    if (step.workers == nullptr) {
      part(0, range.size, 0);
    } else {
      step.workers->for_each(range.size, kPart, part);
    }
  }
  ++state.steps;
  return watch.load() >> 31 == 0;
}

}  // namespace muster
