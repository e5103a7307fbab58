#include "core/aggregate/distance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "core/aggregate/blocks.h"
#include "core/aggregate/robust/rows.h"
#include "core/base/aligned_floats.h"
#include "core/tensor/kernels/kernels.h"

namespace muster {
namespace {

// Rows that meet as many others at a time.
constexpr std::int64_t kTile = 4;
// Elements of a tile's rows that stay in the first cache, and a term of each pair's sum.
constexpr std::int64_t kPiece = 512;
// Values of all rows that stay in the second cache.
constexpr std::int64_t kResident = 131072;
// A piece's sum below this may have lost more than its last bits to squares that are no normal
// float32.
constexpr double kSmallest = 0x1p-100;
// Sums of parts that are kept until they are added up.
constexpr std::int64_t kGroupBytes = std::int64_t{8} << 20;
// Elements of one update that a worker takes at once.
constexpr std::int64_t kNormPart = 8 * kBlock;

// The sum of squared differences of a piece in double, whose squares always fit.
double in_double(const kernels::Table& kernels, const float* a, const float* b,
                 std::int64_t count) {
  if (std::memcmp(a, b, static_cast<std::size_t>(count) * sizeof(float)) == 0) {
    // The same bits, so 0; unless they are no numbers.
    const double sum = kernels.sum_squares(count, a);
    return sum - sum;
  }
  return kernels.squared_difference(count, a, b);
}

class Distances {
 public:
  Distances(std::span<const Contribution> contributions, Workers& workers)
      : rows_(rows_of(contributions)),
        workers_(workers),
        kernels_(kernels::best()),
        sums_(rows_.size() * rows_.size(), 0) {
    const std::int64_t blocks = kResident / std::max<std::int64_t>(count(), 1) / kBlock;
    columns_ = std::clamp<std::int64_t>(blocks, 1, 16) * kBlock;
  }

  std::vector<double> run() {
    const std::int64_t elements = rows_.empty() ? 0 : rows_.front()->size();
    if (count() <= kRowsKept) {
      by_columns(elements);
    } else {
      by_tiles(elements);
    }
    for (std::int64_t i = 0; i < count(); ++i) {
      for (std::int64_t j = 0; j < i; ++j) at(sums_, i, j) = at(sums_, j, i);
    }
    return std::move(sums_);
  }

 private:
  // A part of all rows' columns: where they lie, and copies of those that do not lie as float32.
  struct Part {
    Part(std::int64_t rows, std::int64_t columns)
        : from(static_cast<std::size_t>(rows)), copies(make_aligned_floats(rows * columns)) {}
    std::vector<const float*> from;
    AlignedFloats copies;
  };

  std::int64_t count() const { return static_cast<std::int64_t>(rows_.size()); }
  double& at(std::vector<double>& sums, std::int64_t i, std::int64_t j) const {
    return sums[static_cast<std::size_t>(i * count() + j)];
  }

  // Each worker takes parts of the columns for itself. The sums of a group of parts are added up in
  // order.
  void by_columns(std::int64_t elements) {
    const std::int64_t bytes = count() * count() * 8;
    const std::int64_t group =
        workers_.count() *
        std::clamp<std::int64_t>(kGroupBytes / std::max<std::int64_t>(bytes, 1) / workers_.count(),
                                 1, 16);
    std::vector<std::vector<double>> partial(static_cast<std::size_t>(group));
    std::vector<Part> parts;
    for (int worker = 0; worker < workers_.count(); ++worker) {
      parts.emplace_back(count(), columns_);
    }
    for (std::int64_t first = 0; first < elements; first += group * columns_) {
      const std::int64_t length = std::min(group * columns_, elements - first);
      workers_.for_each(length, columns_, [&](std::int64_t begin, std::int64_t end, int worker) {
        Part& part = parts[static_cast<std::size_t>(worker)];
        std::vector<double>& sums = partial[static_cast<std::size_t>(begin / columns_)];
        sums.assign(sums_.size(), 0);
        for (std::int64_t i = 0; i < count(); ++i) read(i, first + begin, end - begin, part);
        for (std::int64_t i = 0; i < count(); i += kTile) {
          add_tiles(i, part.from, end - begin, sums);
        }
        release(rows_, first + begin, end - begin);
      });
      for (std::int64_t place = 0; place * columns_ < length; ++place) {
        const std::vector<double>& sums = partial[static_cast<std::size_t>(place)];
        for (std::size_t pair = 0; pair < sums_.size(); ++pair) sums_[pair] += sums[pair];
      }
    }
  }

  // With many rows the sums are too many to have them more than once: the workers share out the
  // pairs of one part of the columns after another.
  void by_tiles(std::int64_t elements) {
    Part part(count(), columns_);
    for (std::int64_t begin = 0; begin < elements; begin += columns_) {
      const std::int64_t columns = std::min(columns_, elements - begin);
      workers_.for_each(count(), kTile, [&](std::int64_t first, std::int64_t last, int) {
        for (std::int64_t i = first; i < last; ++i) {
          read(i, begin, columns, part);
          float* const copy = part.copies.get() + i * columns_;
          const float*& from = part.from[static_cast<std::size_t>(i)];
          if (from != copy) {
            std::memcpy(copy, from, static_cast<std::size_t>(columns) * sizeof(float));
          }
          from = copy;
          rows_[static_cast<std::size_t>(i)]->release(begin, columns);
        }
      });
      workers_.for_each(count(), kTile, [&](std::int64_t first, std::int64_t, int) {
        add_tiles(first, part.from, columns, sums_);
      });
    }
  }

