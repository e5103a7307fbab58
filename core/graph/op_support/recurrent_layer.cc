#include "core/graph/op_support/recurrent_layer.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace muster::ops {
namespace {

using kernels::Gemm;
using kernels::packed_b_size;

constexpr std::int64_t kUnitOfParts = 16;
constexpr std::int64_t kUnitOfRows = 8;
// Examples that each worker should have before they are shared out: the weights go through the
// cache once a step for every part.
constexpr std::int64_t kEnoughExamples = 16;
// Multiply-adds of a step that are worth sharing out, some tens of microseconds.
constexpr std::int64_t kEnoughWork = 1 << 20;

// Rows [row, row + columns) of weight_hh, which give the columns of the gates from `column` on.
struct HiddenBlock {
  std::int64_t row = 0;
  std::int64_t columns = 0;
  std::int64_t column = 0;
  bool accumulate = true;  // to the products with the input
};

struct HiddenBlocks {
  std::array<HiddenBlock, 4> blocks;
  std::size_t count = 0;

  void add(const HiddenBlock& block) { blocks[count++] = block; }
  const HiddenBlock* begin() const { return blocks.data(); }
  const HiddenBlock* end() const { return blocks.data() + count; }
};

// A GRU's last gate has its two products apart, the state's in the fourth column block.
HiddenBlocks hidden_blocks(const RecurrentSizes& s, std::int64_t begin, std::int64_t end) {
  HiddenBlocks blocks;
  const std::int64_t units = s.units;
  const std::int64_t joined = s.cell->has_c ? 4 : 2;
  if (end - begin == units) {
    blocks.add({.row = 0, .columns = joined * units, .column = 0});
  } else {
    for (std::int64_t q = 0; q < joined; ++q) {
      blocks.add({.row = q * units + begin, .columns = end - begin, .column = q * units + begin});
    }
  }
  if (joined == 2) {
    blocks.add({.row = 2 * units + begin,
                .columns = end - begin,
                .column = 3 * units + begin,
                .accumulate = false});
  }
  return blocks;
}

// Where the packed weights of the part that begins at unit `begin` lie: before it are `begin` units
// and a margin of gemm's for each part and gate.
std::int64_t packed_place(const RecurrentSizes& s, std::int64_t begin) {
  const std::int64_t margin = packed_b_size(s.units, 0);
  return s.cell->gates * (begin * s.units + begin / s.parts.units * margin);
}

// That what a part packs of all gates, a margin for each, ends within packed_hidden_size.
void check_packed(const RecurrentSizes& s, std::int64_t begin, std::int64_t end) {
  const std::int64_t most = s.cell->gates * packed_b_size(s.units, end - begin);
  if (packed_place(s, begin) + most > packed_hidden_size(*s.cell, s.units)) {
    invariant_broken("a recurrent layer packs more weights than it planned");
  }
}

}  // namespace

std::int64_t share(const WorkerScratch& workers, std::int64_t n, std::int64_t unit) {
  const std::int64_t parts = workers.count();
  const std::int64_t part = (n + parts - 1) / parts;
  return std::max((part + unit - 1) / unit * unit, unit);
}

RecurrentParts RecurrentParts::of(const RecurrentCell& cell, std::int64_t batch, std::int64_t units,
                                  const WorkerScratch& workers) {
  RecurrentParts parts{batch, units};
  if (workers.count() == 1) return parts;
  if (batch >= kEnoughExamples * workers.count()) {
    parts.examples = share(workers, batch, kUnitOfRows);
  } else if (batch * cell.gates * units >= kEnoughWork / units) {
    parts.units = std::min(std::max(share(workers, units, kUnitOfParts), kLeastUnits), units);
  }
  return parts;
}

const RecurrentCell& lstm_cell() {
  static constexpr RecurrentCell kCell{.name = "lstm",
                                       .gates = 4,
                                       .has_c = true,
                                       .step = &kernels::Table::lstm_step,
                                       .step_gradient = &kernels::Table::lstm_step_gradient};
  return kCell;
}

