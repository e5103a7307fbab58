#include "core/graph/op_support/recurrent_layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "tests/support/vectors.h"

namespace muster::ops {
namespace {

// One layer with the state it begins in, and the gradients that reach it.
struct LayerCase {
  const RecurrentCell* cell = nullptr;
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t in = 0;
  std::int64_t units = 0;
  std::vector<float> w_ih, w_hh, b_ih, b_hh;
  std::vector<float> x, h0, c0;     // [steps, batch, in], [batch, units]
  std::vector<float> dy, dhn, dcn;  // [steps, batch, units], [batch, units]
};

struct LayerResult {
  std::vector<float> y, hn, cn, dx, dh0, dc0, dw_ih, dw_hh, db_ih, db_hh;
  bool operator==(const LayerResult&) const = default;
};

std::vector<float> floats(std::int64_t count, float value = 0) {
  return std::vector<float>(static_cast<std::size_t>(count), value);
}

// Forward and backward with so many steps a chunk, shared out in these parts.
LayerResult compute(const LayerCase& c, std::int64_t chunk, int worker_count,
                    const RecurrentParts& parts) {
  Workers threads(worker_count);
  std::vector<float> scratch = floats(kernels::kGemmScratch * worker_count);
  const WorkerScratch workers{&threads, scratch.data(), kernels::kGemmScratch};
  const RecurrentSizes sizes{c.cell, c.batch, c.in, c.units, parts};
  const std::int64_t state = c.batch * c.units;
  const std::int64_t rows = c.cell->gates * c.units;
  const bool has_c = c.cell->has_c;
  std::vector<float> packed_ih = floats(packed_input_size(*c.cell, c.in, c.units));
  std::vector<float> packed_hh = floats(packed_hidden_size(*c.cell, c.units));
  std::vector<float> bias = floats(4 * c.units);
  std::vector<float> gates = floats(c.steps * c.batch * 4 * c.units);
  std::vector<float> h = floats((c.steps + 1) * state);
  std::vector<float> cells = floats((c.steps + 1) * state);
  std::copy(c.h0.begin(), c.h0.end(), h.begin());
  std::copy(c.c0.begin(), c.c0.end(), cells.begin());
  const RecurrentWeights weights{c.w_ih.data(), c.w_hh.data(), c.b_ih.data(), c.b_hh.data()};
  const RecurrentForward forward(
      sizes, workers,
      {.packed_ih = packed_ih.data(),
       .packed_hh = packed_hh.data(),
       .bias = bias.data(),
       .kept = {gates.data(), h.data(), has_c ? cells.data() : nullptr}});
  forward.pack(weights);
  for (std::int64_t first = 0; first < c.steps; first += chunk) {
    forward.run(first, std::min(first + chunk, c.steps), c.x.data() + first * c.batch * c.in);
  }
  LayerResult result;
  result.y.assign(h.begin() + state, h.end());
  result.hn.assign(h.end() - state, h.end());
  if (has_c) result.cn.assign(cells.end() - state, cells.end());

  result.dx = floats(c.steps * c.batch * c.in);
  result.dh0 = c.dhn;
  result.dc0 = c.dcn;
  result.dw_ih = floats(rows * c.in, 77);
  result.dw_hh = floats(rows * c.units, 77);
  result.db_ih = floats(rows, 77);
  result.db_hh = floats(rows, 77);
  std::vector<float> dinput = floats(chunk * c.batch * rows);
  std::vector<float> dhidden = floats(chunk * c.batch * rows);
  std::vector<float> sums = floats(2 * rows);
  const RecurrentBackward backward(
      sizes, workers,
      {.packed_ih = packed_ih.data(),
       .packed_hh = packed_hh.data(),
       .dh = result.dh0.data(),
       .dc = has_c ? result.dc0.data() : nullptr,
       .dinput = has_c ? nullptr : dinput.data(),
       .dhidden = dhidden.data(),
       .bias_sums = sums.data(),
       .kept = {gates.data(), h.data(), has_c ? cells.data() : nullptr},
       .initial_gradient = true});
  backward.pack(weights);
  bool accumulate = false;
  for (std::int64_t first = (c.steps - 1) / chunk * chunk; first >= 0; first -= chunk) {
    const std::int64_t last = std::min(first + chunk, c.steps);
    backward.run(first, last, {c.dy.data(), 0, state, c.units});
    backward.weight_gradients(first, last, c.x.data() + first * c.batch * c.in, result.dw_ih.data(),
                              result.dw_hh.data(), accumulate);
    accumulate = true;
    backward.input_gradient(first, last, result.dx.data() + first * c.batch * c.in);
  }
  backward.bias_gradients(result.db_ih.data(), result.db_hh.data(), false);
  return result;
}

LayerResult compute(const LayerCase& c, std::int64_t chunk) {
  return compute(c, chunk, 1, {c.batch, c.units});
}

LayerCase from_vector(const Json& test) {
  LayerCase c;
  c.cell = test.at("layer") == "LSTM" ? &lstm_cell() : &gru_cell();
  const Json& inputs = test.at("inputs");
  const Shape shape = vectors::shape(inputs.at("x"));
  c.steps = shape[0];
  c.batch = shape[1];
  c.in = shape[2];
  c.units = test.at("hyperparameters").at("hidden");
  const auto read = [](const Json& from, const char* name, std::int64_t size) {
    return from.contains(name) ? vectors::floats(from.at(name)) : floats(size);
  };
  const std::int64_t state = c.batch * c.units;
  c.x = vectors::floats(inputs.at("x"));
  c.h0 = read(inputs, "h0", state);
  c.c0 = read(inputs, "c0", state);
  const Json& grads = test.at("grad_output");
  c.dy = vectors::floats(grads.at("y"));
  c.dhn = read(grads, "h_n", state);
  c.dcn = read(grads, "c_n", state);
  const Json& params = test.at("params");
  c.w_ih = vectors::floats(params.at("W_ih"));
  c.w_hh = vectors::floats(params.at("W_hh"));
  c.b_ih = vectors::floats(params.at("b_ih"));
  c.b_hh = vectors::floats(params.at("b_hh"));
  return c;
}

TEST(RecurrentLayer, EveryCaseMatchesTheReference) {
  const Json file = vectors::load("layers_recurrent.json");
  ASSERT_EQ(file.at("cases").size(), 4U);
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const LayerCase c = from_vector(test);
    const vectors::Tolerance tolerance = vectors::tolerance(file, test);
    const Json& expected = test.at("expected");
    for (const std::int64_t chunk : {1, 3, 4}) {
      const LayerResult got = compute(c, chunk);
      std::size_t checked = 0;
      const auto check = [&](const Json& wanted, const char* name, const std::vector<float>& is) {
        if (!wanted.contains(name)) return;
        SCOPED_TRACE(name);
        vectors::expect_close(is, vectors::doubles(wanted.at(name)), tolerance);
        ++checked;
      };
      check(expected.at("output"), "y", got.y);
      check(expected.at("output"), "h_n", got.hn);
      check(expected.at("output"), "c_n", got.cn);
      check(expected.at("grad_input"), "x", got.dx);
      check(expected.at("grad_input"), "h0", got.dh0);
      check(expected.at("grad_input"), "c0", got.dc0);
      check(expected.at("grad_params"), "W_ih", got.dw_ih);
      check(expected.at("grad_params"), "W_hh", got.dw_hh);
      check(expected.at("grad_params"), "b_ih", got.db_ih);
      check(expected.at("grad_params"), "b_hh", got.db_hh);
      EXPECT_EQ(checked, expected.at("output").size() + expected.at("grad_input").size() +
                             expected.at("grad_params").size());
    }
  }
}

LayerCase random_case(const RecurrentCell& cell, std::int64_t units) {
  LayerCase c;
  c.cell = &cell;
  c.steps = 11;
  c.batch = 5;
  c.in = 3;
  c.units = units;
  Random random(9);
  const auto draw = [&](std::int64_t count) {
    std::vector<float> values = floats(count);
    for (float& value : values) value = static_cast<float>(random.normal() * 0.5);
    return values;
  };
  const std::int64_t rows = cell.gates * units;
  c.w_ih = draw(rows * c.in);
  c.w_hh = draw(rows * units);
  c.b_ih = draw(rows);
  c.b_hh = draw(rows);
  c.x = draw(c.steps * c.batch * c.in);
  c.h0 = draw(c.batch * units);
  c.c0 = draw(c.batch * units);
  c.dy = draw(c.steps * c.batch * units);
  c.dhn = draw(c.batch * units);
  c.dcn = draw(c.batch * units);
  return c;
}

TEST(RecurrentLayer, ChunksAndWorkersDoNotChangeABitOfWhatAStepHas) {
  for (const RecurrentCell* cell : {&lstm_cell(), &gru_cell()}) {
    for (const std::int64_t units : {1, 16, 47, 48, 49, 97, 200}) {
      const LayerCase c = random_case(*cell, units);
      const LayerResult whole = compute(c, c.steps);
      for (const std::int64_t chunk : {1, 4, 11}) {
        SCOPED_TRACE(std::string(cell->name) + " units " + std::to_string(units) + " chunk " +
                     std::to_string(chunk));
        LayerResult one = compute(c, chunk);
        for (const int workers : {1, 2, 4}) {
          for (const std::int64_t examples : {1, 2, 4}) {
            EXPECT_TRUE(compute(c, chunk, workers, {examples, units}) == one) << examples;
          }
          for (const std::int64_t part : {48, 64, 112}) {
            EXPECT_TRUE(compute(c, chunk, workers, {c.batch, std::min(part, units)}) == one)
                << part;
          }
        }
        // Sums over steps are in the chunks' order.
        vectors::expect_close(one.dw_ih, whole.dw_ih, 1e-5, 1e-5);
        vectors::expect_close(one.dw_hh, whole.dw_hh, 1e-5, 1e-5);
        vectors::expect_close(one.db_ih, whole.db_ih, 1e-5, 1e-5);
        vectors::expect_close(one.db_hh, whole.db_hh, 1e-5, 1e-5);
        one.dw_ih = whole.dw_ih;
        one.dw_hh = whole.dw_hh;
        one.db_ih = whole.db_ih;
        one.db_hh = whole.db_hh;
        EXPECT_TRUE(one == whole);
      }
    }
  }
}

// The pointwise halves on every instruction set that the processor has.
TEST(RecurrentKernels, InstructionSetsWithFusedMultiplyAddsGiveTheSameBits) {
  constexpr std::int64_t kRows = 3;
  constexpr std::int64_t kUnits = 37;
  Random random(3);
  const auto draw = [&](std::int64_t count) {
    std::vector<float> values = floats(count);
    for (float& value : values) value = static_cast<float>(random.normal() * 2);
    return values;
  };
  const std::vector<float> products = draw(kRows * 4 * kUnits);
  const std::vector<float> bias = draw(4 * kUnits);
  const std::vector<float> before = draw(kRows * kUnits);
  const std::vector<float> dy = draw(kRows * 50);
  const std::vector<float> dh = draw(kRows * kUnits);
  std::vector<std::vector<float>> fused;
  std::vector<float> first;
  for (const kernels::Table* const* table = kernels::available(); *table != nullptr; ++table) {
    std::vector<float> all;
    for (const bool lstm : {true, false}) {
      std::vector<float> gates = products;
      std::vector<float> c = floats(kRows * kUnits);
      std::vector<float> h = c;
      std::vector<float> dh_now = dh;
      std::vector<float> dc_now = dh;
      std::vector<float> dinput = floats(kRows * 4 * kUnits);
      std::vector<float> dhidden = dinput;
      // In parts, which begin off the vectors' bounds.
      for (const auto& [begin, end] : {std::pair{0, 5}, std::pair{5, 37}}) {
        const kernels::RecurrentStep step{.rows = kRows,
                                          .units = kUnits,
                                          .begin = begin,
                                          .end = end,
                                          .gates = gates.data(),
                                          .bias = bias.data(),
                                          .h_before = before.data(),
                                          .c_before = before.data(),
                                          .c = c.data(),
                                          .h = h.data()};
        (lstm ? (*table)->lstm_step : (*table)->gru_step)(step);
      }
      const kernels::RecurrentGradient gradient{.rows = kRows,
                                                .units = kUnits,
                                                .begin = 0,
                                                .end = kUnits,
                                                .gates = gates.data(),
                                                .h_before = before.data(),
                                                .c_before = before.data(),
                                                .c = c.data(),
                                                .dy = dy.data(),
                                                .dy_row = 50,
                                                .dh = dh_now.data(),
                                                .dc = dc_now.data(),
                                                .dinput = dinput.data(),
                                                .dhidden = dhidden.data()};
      (lstm ? (*table)->lstm_step_gradient : (*table)->gru_step_gradient)(gradient);
      for (const auto* part : {&gates, &c, &h, &dh_now, &dc_now, &dinput, &dhidden}) {
        all.insert(all.end(), part->begin(), part->end());
      }
    }
    if (first.empty()) first = all;
    vectors::expect_close(all, first, 1e-5, 1e-5);
    if ((*table)->fused) fused.push_back(all);
  }
  for (const std::vector<float>& each : fused) EXPECT_TRUE(each == fused[0]);
}

}  // namespace
}  // namespace muster::ops
