#include "core/train/drift_correction.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/train/training_run.h"
#include "tests/support/vectors.h"

namespace muster {
namespace {

// Softmax regression as the vectors have it: tensors W and b become fc.weight and fc.bias.
Graph softmax_graph(const Json& start, const Json& client) {
  return *Graph::from_json(
      {{"input", {{"shape", {vectors::shape(client.at("x"))[1]}}}},
       {"nodes", {{{"id", "fc"}, {"op", "dense"}, {"units", vectors::shape(start.at("W"))[0]}}}},
       {"loss", {{"type", "softmax_cross_entropy"}}}});
}

StateDict state_of(const Json& tensors, const LayoutPtr& layout) {
  StateDict state(layout);
  for (const auto& [theirs, ours] : {std::pair{"W", "fc.weight"}, std::pair{"b", "fc.bias"}}) {
    const auto values = vectors::floats(tensors.at(theirs));
    std::copy(values.begin(), values.end(), state.tensor(ours).begin());
  }
  return state;
}

void expect_state(const StateDict& got, const Json& want, const vectors::Tolerance& tolerance) {
  vectors::expect_close(got.tensor("fc.weight"), vectors::doubles(want.at("W")), tolerance);
  vectors::expect_close(got.tensor("fc.bias"), vectors::doubles(want.at("b")), tolerance);
}

// SGD from `start` with the offset; batches in stored order.
StateDict train(const Graph& graph, const Json& client, const StateDict& start, std::int64_t steps,
                const Json& batch_size, double lr, double mu, const StateDict& offset) {
  DatasetRows rows;
  rows.shape = {vectors::shape(client.at("x"))[1]};
  rows.floats = vectors::floats(client.at("x"));
  rows.labels = client.at("labels").get<std::vector<std::int32_t>>();
  const Dataset data = *Dataset::create(std::move(rows));
  const LocalSettings settings = *local_settings_from_json({{"epochs", 1000},
                                                            {"max_steps", steps},
                                                            {"batch_size", batch_size},
                                                            {"shuffle", false},
                                                            {"mu", mu},
                                                            {"optimizer", {{"lr", lr}}}},
                                                           "local");
  auto run = TrainingRun::create(graph, data, start, settings, 1, {.gradient_offset = &offset});
  EXPECT_TRUE(run) << run.error().message;
  while (!run->done()) EXPECT_TRUE(run->step());
  return std::move(*std::move(*run).finish()).state;
}

using Kept = std::vector<std::optional<StateDict>>;

const StateDict* of(const std::optional<StateDict>& state) {
  return state ? &*state : nullptr;
}

TEST(Scaffold, TheDevicesHalfMatchesTheReferenceInEveryRound) {
  const Json file = vectors::load("scaffold.json");
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const auto tolerance = vectors::tolerance(file, test);
    const Graph graph = softmax_graph(test.at("x0"), test.at("clients").at(0));
    const LayoutPtr layout = graph.layout();
    StateDict x = state_of(test.at("x0"), layout);
    std::optional<StateDict> c;
    if (test.contains("c0")) c = state_of(test.at("c0"), layout);
    Kept kept(test.at("clients").size());
    for (std::size_t i = 0; test.contains("c_i0") && i < kept.size(); ++i) {
      kept[i] = state_of(test.at("c_i0").at(i), layout);
    }
    const double lr = test.at("eta_l");
    for (const Json& round : test.at("expected")) {
      for (const Json& expected : round.at("clients")) {
        const auto i = expected.at("client").get<std::size_t>();
        const std::int64_t steps = test.at("local_steps").at(i);
        const StateDict offset =
            gradient_offset(DriftCorrection::kScaffold, layout, of(c), of(kept[i]));
        const StateDict y =
            train(graph, test.at("clients").at(i), x, steps, test.at("batch_size"), lr, 0, offset);
        expect_state(y, expected.at("y"), tolerance);
        StateDict next =
            keep(DriftCorrection::kScaffold, {.global = &x, .sent = &y, .steps = steps, .lr = lr},
                 of(c), of(kept[i]));
        expect_state(next, expected.at("c_i"), tolerance);
        StateDict delta = next.clone();
        for (std::size_t k = 0; kept[i] && k < delta.values().size(); ++k) {
          delta.values()[k] -= kept[i]->values()[k];
        }
        expect_state(delta, expected.at("delta_c"), tolerance);
        kept[i] = std::move(next);
      }
      x = state_of(round.at("x"), layout);
      c = state_of(round.at("c"), layout);
    }
  }
}

TEST(FedDyn, TheDevicesHalfMatchesTheReferenceInEveryRound) {
  const Json file = vectors::load("feddyn.json");
  int cases = 0;
  for (const Json& test : file.at("cases")) {
    if (test.at("kind") != "sgd") continue;
    ++cases;
    SCOPED_TRACE(test.at("name").get<std::string>());
    const auto tolerance = vectors::tolerance(file, test);
    const Graph graph = softmax_graph(test.at("theta0"), test.at("clients").at(0));
    const LayoutPtr layout = graph.layout();
    StateDict theta = state_of(test.at("theta0"), layout);
    Kept kept(test.at("clients").size());
    const double alpha = test.at("alpha");
    for (std::size_t r = 0; r < test.at("active").size(); ++r) {
      const Json& round = test.at("expected").at(r);
      for (std::size_t k = 0; k < test.at("active").at(r).size(); ++k) {
        const auto i = test.at("active").at(r).at(k).get<std::size_t>();
        const StateDict offset =
            gradient_offset(DriftCorrection::kFedDyn, layout, nullptr, of(kept[i]));
        const StateDict y = train(graph, test.at("clients").at(i), theta, test.at("local_steps"),
                                  test.at("batch_size"), test.at("lr"), alpha, offset);
        expect_state(y, round.at("theta_k").at(k), tolerance);
        kept[i] = keep(DriftCorrection::kFedDyn, {.global = &theta, .sent = &y, .alpha = alpha},
                       nullptr, of(kept[i]));
        expect_state(*kept[i], round.at("grad_k").at(k), tolerance);
      }
      theta = state_of(round.at("theta"), layout);
    }
  }
  EXPECT_EQ(cases, 2);
}

// The minimum is found exactly there, so only what is kept can be compared.
TEST(FedDyn, WhatIsKeptFromAnExactMinimumMatchesTheReference) {
  const Json file = vectors::load("feddyn.json");
  for (const Json& test : file.at("cases")) {
    if (test.at("kind") != "quadratic") continue;
    SCOPED_TRACE(test.at("name").get<std::string>());
    const auto tolerance = vectors::tolerance(file, test);
    const auto plain = [](const Json& tensor) { return vectors::state({{"theta", tensor}}); };
    StateDict theta = plain(test.at("theta0"));
    const auto size = theta.values().size();
    Kept kept(test.at("num_clients").get<std::size_t>());
    if (test.contains("grad_k0")) {
      const auto values = vectors::floats(test.at("grad_k0"));
      for (std::size_t i = 0; i < kept.size(); ++i) {
        kept[i] = StateDict(theta.layout_ptr());
        std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(i * size), size,
                    kept[i]->values().begin());
      }
    }
    // One case lists the first and the last round only; then the first is all that follows.
    const std::size_t rounds = test.contains("note") ? 1 : test.at("expected").size();
    for (std::size_t r = 0; r < rounds; ++r) {
      const Json& round = test.at("expected").at(r);
      for (std::size_t k = 0; k < test.at("active").at(r).size(); ++k) {
        const auto i = test.at("active").at(r).at(k).get<std::size_t>();
        const StateDict y = plain(round.at("theta_k").at(k));
        kept[i] =
            keep(DriftCorrection::kFedDyn,
                 {.global = &theta, .sent = &y, .alpha = test.at("alpha")}, nullptr, of(kept[i]));
        vectors::expect_close(kept[i]->values(), vectors::doubles(round.at("grad_k").at(k)),
                              tolerance);
      }
      theta = plain(round.at("theta"));
    }
  }
}

