#include "core/strategy/population/population.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <set>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
constexpr std::uint64_t kSeeds = 60;

const SearchSpace kSpace = {{"lr", LogUniform{.low = 1e-4, .high = 1}},
                            {"momentum", Uniform{.low = 0, .high = 0.99}}};

// One member a score; member i has hyperparameters that tell it from the others.
std::vector<Member> members_of(const std::vector<double>& scores) {
  std::vector<Member> members;
  for (const double score : scores) {
    const auto id = static_cast<std::int64_t>(members.size());
    members.push_back(
        {.id = id,
         .score = score,
         .hyperparameters = {{"lr", 0.01 + 0.001 * static_cast<double>(id)}, {"momentum", 0.5}}});
  }
  return members;
}

ExploitSettings truncation(double fraction) {
  return {.fraction = fraction};
}
ExploitSettings binary(double threshold) {
  return {.method = ExploitSettings::Method::kBinary, .threshold = threshold};
}

std::vector<Succession> next(const std::vector<Member>& members, const ExploitSettings& exploit,
                             std::uint64_t seed = 1, const ExploreSettings& explore = {}) {
  return next_generation(members, kSpace, exploit, explore, seed).value();
}

std::vector<std::int64_t> parents(const std::vector<Succession>& successions) {
  std::vector<std::int64_t> result;
  for (const Succession& succession : successions) result.push_back(succession.parent);
  return result;
}

// Everyone the member goes on from, over many seeds.
std::set<std::int64_t> parents_of(std::size_t member, const std::vector<Member>& members,
                                  const ExploitSettings& exploit) {
  std::set<std::int64_t> result;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    result.insert(next(members, exploit, seed)[member].parent);
  }
  return result;
}

TEST(Truncation, WorstShareCopiesFromAnyOfTheBestAndOthersKeepTheirOwn) {
  const auto members = members_of({5, 1, 9, 3, 8, 4, 7, 2, 6, 0});
  EXPECT_THAT(parents_of(1, members, truncation(0.2)), UnorderedElementsAre(2, 4));
  EXPECT_THAT(parents_of(9, members, truncation(0.2)), UnorderedElementsAre(2, 4));
  const auto successions = next(members, truncation(0.2));
  for (const std::size_t kept : {0U, 2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
    EXPECT_EQ(successions[kept],
              (Succession{members[kept].id, members[kept].id, members[kept].hyperparameters}));
  }
}

TEST(Truncation, ShareIsRoundedDownButAtLeastOne) {
  const auto copying = [](double fraction, std::size_t count) {
    std::vector<double> scores;
    for (std::size_t i = 0; i < count; ++i) scores.push_back(static_cast<double>(i));
    std::size_t copies = 0;
    for (const Succession& succession : next(members_of(scores), truncation(fraction))) {
      copies += succession.parent != succession.member ? 1 : 0;
    }
    return copies;
  };
  EXPECT_EQ(copying(0.2, 4), 1U);
  EXPECT_EQ(copying(0.2, 9), 1U);
  EXPECT_EQ(copying(0.2, 10), 2U);
  EXPECT_EQ(copying(0.29, 100), 29U);  // 28.999999999999996 in double
  EXPECT_EQ(copying(0.5, 5), 2U);
  EXPECT_EQ(copying(0.5, 2), 1U);
  EXPECT_EQ(copying(0.5, 1), 0U);
}

TEST(Truncation, TiesGoToTheLowerId) {
  EXPECT_THAT(parents(next(members_of({1, 1, 1, 1}), truncation(0.25))), ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(parents(next(members_of({0, 2, 2, 0}), truncation(0.25))), ElementsAre(0, 1, 2, 1));
}

TEST(Binary, CopiesOnlyWhenTheMarginIsExceeded) {
  EXPECT_THAT(parents(next(members_of({1, 1.5}), binary(0.5))), ElementsAre(0, 1));
  EXPECT_THAT(parents(next(members_of({1, std::nextafter(1.5, 2)}), binary(0.5))),
              ElementsAre(1, 1));
  EXPECT_THAT(parents(next(members_of({2, 2}), binary(0))), ElementsAre(0, 1));
  EXPECT_THAT(parents(next(members_of({3, 2}), binary(0))), ElementsAre(0, 0));
}

TEST(Binary, ComparesWithOneOtherDrawnFromTheSeed) {
  const auto members = members_of({1, 2, 3, 0});
  EXPECT_THAT(parents_of(0, members, binary(0)), UnorderedElementsAre(0, 1, 2));
  EXPECT_THAT(parents_of(1, members, binary(0)), UnorderedElementsAre(1, 2));
  EXPECT_THAT(parents_of(2, members, binary(0)), UnorderedElementsAre(2));
  EXPECT_THAT(parents_of(3, members, binary(0)), UnorderedElementsAre(0, 1, 2));
}

TEST(NextGeneration, SeesEveryoneBeforeAnyoneChanged) {
  // 0 can copy from 1 while 1 copies from 2: then it gets what 1 had before.
  const auto members = members_of({1, 2, 3});
  const Explore keep = [](const Hyperparameters& values, Random&) { return values; };
  bool seen = false;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto successions =
        next_generation(members, binary(0), keep, Explorers::kThoseThatCopied, seed).value();
    if (parents(successions) != std::vector<std::int64_t>{1, 2, 2}) continue;
    seen = true;
    EXPECT_EQ(successions[0].hyperparameters, members[1].hyperparameters);
    EXPECT_EQ(successions[1].hyperparameters, members[2].hyperparameters);
  }
  EXPECT_TRUE(seen);
}

TEST(NextGeneration, AFailedMemberCopiesInAnyCaseAndIsNoParent) {
  for (const ExploitSettings& exploit : {truncation(0.5), truncation(0.01), binary(1e9)}) {
    for (const double lost : {kMinusInfinity, std::nan("")}) {
      const auto members = members_of({lost, 5, lost, 6, 7, lost});
      for (const std::size_t failed : {0U, 2U, 5U}) {
        for (const std::int64_t parent : parents_of(failed, members, exploit)) {
          EXPECT_TRUE(parent == 1 || parent == 3 || parent == 4);
        }
      }
    }
  }
  auto members = members_of({9, 1, 2});
  members[0].failure = "worker w1 was lost";  // whatever its score says
  for (const ExploitSettings& exploit : {truncation(0.34), binary(0)}) {
    EXPECT_FALSE(parents_of(0, members, exploit).contains(0));
    EXPECT_FALSE(parents_of(1, members, exploit).contains(0));
    EXPECT_FALSE(parents_of(2, members, exploit).contains(0));
  }
}

TEST(NextGeneration, OneThatIsLeftIsEveryonesParent) {
  const auto members = members_of({kMinusInfinity, kMinusInfinity, 3, kMinusInfinity});
  for (const ExploitSettings& exploit : {truncation(0.25), binary(0.5)}) {
    EXPECT_THAT(parents(next(members, exploit)), ElementsAre(2, 2, 2, 2));
  }
}

TEST(NextGeneration, AllFailingIsAnErrorWithTheFirstReason) {
  auto members = members_of({kMinusInfinity, std::nan("")});
  members[0].failure = "loss is NaN at step 12";
  members[1].failure = "another";
  for (const ExploitSettings& exploit : {truncation(0.2), binary(0)}) {
    const auto result = next_generation(members, kSpace, exploit, {}, 1);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_EQ(result.error().reason, "all_failed");
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("all 2 members"), HasSubstr("member 0: loss is NaN at step 12")));
  }
  const auto nobody = next_generation({}, kSpace, truncation(0.2), {}, 1);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().reason, "all_failed");
}

