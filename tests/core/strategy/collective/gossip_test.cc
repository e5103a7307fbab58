#include "core/strategy/collective/gossip.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "tests/support/vectors.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Vectors = std::vector<std::vector<float>>;

constexpr Topology kAll[] = {Topology::kRing, Topology::kTorus, Topology::kComplete,
                             Topology::kExponential, Topology::kStar};

Vectors step(const Neighbours& neighbours, const Vectors& before) {
  Vectors after = before;
  const std::vector<std::span<const float>> from(before.begin(), before.end());
  const std::vector<std::span<float>> to(after.begin(), after.end());
  gossip_step(neighbours, metropolis_weights(neighbours), from, to);
  return after;
}

double distance(const Vectors& vectors) {
  return consensus_distance(std::vector<std::span<const float>>(vectors.begin(), vectors.end()));
}

Neighbours graph_of(const Json& test) {
  const auto graph = test.at("graph").get<std::string>();
  const auto nodes = test.at("nodes").get<std::int64_t>();
  if (graph == "path") return path(nodes);
  if (graph == "torus") {
    return torus(test.at("rows").get<std::int64_t>(), test.at("cols").get<std::int64_t>());
  }
  return neighbours_of(*topology_from(graph, "test"), nodes);
}

bool connected(const Neighbours& neighbours) {
  std::set<std::int64_t> seen = {0};
  std::vector<std::int64_t> next = {0};
  while (!next.empty()) {
    const std::int64_t worker = next.back();
    next.pop_back();
    for (const std::int64_t other : neighbours[static_cast<std::size_t>(worker)]) {
      if (seen.insert(other).second) next.push_back(other);
    }
  }
  return seen.size() == neighbours.size();
}

TEST(Gossip, GraphsAndWeightsAreTheVectors) {
  const Json file = vectors::load("gossip.json");
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const Neighbours neighbours = graph_of(test);
    const MixingWeights weights = metropolis_weights(neighbours);
    const Json& expected = test.at("expected");
    Json edges = Json::array();
    for (std::size_t i = 0; i < neighbours.size(); ++i) {
      std::vector<double> row(neighbours.size(), 0.0);
      row[i] = weights.own[i];
      for (std::size_t k = 0; k < neighbours[i].size(); ++k) {
        const std::int64_t other = neighbours[i][k];
        row[static_cast<std::size_t>(other)] = weights.of_neighbours[i][k];
        if (other > static_cast<std::int64_t>(i)) edges.push_back({i, other});
      }
      vectors::expect_close(row, vectors::doubles(expected.at("weights").at(i)), 0, 1e-15);
      EXPECT_EQ(neighbours[i].size(), expected.at("degrees").at(i).get<std::size_t>());
    }
    EXPECT_EQ(edges, expected.at("edges"));
  }
}

TEST(Gossip, StepsGiveTheVectorsValues) {
  const Json file = vectors::load("gossip.json");
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const Neighbours neighbours = graph_of(test);
    Vectors x;
    for (const Json& row : test.at("x0")) x.push_back(vectors::floats(row));
    std::int64_t steps = 0;
    for (const Json& after : test.at("expected").at("after")) {
      for (; steps < after.at("steps").get<std::int64_t>(); ++steps) x = step(neighbours, x);
      for (std::size_t worker = 0; worker < x.size(); ++worker) {
        vectors::expect_close(x[worker], vectors::doubles(after.at("x").at(worker)),
                              vectors::tolerance(file, test));
      }
    }
    EXPECT_GE(steps, 20);
  }
}

TEST(Gossip, EveryTopologyIsASimpleConnectedGraph) {
  for (const Topology topology : kAll) {
    for (std::int64_t workers = 1; workers <= 33; ++workers) {
      SCOPED_TRACE(testing::Message() << to_string(topology) << " of " << workers);
      const Neighbours neighbours = neighbours_of(topology, workers);
      ASSERT_EQ(neighbours.size(), static_cast<std::size_t>(workers));
      EXPECT_TRUE(connected(neighbours));
      for (std::int64_t i = 0; i < workers; ++i) {
        const auto& others = neighbours[static_cast<std::size_t>(i)];
        EXPECT_EQ(std::ranges::adjacent_find(others, std::ranges::greater_equal{}), others.end());
        for (const std::int64_t other : others) {
          EXPECT_NE(other, i);
          const auto& back = neighbours[static_cast<std::size_t>(other)];
          EXPECT_TRUE(std::ranges::binary_search(back, i));
        }
      }
    }
  }
}

