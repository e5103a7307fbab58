#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/graph/loss.h"

namespace muster {

// Running figures over the batches of an epoch, or of an evaluation: the mean loss and, where it is
// asked for and the loss knows right from wrong, the accuracy. Each batch weighs by what its
// reduction divides by, so that the mean is that of one batch of everything; for a sum it is that
// by the number of examples.
//
//   Tally tally(loss);
//   for (...) {
//     tally.count_correct(output, target);  // of a whole batch, or of one part after another
//     tally.add(value, whole, examples);    // what compute_part gave for the parts, in all
//   }
//
// A plain value; allocates nothing.
class Tally {
 public:
  // All there is to it, for keeping it elsewhere.
  struct Figures {
    double loss_sum = 0;  // of the loss's terms
    double weight = 0;    // what it is divided by
    std::int64_t examples = 0;
    std::optional<std::int64_t> correct = {};
  };

  // `loss` outlives this.
  explicit Tally(const Loss& loss) : loss_(&loss) {}
  // Goes on from `figures`.
  Tally(const Loss& loss, const Figures& figures) : loss_(&loss), figures_(figures) {}

  // A batch.
  //   value  its loss, in the loss's own reduction
  //   whole  Loss::normaliser of all its targets
  void add(double value, double whole, std::int64_t examples);

  // Of a whole batch or a part of it: counted here, or counted already (nothing: not known).
  void count_correct(std::optional<std::int64_t> correct);
  void count_correct(std::span<const float> prediction, const TargetView& target);

  const Figures& figures() const { return figures_; }
  // 0 where nothing has weight.
  double mean_loss() const {
    return figures_.weight > 0 ? figures_.loss_sum / figures_.weight : figures_.loss_sum;
  }
  // Nothing without examples, or where nothing was counted.
  std::optional<double> accuracy() const;

 private:
  const Loss* loss_;
  Figures figures_;
};

}  // namespace muster