TEST(NextGeneration, PerturbsWhatWasCopiedFromTheParentByTheFactor) {
  const auto members = members_of({1, 2});
  std::set<bool> directions;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto copied = next(members, binary(0), seed, {.factor = 1.5})[0];
    ASSERT_EQ(copied.parent, 1);
    const double lr = copied.hyperparameters.at("lr") / members[1].hyperparameters.at("lr");
    const double momentum = copied.hyperparameters.at("momentum") / 0.5;
    for (const double ratio : {lr, momentum}) {
      EXPECT_TRUE(std::abs(ratio - 1.5) < 1e-12 || std::abs(ratio - 1 / 1.5) < 1e-12) << ratio;
    }
    directions.insert((lr > 1) == (momentum > 1));
  }
  EXPECT_EQ(directions.size(), 2U);  // each goes its own way
}

TEST(NextGeneration, WithoutCopyingHyperparametersPerturbsItsOwn) {
  const auto members = members_of({1, 2});
  ExploitSettings exploit = binary(0);
  exploit.copy_hyperparameters = false;
  const auto copied = next(members, exploit, 1, {.factor = 2})[0];
  EXPECT_EQ(copied.parent, 1);
  const double ratio = copied.hyperparameters.at("lr") / members[0].hyperparameters.at("lr");
  EXPECT_TRUE(ratio == 2 || ratio == 0.5) << ratio;
}

TEST(NextGeneration, ResamplesFromTheSpace) {
  const auto members = members_of({1, 2});
  std::set<double> rates;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto successions =
        next(members, binary(0), seed, {.method = ExploreSettings::Method::kResample});
    const auto& values = successions[0].hyperparameters;
    EXPECT_EQ(values.size(), 2U);
    EXPECT_GE(values.at("lr"), 1e-4);
    EXPECT_LE(values.at("lr"), 1);
    EXPECT_LE(values.at("momentum"), 0.99);
    rates.insert(values.at("lr"));
    EXPECT_EQ(successions[1].hyperparameters, members[1].hyperparameters);
  }
  EXPECT_EQ(rates.size(), kSeeds);
}

TEST(NextGeneration, IsFixedByTheSeed) {
  const auto members = members_of({3, 1, 4, 1, 5, 9, 2, 6});
  EXPECT_EQ(next(members, truncation(0.5), 7), next(members, truncation(0.5), 7));
  EXPECT_NE(next(members, truncation(0.5), 7), next(members, truncation(0.5), 8));
}