const RecurrentCell& gru_cell() {
  static constexpr RecurrentCell kCell{.name = "gru",
                                       .gates = 3,
                                       .has_c = false,
                                       .step = &kernels::Table::gru_step,
                                       .step_gradient = &kernels::Table::gru_step_gradient};
  return kCell;
}

std::int64_t packed_input_size(const RecurrentCell& cell, std::int64_t in, std::int64_t units) {
  return std::max(packed_b_size(in, cell.gates * units), packed_b_size(cell.gates * units, in));
}

// All parts: their units, and a margin for each part, of which there are at most one for every
// kLeastUnits units begun.
std::int64_t packed_hidden_size(const RecurrentCell& cell, std::int64_t units) {
  const std::int64_t parts = units / RecurrentParts::kLeastUnits + 1;
  return cell.gates * (units * units + parts * packed_b_size(units, 0));
}

void RecurrentForward::pack(const RecurrentWeights& weights) const {
  const RecurrentSizes& s = sizes_;
  const kernels::Table& table = kernels::best();
  table.pack_b(s.in, s.weight_rows(), weights.ih, 1, s.in, memory_.packed_ih);
  workers_.for_each(s.units, s.parts.units, [&](std::int64_t begin, std::int64_t end, int) {
    float* packed = memory_.packed_hh + packed_place(s, begin);
    check_packed(s, begin, end);
    for (const HiddenBlock& block : hidden_blocks(s, begin, end)) {
      table.pack_b(s.units, block.columns, weights.hh + block.row * s.units, 1, s.units, packed);
      packed += packed_b_size(s.units, block.columns);
    }
  });
  float* bias = memory_.bias;
  table.fill(s.kept_width(), 0, bias);
  if (weights.bias_ih == nullptr) return;
  const std::int64_t joined = s.cell->has_c ? 4 : 2;
  table.add(s.weight_rows(), weights.bias_ih, bias);
  table.add(joined * s.units, weights.bias_hh, bias);
  if (joined == 2) table.add(s.units, weights.bias_hh + 2 * s.units, bias + 3 * s.units);
}

void RecurrentForward::project(std::int64_t rows, const float* x, float* gates,
                               float* scratch) const {
  const RecurrentSizes& s = sizes_;
  kernels::best().gemm({.m = rows,
                        .n = s.weight_rows(),
                        .k = s.in,
                        .a = x,
                        .a_row = s.in,
                        .packed_b = memory_.packed_ih,
                        .c = gates,
                        .c_row = s.kept_width()},
                       scratch);
}

void RecurrentForward::run(std::int64_t first, std::int64_t last, const float* x) const {
  const RecurrentSizes& s = sizes_;
  float* gates = memory_.kept.gates + first * s.batch * s.kept_width();
  if (s.parts.examples < s.batch) {
    workers_.for_each(
        s.batch, s.parts.examples, [&](std::int64_t begin, std::int64_t end, int worker) {
          for (std::int64_t t = first; t < last; ++t) {
            const std::int64_t row = (t - first) * s.batch + begin;
            project(end - begin, x + row * s.in, gates + row * s.kept_width(),
                    workers_.of(worker, kernels::kGemmScratch));
            step(t, {begin, end - begin, 0, s.units}, workers_.of(worker, kernels::kGemmScratch));
          }
        });
    return;
  }
  const std::int64_t rows = (last - first) * s.batch;
  workers_.for_each(rows, share(workers_, rows, kUnitOfRows),
                    [&](std::int64_t begin, std::int64_t end, int worker) {
                      project(end - begin, x + begin * s.in, gates + begin * s.kept_width(),
                              workers_.of(worker, kernels::kGemmScratch));
                    });
  for (std::int64_t t = first; t < last; ++t) {
    workers_.for_each(
        s.units, s.parts.units, [&](std::int64_t begin, std::int64_t end, int worker) {
          step(t, {0, s.batch, begin, end}, workers_.of(worker, kernels::kGemmScratch));
        });
  }
}

