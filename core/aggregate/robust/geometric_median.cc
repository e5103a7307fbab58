#include "core/aggregate/robust/geometric_median.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "core/aggregate/blocks.h"
#include "core/base/aligned_floats.h"
#include "core/tensor/kernels/kernels.h"

namespace muster {
namespace {

class Weiszfeld {
 public:
  Weiszfeld(const Rows& rows, std::span<float> out, Workers& workers)
      : rows_(rows), out_(out), workers_(workers), kernels_(kernels::best()) {
    for (int worker = 0; worker < workers.count(); ++worker) {
      scratch_.push_back({make_aligned_floats(kBlock), std::vector<double>(kBlock)});
    }
    group_ = in_place() ? blocks_at_once(static_cast<std::int64_t>(rows.size())) * workers.count()
                        : workers.count();
    partial_.resize(static_cast<std::size_t>(group_) * rows.size());
  }

  // Distances of all rows from sum coefficients x_i.
  std::vector<double> distances(std::span<const double> coefficients) {
    std::vector<double> totals(rows_.size(), 0);
    each_group(
        [&](std::int64_t begin, std::int64_t count, std::int64_t place, Scratch& scratch) {
          centre(coefficients, begin, count, scratch);
          double* const sums = partial_.data() + place * static_cast<std::int64_t>(rows_.size());
          for (std::size_t i = 0; i < rows_.size(); ++i) {
            const float* values = rows_[i]->read(begin, count, scratch.values.get());
            sums[i] = kernels_.squared_distance_to(count, values, scratch.centre.data());
            if (!in_place()) rows_[i]->release(begin, count);
          }
        },
        [&](std::int64_t blocks) {
          for (std::int64_t block = 0; block < blocks; ++block) {
            const double* const sums =
                partial_.data() + block * static_cast<std::int64_t>(rows_.size());
            for (std::size_t i = 0; i < rows_.size(); ++i) totals[i] += sums[i];
          }
        });
    for (double& total : totals) total = std::sqrt(total);
    return totals;
  }

  void write(std::span<const double> coefficients, const StateDict* added) {
    each_group(
        [&](std::int64_t begin, std::int64_t count, std::int64_t, Scratch& scratch) {
          centre(coefficients, begin, count, scratch);
          for (std::int64_t j = 0; j < count; ++j) {
            const double value = scratch.centre[static_cast<std::size_t>(j)];
            const double base =
                added == nullptr ? -0.0 : added->values()[static_cast<std::size_t>(begin + j)];
            out_[static_cast<std::size_t>(begin + j)] = static_cast<float>(base + value);
          }
        },
        [](std::int64_t) {});
  }

 private:
  struct Scratch {
    AlignedFloats values;
    std::vector<double> centre;
  };

  bool in_place() const { return static_cast<std::int64_t>(rows_.size()) <= kRowsKept; }

  void centre(std::span<const double> coefficients, std::int64_t begin, std::int64_t count,
              Scratch& scratch) const {
    std::fill_n(scratch.centre.data(), count, 0.0);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const float* values = rows_[i]->read(begin, count, scratch.values.get());
      kernels_.add_scaled(count, coefficients[i], values, scratch.centre.data());
      if (!in_place()) rows_[i]->release(begin, count);
    }
  }

  // Calls block(begin, count, place in the group, scratch) on the workers, and after each group
  // done(blocks in it), in order.
  template <typename Block, typename Done>
  void each_group(const Block& block, const Done& done) {
    const auto elements = static_cast<std::int64_t>(out_.size());
    for (std::int64_t first = 0; first < elements; first += group_ * kBlock) {
      const std::int64_t length = std::min(group_ * kBlock, elements - first);
      workers_.for_each(length, kBlock, [&](std::int64_t begin, std::int64_t end, int worker) {
        block(first + begin, end - begin, begin / kBlock,
              scratch_[static_cast<std::size_t>(worker)]);
      });
      done((length + kBlock - 1) / kBlock);
      if (in_place()) release(rows_, first, length);
    }
  }

  const Rows& rows_;
  std::span<float> out_;
  Workers& workers_;
  const kernels::Table& kernels_;
  std::vector<Scratch> scratch_;
  std::int64_t group_ = 1;       // blocks between two additions of their sums
  std::vector<double> partial_;  // [group, rows]
};

void normalise(std::vector<double>& coefficients) {
  const double sum = std::accumulate(coefficients.begin(), coefficients.end(), 0.0);
  for (double& coefficient : coefficients) coefficient /= sum;
}

}  // namespace

WeiszfeldResult geometric_median(const Rows& rows, std::span<const double> weights,
                                 const WeiszfeldSettings& settings, const StateDict* added,
                                 std::span<float> out, Workers& workers) {
  Weiszfeld weiszfeld(rows, out, workers);
  std::vector<double> share(weights.begin(), weights.end());
  normalise(share);
  std::vector<double> coefficients = share;
  WeiszfeldResult result;
  bool moving = true;
  while (moving && result.iterations < settings.max_iterations) {
    const std::vector<double> distances = weiszfeld.distances(coefficients);
    std::vector<double> next = share;
    for (std::size_t i = 0; i < next.size(); ++i) {
      if (!std::isfinite(distances[i])) return {result.iterations, false};
      next[i] /= std::max(settings.nu, distances[i]);
    }
    normalise(next);
    moving = false;
    for (std::size_t i = 0; i < next.size(); ++i) {
      const double moved = std::abs(next[i] - coefficients[i]);
      moving = moving || moved > settings.tolerance * coefficients[i];
    }
    coefficients = std::move(next);
    ++result.iterations;
  }
  weiszfeld.write(coefficients, added);
  return result;
}

}  // namespace muster
