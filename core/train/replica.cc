#include "core/train/replica.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "core/train/batch_order.h"

namespace muster {

Replica::Replica(const Graph& graph, const Dataset& data, const StateDict& start,
                 const LocalSettings& settings, const ReplicaOptions& options, GraphRun run)
    : graph_(&graph),
      data_(&data),
      run_(std::move(run)),
      batch_size_(std::min(settings.batch_size, data.size())),
      part_size_(std::min(settings.micro_batch(), data.size())),
      batch_(graph, batch_size_, part_size_),
      doutput_(static_cast<std::size_t>(part_size_ * graph.node(graph.output()).size)),
      weights_(graph, start, settings,
               {.workers = options.workers, .gradient_offset = options.gradient_offset}) {}

Result<Replica> Replica::create(const Graph& graph, const Dataset& data, const StateDict& start,
                                const LocalSettings& settings, ReplicaOptions options) {
  if (data.size() == 0) {
    return Error{ErrorCode::kFailedPrecondition, "training: there are no local examples",
                 "no_data"};
  }
  MUSTER_TRY_STATUS(check_same_layout(*graph.layout(), start.layout()));
  MUSTER_TRY_STATUS(check_finite(start.layout(), start.values()));
  MUSTER_TRY_STATUS(check_data_fits(graph, data));
  if (options.gradient_offset != nullptr) {
    const StateDict& offset = *options.gradient_offset;
    Status good = check_same_layout(start.layout(), offset.layout());
    if (good) good = check_finite(offset.layout(), offset.values());
    if (!good) return with_context(std::move(good).error(), "gradient offset");
  }
  MUSTER_TRY(GraphRun run,
             GraphRun::create(graph, {.max_batch = std::min(settings.micro_batch(), data.size()),
                                      .limit_bytes = options.limit_bytes,
                                      .workers = options.workers}));
  return Replica(graph, data, start, settings, options, std::move(run));
}

Result<ShareFigures> Replica::compute_gradient(const Share& share) {
  const Loss& loss = graph_->loss();
  const auto size = static_cast<std::size_t>(part_size_);
  const std::size_t all = share.positions.size();
  if (all == 0) std::ranges::fill(weights_.gradient().values(), 0.0F);
  batch_.load_targets(*data_, share.positions);
  ShareFigures figures{.normaliser = share.normaliser.value_or(loss.normaliser(batch_.target())),
                       .examples = static_cast<std::int64_t>(all)};
  for (std::size_t at = 0; at < all; at += size) {
    const std::size_t count = std::min(size, all - at);
    const TargetView target = batch_.target(at, count);
    batch_.load_features(*data_, share.positions, at, count);
    const std::span<const float> output =
        run_.run(weights_.w(), batch_.features(), static_cast<std::int64_t>(count),
                 {.training = true, .seed = seed_of_part(share.seed, at / size)});
    const std::span<float> doutput = std::span(doutput_).first(output.size());
    figures.loss += loss.compute_part(output, target, figures.normaliser, doutput);
    if (!std::isfinite(figures.loss)) return blew_up(figures.loss, share.at);
    if (const auto correct = loss.count_correct(output, target)) {
      figures.correct = figures.correct.value_or(0) + *correct;
    }
    run_.backward(doutput, weights_.gradient(), at > 0);
    run_.update_untrained(weights_.w());
  }
  return figures;
}

Error Replica::blew_up(double loss, StepNumber at) const {
  std::string message = "training: " + describe(at) + "the loss is " + std::to_string(loss);
  const StateDict& w = state();
  if (Status finite = check_finite(w.layout(), w.values()); !finite) {
    message += "; " + finite.error().message;
  } else if (find_non_finite(batch_.features()) >= 0) {
    message += "; the local data has a value that is not finite";
  } else if (const std::string_view node = run_.first_non_finite(); !node.empty()) {
    message += "; the first node that is not finite is " + std::string(node);
  }
  return {ErrorCode::kFailedPrecondition, std::move(message), "non_finite"};
}

}  // namespace muster
