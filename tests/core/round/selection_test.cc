#include "core/round/selection.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/base/random.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::vector<Candidate> candidates_named(int count) {
  std::vector<Candidate> candidates;
  for (int i = 0; i < count; ++i) candidates.push_back({fmt::format("device-{}", 100 + i), {}});
  return candidates;
}

std::string refusal(const char* text) {
  const auto selection = client_selection_from_json(Json::parse(text), "client_selection");
  EXPECT_FALSE(selection.has_value()) << text;
  return selection ? "" : selection.error().message;
}

TEST(ClientSelection, EveryMethodReadsBackWhatItWrites) {
  for (const char* text : {R"({"method":"All"})", R"({"method":"Random","fraction":0.1})",
                           R"({"method":"Random","fraction":1.0})",
                           R"({"method":"ByCapability","required_tags":["arm","gpu"]})"}) {
    const auto selection = client_selection_from_json(Json::parse(text), "s");
    ASSERT_TRUE(selection.has_value()) << selection.error().message;
    EXPECT_EQ(to_json(*selection), Json::parse(text));
  }
}

TEST(ClientSelection, UnknownMethodIsRefusedListingTheKnownOnes) {
  const std::string message = refusal(R"({"method": "Newest"})");
  EXPECT_THAT(message, HasSubstr("client_selection.method"));
  for (const char* known : {"Newest", "All", "Random", "ByCapability"}) {
    EXPECT_THAT(message, HasSubstr(known));
  }
}

TEST(ClientSelection, FieldOfAnotherMethodIsRefused) {
  EXPECT_THAT(refusal(R"({"method": "All", "fraction": 0.5})"), HasSubstr("fraction"));
  EXPECT_THAT(refusal(R"({"method": "Random", "fraction": 0.5, "required_tags": []})"),
              HasSubstr("required_tags"));
}

TEST(ClientSelection, FractionOutsideZeroToOneIsRefused) {
  for (const char* fraction : {"0", "-0.1", "1.0001", "\"0.5\"", "null", "1e999"}) {
    const std::string text = std::string(R"({"method": "Random", "fraction": )") + fraction + "}";
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) continue;  // 1e999 is refused before it comes here
    const auto selection = client_selection_from_json(json, "s");
    ASSERT_FALSE(selection.has_value()) << text;
    EXPECT_THAT(selection.error().message, HasSubstr("s.fraction"));
  }
  EXPECT_THAT(refusal(R"({"method": "Random"})"), HasSubstr("fraction"));
}

TEST(ClientSelection, RequiredTagsMustBeAListOfDistinctNames) {
  EXPECT_THAT(refusal(R"({"method": "ByCapability"})"), HasSubstr("required_tags"));
  EXPECT_THAT(refusal(R"({"method": "ByCapability", "required_tags": []})"), HasSubstr("0 tags"));
  EXPECT_THAT(refusal(R"({"method": "ByCapability", "required_tags": ["a b"]})"), HasSubstr("a b"));
  EXPECT_THAT(refusal(R"({"method": "ByCapability", "required_tags": ["a", "a"]})"),
              HasSubstr("twice"));
  EXPECT_THAT(refusal(R"({"method": "ByCapability", "required_tags": "gpu"})"),
              HasSubstr("required_tags"));
}

TEST(IsEligible, ByCapabilityWantsEveryTag) {
  const ClientSelection selection{ClientSelection::Method::kByCapability, 1.0, {"arm", "gpu"}};
  EXPECT_TRUE(is_eligible(selection, {"a", {"arm", "gpu", "lab"}}));
  EXPECT_FALSE(is_eligible(selection, {"a", {"arm"}}));
  EXPECT_FALSE(is_eligible(selection, {"a", {}}));
  EXPECT_TRUE(is_eligible({}, {"a", {}}));
}

TEST(SelectDevices, DependsOnTheSetAndTheSeedNotOnWhoCameFirst) {
  auto candidates = candidates_named(40);
  const auto wanted = select_devices(candidates, 10, 7);
  Random random(1);
  for (int i = 0; i < 50; ++i) {
    random.shuffle(candidates);
    EXPECT_EQ(select_devices(candidates, 10, 7), wanted);
  }
  EXPECT_NE(select_devices(candidates, 10, 8), wanted);
}

TEST(SelectDevices, GivesCountDistinctDevicesSorted) {
  const auto devices = select_devices(candidates_named(40), 10, 3);
  ASSERT_EQ(devices.size(), 10U);
  EXPECT_TRUE(std::is_sorted(devices.begin(), devices.end()));
  EXPECT_EQ(std::adjacent_find(devices.begin(), devices.end()), devices.end());
}

TEST(SelectDevices, GivesAllWhenThereAreFewer) {
  EXPECT_EQ(select_devices(candidates_named(3), 10, 3).size(), 3U);
  EXPECT_TRUE(select_devices({}, 10, 3).empty());
  EXPECT_TRUE(select_devices(candidates_named(3), 0, 3).empty());
}

TEST(SelectDevices, CountsADeviceGivenTwiceOnce) {
  auto candidates = candidates_named(3);
  candidates.push_back(candidates.front());
  EXPECT_EQ(select_devices(candidates, 10, 3).size(), 3U);
}

TEST(SelectDevices, ChoosesEveryDeviceEquallyOften) {
  const auto candidates = candidates_named(10);
  std::map<DeviceId, int> chosen;
  constexpr int kRounds = 4000;
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    for (const auto& device : select_devices(candidates, 3, seed)) ++chosen[device];
  }
  // 1200 expected each, standard deviation 29.
  for (const auto& [device, times] : chosen) EXPECT_NEAR(times, 1200, 150) << device;
  EXPECT_EQ(chosen.size(), 10U);
}

}  // namespace
}  // namespace muster