TEST(Ancestry, IsTheLineOfParentsOldestFirst) {
  std::vector<LineageEntry> all;
  const auto add = [&](std::int64_t generation, std::int64_t member, std::int64_t parent) {
    all.push_back({.generation = generation,
                   .member = member,
                   .parent = parent,
                   .score = static_cast<double>(10 * generation + member),
                   .hyperparameters = {{"lr", static_cast<double>(generation)}}});
  };
  add(3, 0, 2);  // in any order
  add(1, 0, 0);
  add(1, 1, 1);
  add(1, 2, 2);
  add(2, 0, 0);
  add(2, 1, 1);
  add(2, 2, 1);
  add(3, 1, 1);
  add(3, 2, 2);
  const auto line = ancestry(all, 3, 0);
  ASSERT_EQ(line.size(), 3U);
  EXPECT_EQ(line[0].member, 1);
  EXPECT_EQ(line[1].member, 2);
  EXPECT_EQ(line[2].member, 0);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(line[i].generation, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(line[i].hyperparameters.at("lr"), static_cast<double>(i + 1));
  }
  EXPECT_EQ(ancestry(all, 1, 2).size(), 1U);
  EXPECT_TRUE(ancestry(all, 4, 0).empty());
  EXPECT_TRUE(ancestry({}, 1, 0).empty());
}

TEST(PopulationSettings, ReadBackWhatTheyWrite) {
  for (const char* text :
       {R"({"method": "Truncation", "fraction": 0.5, "copy_hyperparameters": true})",
        R"({"method": "Binary", "threshold": 0.01, "copy_hyperparameters": false})"}) {
    const Json json = *parse_json(text);
    EXPECT_EQ(to_json(*exploit_from_json(json, "x")), json);
  }
  for (const char* text :
       {R"({"method": "Perturbation", "factor": 1.5})", R"({"method": "Resample"})"}) {
    const Json json = *parse_json(text);
    EXPECT_EQ(to_json(*explore_from_json(json, "x")), json);
  }
}

TEST(PopulationSettings, HaveTheDefaultsOfThePaper) {
  const auto exploit = exploit_from_json({{"method", "Truncation"}}, "x").value();
  EXPECT_EQ(exploit.fraction, 0.2);
  EXPECT_TRUE(exploit.copy_hyperparameters);
  EXPECT_EQ(explore_from_json({{"method", "Perturbation"}}, "x").value().factor, 1.2);
}

TEST(PopulationSettings, RefuseEachBadParameterByName) {
  const auto exploit_error = [](const char* text) {
    const auto result = exploit_from_json(*parse_json(text), "job.strategy.exploit");
    return result ? std::string("taken") : result.error().message;
  };
  const auto explore_error = [](const char* text) {
    const auto result = explore_from_json(*parse_json(text), "job.strategy.explore");
    return result ? std::string("taken") : result.error().message;
  };
  EXPECT_THAT(exploit_error("[]"), HasSubstr("job.strategy.exploit"));
  EXPECT_THAT(exploit_error("{}"), HasSubstr("job.strategy.exploit.method"));
  EXPECT_THAT(exploit_error(R"({"method": "Tournament"})"),
              AllOf(HasSubstr("Tournament"), HasSubstr("Truncation"), HasSubstr("Binary")));
  for (const char* fraction : {"0", "-0.1", "0.51", "\"x\"", "null"}) {
    EXPECT_THAT(
        exploit_error(
            (std::string(R"({"method": "Truncation", "fraction": )") + fraction + "}").c_str()),
        HasSubstr("job.strategy.exploit.fraction"));
  }
  for (const char* threshold : {"-0.001", "true", "1e31"}) {
    EXPECT_THAT(
        exploit_error(
            (std::string(R"({"method": "Binary", "threshold": )") + threshold + "}").c_str()),
        HasSubstr("job.strategy.exploit.threshold"));
  }
  EXPECT_THAT(exploit_error(R"({"method": "Binary", "fraction": 0.2})"),
              AllOf(HasSubstr("fraction"), HasSubstr("threshold")));
  EXPECT_THAT(exploit_error(R"({"method": "Truncation", "threshold": 0.2})"),
              AllOf(HasSubstr("threshold"), HasSubstr("fraction")));
  EXPECT_THAT(exploit_error(R"({"method": "Binary", "copy_hyperparameters": 1})"),
              HasSubstr("copy_hyperparameters"));
  EXPECT_THAT(explore_error(R"({"method": "Mutate"})"),
              AllOf(HasSubstr("Mutate"), HasSubstr("Perturbation"), HasSubstr("Resample")));
  for (const char* factor : {"1", "0.8", "0", "-2", "100.5", "\"x\""}) {
    EXPECT_THAT(
        explore_error(
            (std::string(R"({"method": "Perturbation", "factor": )") + factor + "}").c_str()),
        HasSubstr("job.strategy.explore.factor"));
  }
  EXPECT_THAT(explore_error(R"({"method": "Resample", "factor": 1.2})"), HasSubstr("factor"));
}

}  // namespace
}  // namespace muster
