#include "core/aggregate/robust/columns.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "core/aggregate/blocks.h"
#include "core/aggregate/robust/sorting_network.h"
#include "core/base/aligned_floats.h"

namespace muster {
namespace {

// Beyond this a network is longer than sorting column by column is slow.
constexpr std::int64_t kMostInNetwork = 16384;
// Values that a worker copies at once when there are too many rows to keep them in place.
constexpr std::int64_t kCopied = std::int64_t{4} << 20;

class ColumnMeans {
 public:
  ColumnMeans(const Rows& rows, const ColumnRule& rule, const StateDict* added,
              std::span<float> out)
      : rows_(rows), rule_(rule), added_(added), out_(out) {
    const std::int64_t n = count();
    if (n <= kMostInNetwork) {
      network_ =
          rule.near > 0 ? sorting_network(n, 0, n) : sorting_network(n, rule.first, rule.last);
    }
    const std::int64_t narrow = kCopied / n / kernels::kSortStrip * kernels::kSortStrip;
    columns_ = in_place() ? kBlock : std::clamp(narrow, kernels::kSortStrip, kBlock);
  }

  bool run(Workers& workers) {
    std::vector<Scratch> scratch;
    for (int worker = 0; worker < workers.count(); ++worker)
      scratch.emplace_back(count(), columns_);
    const std::int64_t part = in_place() ? blocks_at_once(count()) * kBlock : columns_;
    workers.for_each(static_cast<std::int64_t>(out_.size()), part,
                     [&](std::int64_t begin, std::int64_t end, int worker) {
                       take(begin, end, scratch[static_cast<std::size_t>(worker)]);
                     });
    return finite_;
  }

 private:
  struct Scratch {
    Scratch(std::int64_t rows, std::int64_t columns)
        : from(static_cast<std::size_t>(rows)),
          values(make_aligned_floats(rows * columns)),
          strip(make_aligned_floats(rows * kernels::kSortStrip)),
          means(static_cast<std::size_t>(columns)) {}
    std::vector<const float*> from;
    AlignedFloats values;  // untouched where values are read in place
    AlignedFloats strip;
    std::vector<double> means;
  };

  std::int64_t count() const { return static_cast<std::int64_t>(rows_.size()); }
  bool in_place() const { return count() <= kRowsKept; }

  void take(std::int64_t begin, std::int64_t end, Scratch& scratch) {
    for (std::int64_t at = begin; at < end; at += columns_) {
      take_columns(at, std::min(columns_, end - at), scratch);
    }
    if (in_place()) release(rows_, begin, end - begin);
  }

  void take_columns(std::int64_t begin, std::int64_t columns, Scratch& scratch) {
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      float* const copy = scratch.values.get() + static_cast<std::int64_t>(row) * columns_;
      scratch.from[row] = rows_[row]->read(begin, columns, copy);
      if (in_place()) continue;
      if (scratch.from[row] != copy) {
        std::memcpy(copy, scratch.from[row], static_cast<std::size_t>(columns) * sizeof(float));
        scratch.from[row] = copy;
      }
      rows_[row]->release(begin, columns);
    }
    bool finite = true;
    if (count() > kMostInNetwork) finite = sort_each(columns, scratch);
    finite = finite && kernels::best().sorted_columns({
                           .rows = count(),
                           .columns = columns,
                           .from = scratch.from.data(),
                           .num_comparators = static_cast<std::int64_t>(network_.size()),
                           .comparators = network_.data(),
                           .first = rule_.first,
                           .last = rule_.last,
                           .near = rule_.near,
                           .strip = scratch.strip.get(),
                           .y = scratch.means.data(),
                       });
    if (!finite) finite_ = false;
    round(begin, columns, scratch.means.data());
  }

  // The copies' columns, one after another in the strip. False when a value is not finite, which
  // has no place in the order.
  bool sort_each(std::int64_t columns, Scratch& scratch) const {
    float* const column = scratch.strip.get();
    for (std::int64_t j = 0; j < columns; ++j) {
      float* const values = scratch.values.get() + j;
      for (std::int64_t row = 0; row < count(); ++row) {
        column[row] = values[row * columns_];
        if (!std::isfinite(column[row])) return false;
      }
      std::sort(column, column + count());
      for (std::int64_t row = 0; row < count(); ++row) values[row * columns_] = column[row];
    }
    return true;
  }

  void round(std::int64_t begin, std::int64_t columns, const double* means) {
    float* const to = out_.data() + begin;
    if (added_ == nullptr) {
      for (std::int64_t j = 0; j < columns; ++j) to[j] = static_cast<float>(means[j]);
      return;
    }
    const float* const added = added_->values().data() + begin;
    for (std::int64_t j = 0; j < columns; ++j) {
      to[j] = static_cast<float>(static_cast<double>(added[j]) + means[j]);
    }
  }

  const Rows& rows_;
  const ColumnRule& rule_;
  const StateDict* added_;
  std::span<float> out_;
  std::vector<kernels::Comparator> network_;
  std::int64_t columns_ = 0;  // read at once
  std::atomic<bool> finite_{true};
};

}  // namespace

bool column_means(const Rows& rows, const ColumnRule& rule, const StateDict* added,
                  std::span<float> out, Workers& workers) {
  return ColumnMeans(rows, rule, added, out).run(workers);
}

}  // namespace muster
