#include "edge_client/kept_states.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "tests/edge_client/scripted_server.h"

namespace muster {
namespace {

using namespace testing;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class KeptStatesTest : public ::testing::Test {
 protected:
  KeptStatesTest() { fs::create_directories(from_); }

  static StateDict state(float value, std::int64_t size = 3) {
    StateDict made(must(StateLayout::create({{"w", {size}}})));
    for (float& v : made.values()) v = value;
    return made;
  }
  void put(const std::string& job, float value, KeptKind kind = KeptKind::kCorrection,
           const std::string& method = "SCAFFOLD") const {
    must(write_kept(from_, {kind, method, state(value)}));
    must(kept_.take(job, from_));
  }
  // The first value; nothing where there is no state.
  std::optional<float> read(const std::string& job, KeptKind kind = KeptKind::kCorrection,
                            const std::string& method = "SCAFFOLD", std::int64_t size = 3) {
    logged_.clear();
    const auto found = kept_.read(job, kind, method, state(0, size).layout_ptr(),
                                  [&](const std::string& text) { logged_ += text; });
    if (!found) return std::nullopt;
    return found->values()[0];
  }
  fs::path file(const std::string& job) const {
    return folder_.path() / "kept" / job / "correction.safetensors";
  }

  TemporaryFolder folder_;
  fs::path from_ = folder_.path() / "pending";
  KeptStates kept_{folder_.path() / "kept"};
  std::string logged_;
};

TEST_F(KeptStatesTest, GivesBackWhatWasTakenByJobAndKind) {
  EXPECT_EQ(read("job-1"), std::nullopt);
  put("job-1", 1);
  put("job-2", 2);
  put("job-1", 3, KeptKind::kResidual, "top_k");
  EXPECT_EQ(read("job-1"), 1);
  EXPECT_EQ(read("job-2"), 2);
  EXPECT_EQ(read("job-1", KeptKind::kResidual, "top_k"), 3);
  EXPECT_EQ(read("job-2", KeptKind::kResidual, "top_k"), std::nullopt);
  put("job-1", 4);
  EXPECT_EQ(read("job-1"), 4);
  EXPECT_EQ(read("job-1", KeptKind::kResidual, "top_k"), 3) << "a kind that did not come stays";
  EXPECT_EQ(logged_, "");
  EXPECT_TRUE(fs::is_empty(from_));
}

TEST_F(KeptStatesTest, TakingNothingMakesNothing) {
  must(kept_.take("job-1", from_));
  EXPECT_FALSE(fs::exists(folder_.path() / "kept"));
}

TEST_F(KeptStatesTest, WhatCannotBeUsedIsRemovedAndLogged) {
  put("job-1", 1);
  EXPECT_EQ(read("job-1", KeptKind::kCorrection, "FedDyn"), std::nullopt);
  EXPECT_THAT(logged_, HasSubstr("it is of \"SCAFFOLD\", \"FedDyn\" is wanted"));
  EXPECT_FALSE(fs::exists(file("job-1")));

  put("job-1", 1);
  EXPECT_EQ(read("job-1", KeptKind::kCorrection, "SCAFFOLD", 4), std::nullopt);
  EXPECT_THAT(logged_, HasSubstr("\"w\""));
  EXPECT_FALSE(fs::exists(file("job-1")));

  for (const float bad : {std::nanf(""), INFINITY}) {
    put("job-1", bad);
    EXPECT_EQ(read("job-1"), std::nullopt);
    EXPECT_THAT(logged_, HasSubstr("at index 0"));
    EXPECT_FALSE(fs::exists(file("job-1")));
  }
}

TEST_F(KeptStatesTest, DamageAnywhereIsSeen) {
  put("job-1", 1);
  const std::string good = must(read_file(file("job-1"), 1 << 20));
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string damaged = good;
    damaged[at] ^= 1;
    std::ofstream(file("job-1"), std::ios::binary) << damaged;
    const auto found = read("job-1");
    if (found) {
      EXPECT_EQ(*found, 1) << at << ": only spelling changed";
    } else {
      EXPECT_THAT(logged_, HasSubstr("correction.safetensors was removed"));
      EXPECT_FALSE(fs::exists(file("job-1")));
    }
    if (at + 12 >= good.size()) {
      EXPECT_FALSE(found) << at << ": a value changed";
    }
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    std::ofstream(file("job-1"), std::ios::binary) << good.substr(0, size);
    EXPECT_EQ(read("job-1"), std::nullopt);
  }
}

TEST_F(KeptStatesTest, TheEightJobsThatWereUsedLastStay) {
  const auto name = [](int i) { return "job-" + std::to_string(i); };
  const auto begin = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (int i = 0; i < 8; ++i) {
    put(name(i), static_cast<float>(i));
    fs::last_write_time(folder_.path() / "kept" / name(i), begin + std::chrono::seconds(i));
  }
  EXPECT_EQ(read(name(0)), 0) << "this is a use";
  put("job-8", 8);
  EXPECT_EQ(read(name(1)), std::nullopt) << "the one that nobody used for longest";
  for (const int i : {0, 2, 3, 4, 5, 6, 7, 8}) EXPECT_EQ(read(name(i)), i);
}

TEST_F(KeptStatesTest, ForgetsAJobAndNoOther) {
  put("job-1", 1);
  put("job-2", 2);
  kept_.forget("job-1");
  EXPECT_EQ(read("job-1"), std::nullopt);
  EXPECT_EQ(read("job-2"), 2);
}

}  // namespace
}  // namespace muster