TEST(Gossip, WeightsAreSymmetricAndSumToOneInRowsAndColumns) {
  for (const Topology topology : kAll) {
    for (std::int64_t workers = 1; workers <= 33; ++workers) {
      SCOPED_TRACE(testing::Message() << to_string(topology) << " of " << workers);
      const Neighbours neighbours = neighbours_of(topology, workers);
      const MixingWeights weights = metropolis_weights(neighbours);
      std::vector<double> columns = weights.own;
      for (std::size_t i = 0; i < neighbours.size(); ++i) {
        double row = weights.own[i];
        EXPECT_GT(weights.own[i], 0);
        for (std::size_t k = 0; k < neighbours[i].size(); ++k) {
          const auto other = static_cast<std::size_t>(neighbours[i][k]);
          const auto back =
              std::ranges::lower_bound(neighbours[other], static_cast<std::int64_t>(i)) -
              neighbours[other].begin();
          EXPECT_EQ(weights.of_neighbours[i][k],
                    weights.of_neighbours[other][static_cast<std::size_t>(back)]);
          row += weights.of_neighbours[i][k];
          columns[other] += weights.of_neighbours[i][k];
        }
        EXPECT_NEAR(row, 1, 1e-15);
      }
      for (const double column : columns) EXPECT_NEAR(column, 1, 4e-15);
    }
  }
}

TEST(Gossip, KeepsTheMeanAndEndsInConsensusOnEveryTopology) {
  for (const Topology topology : kAll) {
    SCOPED_TRACE(to_string(topology));
    const Neighbours neighbours = neighbours_of(topology, 12);
    Vectors x;
    for (int worker = 0; worker < 12; ++worker) {
      x.push_back(std::vector<float>(1500, static_cast<float>(worker * worker)));
    }
    const double before = distance(x);
    x = step(neighbours, x);
    EXPECT_LT(distance(x), before);
    for (int i = 0; i < 400; ++i) x = step(neighbours, x);
    EXPECT_LT(distance(x), before * 1e-5);
    for (const auto& row : x) {
      EXPECT_NEAR(row.front(), 506.0 / 12, 1e-3);
      EXPECT_EQ(row.front(), row.back());  // every block is summed in the same way
    }
  }
}

TEST(Gossip, TorusIsNearestToASquareAndAPrimeIsARing) {
  EXPECT_EQ(neighbours_of(Topology::kTorus, 12), torus(3, 4));
  EXPECT_EQ(neighbours_of(Topology::kTorus, 16), torus(4, 4));
  EXPECT_EQ(neighbours_of(Topology::kTorus, 18), torus(3, 6));
  EXPECT_EQ(neighbours_of(Topology::kTorus, 7), neighbours_of(Topology::kRing, 7));
}

TEST(Gossip, ExponentialReachesPowersOfTwoBothWays) {
  EXPECT_THAT(neighbours_of(Topology::kExponential, 16)[0], ElementsAre(1, 2, 4, 8, 12, 14, 15));
  EXPECT_THAT(neighbours_of(Topology::kExponential, 6)[1], ElementsAre(0, 2, 3, 5));
  EXPECT_THAT(neighbours_of(Topology::kExponential, 1)[0], IsEmpty());
}

TEST(Gossip, ConsensusDistanceIsTheRootOfTheMeanSquaredDistanceToTheMean) {
  EXPECT_DOUBLE_EQ(distance({{0, 0}, {6, 8}}), 5);            // both 5 from (3, 4)
  EXPECT_DOUBLE_EQ(distance({{0}, {0}, {3}}), std::sqrt(2));  // (1 + 1 + 4) / 3
  EXPECT_EQ(distance({{1, 2}, {1, 2}}), 0);
  EXPECT_EQ(distance({{1, 2}}), 0);
  EXPECT_EQ(distance({}), 0);
}

TEST(Gossip, ConsensusDistanceSeesEveryElementOfLongVectors) {
  Vectors x(2, std::vector<float>(5000, 0));
  for (float& value : x[1]) value = 2;
  EXPECT_DOUBLE_EQ(distance(x), std::sqrt(5000.0));
}

TEST(Gossip, NamesReadBackAndAnUnknownOneListsThem) {
  for (const Topology topology : kAll)
    EXPECT_EQ(*topology_from(to_string(topology), "x"), topology);
  const auto unknown = topology_from("mesh", "job.strategy.aggregation.topology");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(unknown.error().message, HasSubstr("job.strategy.aggregation.topology"));
  for (const char* name : {"mesh", "ring", "torus", "complete", "exponential", "star"}) {
    EXPECT_THAT(unknown.error().message, HasSubstr(name));
  }
}

}  // namespace
}  // namespace muster