void RecurrentForward::step(std::int64_t t, const RecurrentPart& part, float* scratch) const {
  const RecurrentSizes& s = sizes_;
  const kernels::Table& table = kernels::best();
  const RecurrentKept<float>& kept = memory_.kept;
  const std::int64_t before = (t * s.batch + part.first) * s.units;
  const std::int64_t after = before + s.batch * s.units;
  float* gates = kept.gates + (t * s.batch + part.first) * s.kept_width();
  const float* packed = memory_.packed_hh + packed_place(s, part.begin);
  for (const HiddenBlock& block : hidden_blocks(s, part.begin, part.end)) {
    table.gemm({.m = part.examples,
                .n = block.columns,
                .k = s.units,
                .a = kept.h + before,
                .a_row = s.units,
                .packed_b = packed,
                .c = gates + block.column,
                .c_row = s.kept_width(),
                .accumulate = block.accumulate},
               scratch);
    packed += packed_b_size(s.units, block.columns);
  }
  (table.*s.cell->step)({.rows = part.examples,
                         .units = s.units,
                         .begin = part.begin,
                         .end = part.end,
                         .gates = gates,
                         .bias = memory_.bias,
                         .h_before = kept.h + before,
                         .c_before = s.cell->has_c ? kept.c + before : nullptr,
                         .c = s.cell->has_c ? kept.c + after : nullptr,
                         .h = kept.h + after});
}

void RecurrentBackward::pack(const RecurrentWeights& weights) const {
  const RecurrentSizes& s = sizes_;
  const kernels::Table& table = kernels::best();
  const std::int64_t rows = s.weight_rows();
  if (memory_.packed_ih != nullptr) {
    table.pack_b(rows, s.in, weights.ih, s.in, 1, memory_.packed_ih);
  }
  workers_.for_each(s.units, s.parts.units, [&](std::int64_t begin, std::int64_t end, int) {
    check_packed(s, begin, end);
    table.pack_b(rows, end - begin, weights.hh + begin, s.units, 1,
                 memory_.packed_hh + packed_place(s, begin));
  });
}

void RecurrentBackward::run(std::int64_t first, std::int64_t last,
                            const RecurrentOutputGradient& dy) const {
  const RecurrentSizes& s = sizes_;
  const bool carries = first > 0 || memory_.initial_gradient;
  if (s.parts.units == s.units) {
    workers_.for_each(s.batch, s.parts.examples,
                      [&](std::int64_t begin, std::int64_t end, int worker) {
                        const RecurrentPart part{begin, end - begin, 0, s.units};
                        for (std::int64_t t = last - 1; t >= first; --t) {
                          step(t, first, part, dy);
                          if (t > first || carries)
                            carry(t, first, part, workers_.of(worker, kernels::kGemmScratch));
                        }
                      });
    return;
  }
  // A step's products want all its units: they wait for the next loop.
  for (std::int64_t t = last - 1; t >= first - (carries ? 1 : 0); --t) {
    workers_.for_each(s.units, s.parts.units,
                      [&](std::int64_t begin, std::int64_t end, int worker) {
                        const RecurrentPart part{0, s.batch, begin, end};
                        if (t < last - 1)
                          carry(t + 1, first, part, workers_.of(worker, kernels::kGemmScratch));
                        if (t >= first) step(t, first, part, dy);
                      });
  }
}

void RecurrentBackward::carry(std::int64_t t, std::int64_t first, const RecurrentPart& part,
                              float* scratch) const {
  const RecurrentSizes& s = sizes_;
  kernels::best().gemm(
      {.m = part.examples,
       .n = part.end - part.begin,
       .k = s.weight_rows(),
       .a = memory_.dhidden + ((t - first) * s.batch + part.first) * s.weight_rows(),
       .a_row = s.weight_rows(),
       .packed_b = memory_.packed_hh + packed_place(s, part.begin),
       .c = memory_.dh + part.first * s.units + part.begin,
       .c_row = s.units,
       .accumulate = !s.cell->has_c},
      scratch);
}

