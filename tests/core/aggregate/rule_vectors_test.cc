#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "core/aggregate/aggregator.h"
#include "core/aggregate/linear/fednova_norm.h"
#include "core/aggregate/rule_state.h"
#include "tests/support/vectors.h"

// tests/vectors/: server optimisers, FedNova, and the server's halves of SCAFFOLD and FedDyn.
namespace muster {
namespace {

using vectors::Tolerance;

// A state of vectors, also where it is one tensor without a name.
StateDict state_of(const Json& json) {
  return vectors::state(json.contains("data") ? Json{{"theta", json}} : json);
}

void expect_state(std::span<const float> got, const StateLayout& layout, const Json& want,
                  const Tolerance& allowed) {
  const Json named = want.contains("data") ? Json{{"theta", want}} : want;
  ASSERT_EQ(named.size(), layout.tensors().size());
  for (const TensorSpec& spec : layout.tensors()) {
    SCOPED_TRACE(spec.name);
    vectors::expect_close(
        got.subspan(static_cast<std::size_t>(spec.offset), static_cast<std::size_t>(spec.size)),
        vectors::doubles(named.at(spec.name)), allowed);
  }
}

// One round after another, each from what came of the one before.
class Rounds {
 public:
  Rounds(AggregationSettings settings, AggregationBase base, StateDict x0)
      : settings_(settings), base_(base), x_(std::move(x0)) {}

  void given(StateDict rule_state) { kept_ = std::move(rule_state); }

  void run(std::vector<Contribution> contributions) {
    base_.global = &x_;
    base_.rule_state = kept_ ? &*kept_ : nullptr;
    const auto made = make_aggregator(settings_, base_);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    for (Contribution& contribution : contributions) {
      contribution.contributor = "client" + std::to_string((*made)->num_contributors());
      const auto status = (*made)->accumulate(std::move(contribution));
      ASSERT_TRUE(status.has_value()) << status.error().message;
    }
    auto outcome = (*made)->finish();
    ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
    x_ = std::move(outcome->global);
    kept_ = std::move(outcome->rule_state);
  }

  const StateDict& x() const { return x_; }
  std::span<const float> slot(std::size_t index) const {
    return slot_of(*kept_, index, x_.layout());
  }
  bool keeps() const { return kept_.has_value(); }