  void read(std::int64_t i, std::int64_t begin, std::int64_t columns, Part& part) const {
    const auto row = static_cast<std::size_t>(i);
    part.from[row] = rows_[row]->read(begin, columns, part.copies.get() + i * columns_);
  }

  // Adds to the sums of rows [i, i + kTile) with all from i on. Each pair's squares are added piece
  // after piece.
  void add_tiles(std::int64_t i, const std::vector<const float*>& from, std::int64_t columns,
                 std::vector<double>& sums) const {
    for (std::int64_t begin = 0; begin < columns; begin += kPiece) {
      const std::int64_t piece = std::min(kPiece, columns - begin);
      for (std::int64_t j = i; j < count(); j += kTile) add_tile(i, j, from, begin, piece, sums);
    }
  }

  void add_tile(std::int64_t i, std::int64_t j, const std::vector<const float*>& from,
                std::int64_t begin, std::int64_t piece, std::vector<double>& sums) const {
    std::array<const float*, kTile> a{};
    std::array<const float*, kTile> b{};
    for (std::int64_t k = 0; k < kTile; ++k) {
      const auto place = static_cast<std::size_t>(k);
      a[place] = from[static_cast<std::size_t>(std::min(i + k, count() - 1))] + begin;
      b[place] = from[static_cast<std::size_t>(std::min(j + k, count() - 1))] + begin;
    }
    std::array<double, kTile * kTile> squares{};
    kernels_.squared_differences(piece, a.data(), b.data(), squares.data());
    for (std::int64_t k = 0; k < kTile && i + k < count(); ++k) {
      for (std::int64_t l = i == j ? k + 1 : 0; l < kTile && j + l < count(); ++l) {
        double square = squares[static_cast<std::size_t>(k * kTile + l)];
        // Also true of NaN.
        if (!(square >= kSmallest && square <= std::numeric_limits<double>::max())) {
          square = in_double(kernels_, a[static_cast<std::size_t>(k)],
                             b[static_cast<std::size_t>(l)], piece);
        }
        at(sums, i + k, j + l) += square;
      }
    }
  }

  Rows rows_;
  Workers& workers_;
  const kernels::Table& kernels_;
  std::vector<double> sums_;  // [count, count], above the diagonal
  std::int64_t columns_ = 0;  // of a part; a matter of how many rows there are
};

// The sums of one update's blocks, each in double; added up in order.
double sum_over_blocks(const UpdateValues& row, const float* global, std::vector<double>& sums,
                       const std::vector<AlignedFloats>& scratch, Workers& workers) {
  const kernels::Table& kernels = kernels::best();
  workers.for_each(row.size(), kNormPart, [&](std::int64_t begin, std::int64_t end, int worker) {
    for (std::int64_t at = begin; at < end; at += kBlock) {
      const std::int64_t count = std::min(kBlock, end - at);
      const float* values = row.read(at, count, scratch[static_cast<std::size_t>(worker)].get());
      sums[static_cast<std::size_t>(at / kBlock)] =
          global == nullptr ? kernels.sum_squares(count, values)
                            : kernels.squared_difference(count, values, global + at);
    }
    row.release(begin, end - begin);
  });
  double total = 0;
  for (std::int64_t at = 0; at < row.size(); at += kBlock) {
    total += sums[static_cast<std::size_t>(at / kBlock)];
  }
  return total;
}

}  // namespace

std::vector<double> change_norms(std::span<const Contribution> contributions, UpdateContent content,
                                 const StateDict& global, Workers* workers) {
  Workers alone(1);
  Workers& all = workers == nullptr ? alone : *workers;
  const std::int64_t elements = global.layout().num_elements();
  std::vector<double> sums(static_cast<std::size_t>((elements + kBlock - 1) / kBlock));
  std::vector<AlignedFloats> scratch;
  for (int worker = 0; worker < all.count(); ++worker) {
    scratch.push_back(make_aligned_floats(kBlock));
  }
  const float* const from = content == UpdateContent::kState ? global.values().data() : nullptr;
  std::vector<double> norms;
  norms.reserve(contributions.size());
  for (const Contribution& contribution : contributions) {
    const double total = sum_over_blocks(*contribution.values, from, sums, scratch, all);
    norms.push_back(std::isfinite(total) ? std::sqrt(total)
                                         : std::numeric_limits<double>::quiet_NaN());
  }
  return norms;
}

std::vector<double> squared_distances(std::span<const Contribution> contributions,
                                      Workers* workers) {
  Workers alone(1);
  return Distances(contributions, workers == nullptr ? alone : *workers).run();
}

}  // namespace muster