void RecurrentBackward::step(std::int64_t t, std::int64_t first, const RecurrentPart& part,
                             const RecurrentOutputGradient& dy) const {
  const RecurrentSizes& s = sizes_;
  const RecurrentKept<const float>& kept = memory_.kept;
  const std::int64_t before = (t * s.batch + part.first) * s.units;
  const std::int64_t after = before + s.batch * s.units;
  const std::int64_t place = ((t - first) * s.batch + part.first) * s.weight_rows();
  const bool has_dy = t >= dy.first;
  (kernels::best().*s.cell->step_gradient)(
      {.rows = part.examples,
       .units = s.units,
       .begin = part.begin,
       .end = part.end,
       .gates = kept.gates + (t * s.batch + part.first) * s.kept_width(),
       .h_before = kept.h + before,
       .c_before = s.cell->has_c ? kept.c + before : nullptr,
       .c = s.cell->has_c ? kept.c + after : nullptr,
       .dy = has_dy ? dy.at + (t - dy.first) * dy.step + part.first * dy.row : nullptr,
       .dy_row = dy.row,
       .dh = memory_.dh + part.first * s.units,
       .dc = s.cell->has_c ? memory_.dc + part.first * s.units : nullptr,
       .dinput = s.cell->has_c ? nullptr : memory_.dinput + place,
       .dhidden = memory_.dhidden + place});
}

void RecurrentBackward::weight_gradients(std::int64_t first, std::int64_t last, const float* x,
                                         float* dih, float* dhh, bool accumulate) const {
  const RecurrentSizes& s = sizes_;
  const kernels::Table& table = kernels::best();
  const std::int64_t width = s.weight_rows();
  const std::int64_t rows = (last - first) * s.batch;
  workers_.for_each(width, share(workers_, width, kUnitOfRows),
                    [&](std::int64_t begin, std::int64_t end, int worker) {
                      Gemm product{.m = end - begin,
                                   .n = s.in,
                                   .k = rows,
                                   .a = by_input() + begin,
                                   .a_row = 1,
                                   .a_step = width,
                                   .b = x,
                                   .b_step = s.in,
                                   .c = dih + begin * s.in,
                                   .c_row = s.in,
                                   .accumulate = accumulate};
                      table.gemm(product, workers_.of(worker, kernels::kGemmScratch));
                      product.n = s.units;
                      product.a = memory_.dhidden + begin;
                      product.b = memory_.kept.h + first * s.batch * s.units;
                      product.b_step = s.units;
                      product.c = dhh + begin * s.units;
                      product.c_row = s.units;
                      table.gemm(product, workers_.of(worker, kernels::kGemmScratch));
                    });
  table.add_rows(rows, width, by_input(), memory_.bias_sums);
  if (!s.cell->has_c) table.add_rows(rows, width, memory_.dhidden, memory_.bias_sums + width);
}

void RecurrentBackward::input_gradient(std::int64_t first, std::int64_t last, float* dx) const {
  const RecurrentSizes& s = sizes_;
  const std::int64_t rows = (last - first) * s.batch;
  workers_.for_each(rows, share(workers_, rows, kUnitOfRows),
                    [&](std::int64_t begin, std::int64_t end, int worker) {
                      kernels::best().gemm({.m = end - begin,
                                            .n = s.in,
                                            .k = s.weight_rows(),
                                            .a = by_input() + begin * s.weight_rows(),
                                            .a_row = s.weight_rows(),
                                            .packed_b = memory_.packed_ih,
                                            .c = dx + begin * s.in,
                                            .c_row = s.in},
                                           workers_.of(worker, kernels::kGemmScratch));
                    });
}

void RecurrentBackward::bias_gradients(float* dbias_ih, float* dbias_hh, bool accumulate) const {
  const std::int64_t width = sizes_.weight_rows();
  const kernels::Table& table = kernels::best();
  if (!accumulate) {
    table.fill(width, 0, dbias_ih);
    table.fill(width, 0, dbias_hh);
  }
  table.add(width, memory_.bias_sums, dbias_ih);
  table.add(width, memory_.bias_sums + (sizes_.cell->has_c ? 0 : width), dbias_hh);
}

}  // namespace muster::ops