TEST(DriftCorrection, WithoutOneThereIsNothingToAdd) {
  const StateDict state = vectors::state({{"w", {1.0, 2.0}}});
  const StateDict zero(state.layout_ptr());
  EXPECT_EQ(gradient_offset(DriftCorrection::kNone, state.layout_ptr(), &state, &state), zero);
  EXPECT_EQ(gradient_offset(DriftCorrection::kScaffold, state.layout_ptr(), nullptr, nullptr),
            zero);
  EXPECT_EQ(gradient_offset(DriftCorrection::kScaffold, state.layout_ptr(), &state, &state), zero);
}

TEST(DriftCorrection, WhatIsKeptIsRoundedOnce) {
  // In float32 the sum of 1 and the small step would lose it twice over.
  const StateDict x = vectors::state({{"w", {1.0}}});
  const StateDict y = vectors::state({{"w", {1.0 + 0x1p-23}}});
  const StateDict big = vectors::state({{"w", {3.0}}});
  const StateDict next = keep(DriftCorrection::kScaffold,
                              {.global = &x, .sent = &y, .steps = 3, .lr = 0.1}, &big, &big);
  EXPECT_EQ(next.values()[0], static_cast<float>(-0x1p-23 / (3 * 0.1)));
}

}  // namespace
}  // namespace muster