 private:
  AggregationSettings settings_;
  AggregationBase base_;
  StateDict x_;
  std::optional<StateDict> kept_;
};

// A slot's values as a rule state of one slot.
StateDict rule_state_of(const StateDict& values, const std::string& slot) {
  StateDict state(*rule_state_layout(values.layout(), {slot}));
  std::copy(values.values().begin(), values.values().end(), state.values().begin());
  return state;
}

// --- server optimisers ---

AggregationSettings optimiser(const Json& test) {
  const Json& h = test.at("hyperparameters");
  const auto name = test.at("optimizer").get<std::string>();
  if (name == "fedsgd") return FedAvgM{.server_lr = h.at("eta"), .momentum = 0};
  if (name == "fedavgm" || name == "fedavgm_nesterov") {
    return FedAvgM{
        .server_lr = h.at("eta"), .momentum = h.at("beta"), .nesterov = name != "fedavgm"};
  }
  FedAdaptive rule{.server_lr = h.at("eta"), .beta1 = h.at("beta1"), .tau = h.at("tau")};
  if (name == "fedadagrad") {
    rule.kind = FedAdaptive::Kind::kAdagrad;
  } else {
    rule.kind = name == "fedadam" ? FedAdaptive::Kind::kAdam : FedAdaptive::Kind::kYogi;
    rule.beta2 = h.at("beta2");
  }
  return rule;
}

// The clients' deltas, as they are or as the states that they lead to.
std::vector<Contribution> clients_of(const Json& round, const StateDict* x) {
  std::vector<Contribution> clients;
  for (std::size_t i = 0; i < round.at("weights").size(); ++i) {
    StateDict values = vectors::state(round.at("client_deltas")[i]);
    if (x != nullptr) {
      for (std::size_t k = 0; k < values.values().size(); ++k) {
        values.values()[k] += x->values()[k];
      }
    }
    clients.push_back({.contributor = {},
                       .values = values_of(std::move(values)),
                       .examples = round.at("weights")[i].get<std::int64_t>()});
  }
  return clients;
}

class ServerOptimizers : public ::testing::TestWithParam<const char*> {};

TEST_P(ServerOptimizers, FollowTheVectorsForFiveRounds) {
  const Json file = vectors::load(GetParam());
  EXPECT_GE(file.at("cases").size(), 6U);
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    Rounds rounds(optimiser(test), {.content = UpdateContent::kDelta},
                  vectors::state(test.at("x0")));
    const Json& allowed = test.at("tolerance");
    for (std::size_t i = 0; i < test.at("rounds").size(); ++i) {
      SCOPED_TRACE(i);
      ASSERT_NO_FATAL_FAILURE(rounds.run(clients_of(test.at("rounds")[i], nullptr)));
      const StateLayout& layout = rounds.x().layout();
      const Json& want = test.at("expected")[i];
      expect_state(rounds.x().values(), layout, want.at("x"), vectors::tolerance(allowed.at("x")));
      std::size_t slot = 0;
      for (const char* name : {"m", "v"}) {
        if (!want.contains(name)) continue;
        SCOPED_TRACE(name);
        expect_state(rounds.slot(slot++), layout, want.at(name),
                     vectors::tolerance(allowed.at(name)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Vectors, ServerOptimizers,
                         ::testing::Values("server_momentum.json", "server_fedadagrad.json",
                                           "server_fedadam.json", "server_fedyogi.json"));

TEST(ServerOptimizers, TakeTheSameStepFromStatesAsFromDeltas) {
  const Json file = vectors::load("server_fedadam.json");
  const Json& test = file.at("cases").front();
  const StateDict x0 = vectors::state(test.at("x0"));
  Rounds rounds(optimiser(test), {.content = UpdateContent::kState}, x0.clone());
  ASSERT_NO_FATAL_FAILURE(rounds.run(clients_of(test.at("rounds")[0], &x0)));
  expect_state(rounds.x().values(), x0.layout(), test.at("expected")[0].at("x"),
               {.rtol = 1e-3, .atol = 1e-5});
}

// --- FedNova ---

TEST(FedNovaVectors, GiveTheNewModelFromStatesAndDeltas) {
  const Json file = vectors::load("fednova.json");
  EXPECT_EQ(file.at("cases").size(), 8U);
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const auto tau_eff =
        test.at("tau_eff_rule") == "steps" ? FedNova::TauEff::kSteps : FedNova::TauEff::kNorm;
    for (const UpdateContent content : {UpdateContent::kState, UpdateContent::kDelta}) {
      const StateDict x0 = vectors::state(test.at("x0"));
      Rounds rounds(FedNova{tau_eff},
                    {.content = content,
                     .local_lr = test.at("eta"),
                     .local_momentum = test.at("momentum"),
                     .local_mu = test.at("mu")},
                    x0.clone());
      std::vector<Contribution> clients;
      for (std::size_t i = 0; i < test.at("local_steps").size(); ++i) {
        StateDict y = vectors::state(test.at("expected").at("y")[i]);
        if (content == UpdateContent::kDelta) {
          for (std::size_t k = 0; k < y.values().size(); ++k) y.values()[k] -= x0.values()[k];
        }
        clients.push_back({.contributor = {},
                           .values = values_of(std::move(y)),
                           .examples = test.at("num_examples")[i],
                           .steps = test.at("local_steps")[i]});
      }
      ASSERT_NO_FATAL_FAILURE(rounds.run(std::move(clients)));
      EXPECT_FALSE(rounds.keeps());
      expect_state(rounds.x().values(), x0.layout(), test.at("expected").at("x"),
                   vectors::tolerance(file, test));
    }
  }
}

TEST(FedNovaVectors, GiveTheNormOfTheSteps) {
  const Json file = vectors::load("fednova.json");
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const double shrink = test.at("eta").get<double>() * test.at("mu").get<double>();
    for (std::size_t i = 0; i < test.at("local_steps").size(); ++i) {
      EXPECT_NEAR(fednova_norm(test.at("local_steps")[i], test.at("momentum"), shrink),
                  test.at("expected").at("a_norm")[i].get<double>(), 1e-12);
    }
  }
}

// --- SCAFFOLD ---

TEST(ScaffoldVectors, GiveTheServersModelAndControlVariate) {
  const Json file = vectors::load("scaffold.json");
  EXPECT_EQ(file.at("cases").size(), 5U);
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    Rounds rounds(Scaffold{test.at("eta_g")},
                  {.population = test.at("num_clients"), .local_lr = test.at("eta_l")},
                  vectors::state(test.at("x0")));
    if (test.contains("c0")) rounds.given(rule_state_of(vectors::state(test.at("c0")), "c"));
    for (const Json& want : test.at("expected")) {
      std::vector<Contribution> clients;
      for (const Json& client : want.at("clients")) {
        const auto index = client.at("client").get<std::size_t>();
        clients.push_back({.contributor = {},
                           .values = values_of(vectors::state(client.at("y"))),
                           .examples = 1,
                           .steps = test.at("local_steps")[index]});
      }
      ASSERT_NO_FATAL_FAILURE(rounds.run(std::move(clients)));
      const StateLayout& layout = rounds.x().layout();
      expect_state(rounds.x().values(), layout, want.at("x"), vectors::tolerance(file, test));
      expect_state(rounds.slot(0), layout, want.at("c"), vectors::tolerance(file, test));
    }
  }
}

// --- FedDyn ---

TEST(FedDynVectors, GiveTheServersModelAndH) {
  const Json file = vectors::load("feddyn.json");
  EXPECT_EQ(file.at("cases").size(), 6U);
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    Rounds rounds(FedDyn{test.at("alpha")}, {.population = test.at("num_clients")},
                  state_of(test.at("theta0")));
    if (test.contains("h0")) rounds.given(rule_state_of(state_of(test.at("h0")), "h"));
    if (test.at("name") == "quadratic_all_60_rounds") continue;  // below
    for (const Json& want : test.at("expected")) {
      std::vector<Contribution> clients;
      for (const Json& theta : want.at("theta_k")) {
        clients.push_back({.contributor = {}, .values = values_of(state_of(theta)), .examples = 1});
      }
      ASSERT_NO_FATAL_FAILURE(rounds.run(std::move(clients)));
      const StateLayout& layout = rounds.x().layout();
      expect_state(rounds.x().values(), layout, want.at("theta"), vectors::tolerance(file, test));
      expect_state(rounds.slot(0), layout, want.at("h"), vectors::tolerance(file, test));
    }
  }
}

// The vectors have the first and the last of 60 rounds; the clients, which minimise quadratics
// exactly, are run here.
TEST(FedDynVectors, ReachTheMinimiserOfTheMeanLossIn60Rounds) {
  const Json file = vectors::load("feddyn.json");
  const Json& test =
      *std::find_if(file.at("cases").begin(), file.at("cases").end(),
                    [](const Json& one) { return one.at("name") == "quadratic_all_60_rounds"; });
  const double alpha = test.at("alpha");
  const auto a = vectors::doubles(test.at("a"));
  const auto b = vectors::doubles(test.at("b"));
  std::vector<double> gradients(a.size(), 0.0);
  Rounds rounds(FedDyn{alpha}, {.population = test.at("num_clients")}, state_of(test.at("theta0")));
  const std::size_t size = rounds.x().values().size();
  for (int round = 0; round < 60; ++round) {
    const StateDict before = rounds.x().clone();
    std::vector<Contribution> clients;
    for (std::size_t k = 0; k < a.size(); k += size) {
      StateDict theta(before.layout_ptr());
      for (std::size_t j = 0; j < size; ++j) {
        const double from = before.values()[j];
        const double to =
            (a[k + j] * b[k + j] + gradients[k + j] + alpha * from) / (a[k + j] + alpha);
        gradients[k + j] -= alpha * (to - from);
        theta.values()[j] = static_cast<float>(to);
      }
      clients.push_back({.contributor = {}, .values = values_of(std::move(theta)), .examples = 1});
    }
    ASSERT_NO_FATAL_FAILURE(rounds.run(std::move(clients)));
    if (round != 0 && round != 59) continue;
    const Json& want = test.at("expected")[round == 0 ? 0 : 1];
    const StateLayout& layout = rounds.x().layout();
    expect_state(rounds.x().values(), layout, want.at("theta"), vectors::tolerance(file, test));
    expect_state(rounds.slot(0), layout, want.at("h"), vectors::tolerance(file, test));
  }
  expect_state(rounds.x().values(), rounds.x().layout(), test.at("minimiser_of_the_mean_loss"),
               vectors::tolerance(file, test));
}

}  // namespace
}  // namespace muster
