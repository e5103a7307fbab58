#include "core/train/tally.h"

namespace muster {

void Tally::add(double value, double whole, std::int64_t examples) {
  const bool mean = loss_->reduction() == Loss::Reduction::kMean;
  figures_.loss_sum += mean ? value * whole : value;
  figures_.weight += mean ? whole : static_cast<double>(examples);
  figures_.examples += examples;
}

void Tally::count_correct(std::optional<std::int64_t> correct) {
  if (correct) figures_.correct = figures_.correct.value_or(0) + *correct;
}

void Tally::count_correct(std::span<const float> prediction, const TargetView& target) {
  count_correct(loss_->count_correct(prediction, target));
}

std::optional<double> Tally::accuracy() const {
  if (!figures_.correct || figures_.examples == 0) return std::nullopt;
  const std::int64_t targets = figures_.examples * loss_->targets_per_example();
  return static_cast<double>(*figures_.correct) / static_cast<double>(targets);
}

}  // namespace muster
