#include "core/aggregate/encoding/update_encoding.h"

#include <gmock/gmock.h>

#include "core/tensor/safetensors.h"
#include "tests/core/aggregate/encoding/encoding_support.h"

namespace muster {
namespace {

using namespace encodings;
using ::testing::HasSubstr;

TEST(UpdateEncoding, RoundTripsThroughJsonWithEveryDefault) {
  for (const UpdateEncoding& encoding : all_encodings()) {
    EXPECT_EQ(encoding_of(to_json(encoding)), encoding) << describe(encoding);
  }
  EXPECT_EQ(to_json(encoding_of({{"format", "float32"}})),
            (Json{{"format", "float32"}, {"content", "state"}, {"compression", "none"}}));
  EXPECT_EQ(
      to_json(encoding_of({{"format", "top_k"}, {"fraction", 0.01}, {"compression", "zstd"}})),
      (Json{{"format", "top_k"},
            {"content", "delta"},
            {"fraction", 0.01},
            {"compression", "zstd"},
            {"level", 3}}));
  EXPECT_EQ(encoding_of({{"format", "int8"}}).content, UpdateContent::kDelta);
}

TEST(UpdateEncoding, SaysInAWordWhatItIs) {
  EXPECT_EQ(describe(UpdateEncoding{}), "float32");
  EXPECT_EQ(describe(encoding_of({{"format", "int8"}, {"compression", "zstd"}})),
            "int8 delta, zstd");
  EXPECT_EQ(describe(encoding_of({{"format", "top_k"}, {"fraction", 0.01}})), "top_k 0.01 delta");
}

TEST(UpdateEncoding, RefusesWhatItDoesNotKnowNamingTheField) {
  const std::vector<std::pair<Json, std::string>> cases{
      {Json::array(), "encoding"},
      {Json::object(), "format"},
      {{{"format", "float64"}}, "float16"},
      {{{"format", 7}}, "format"},
      {{{"format", "int8"}, {"content", "sum"}}, "content"},
      {{{"format", "float32"}, {"fraction", 0.5}}, "fraction"},
      {{{"format", "top_k"}}, "fraction"},
      {{{"format", "top_k"}, {"fraction", 0}}, "fraction"},
      {{{"format", "top_k"}, {"fraction", -0.1}}, "fraction"},
      {{{"format", "top_k"}, {"fraction", 1.01}}, "fraction"},
      {{{"format", "top_k"}, {"fraction", 0.1}, {"content", "state"}}, "content"},
      {{{"format", "float32"}, {"level", 3}}, "level"},
      {{{"format", "float32"}, {"compression", "gzip"}}, "compression"},
      {{{"format", "float32"}, {"compression", "zstd"}, {"level", 0}}, "level"},
      {{{"format", "float32"}, {"compression", "zstd"}, {"level", 20}}, "level"},
      {{{"format", "float32"}, {"window", 3}}, "window"}};
  for (const auto& [json, named] : cases) {
    const auto encoding = update_encoding_from_json(json, "job.encoding");
    ASSERT_FALSE(encoding) << json.dump();
    EXPECT_EQ(encoding.error().reason, "bad_field");
    EXPECT_THAT(encoding.error().message, HasSubstr(named)) << json.dump();
  }
}

TEST(UpdateEncoding, TopKCountIsTheShareRoundedUpAndAtLeastOne) {
  EXPECT_EQ(top_k_count(0.01, 1000), 10);
  EXPECT_EQ(top_k_count(0.01, 1001), 11);
  EXPECT_EQ(top_k_count(1e-9, 1000), 1);
  EXPECT_EQ(top_k_count(1, 1000), 1000);
  EXPECT_EQ(top_k_count(0.999999, 3), 3);
  EXPECT_EQ(top_k_count(0.5, 0), 0);
}

TEST(UpdateEncoding, KnowsTheLengthOfEveryBody) {
  const LayoutPtr layout = small_layout();
  const StateDict global = random_state(layout, 1);
  const StateDict trained = random_state(layout, 2);
  for (UpdateEncoding encoding : all_encodings()) {
    const auto update = encode_update(encoding, global, trained, nullptr, 1);
    ASSERT_TRUE(update) << update.error().message;
    EXPECT_LE(update->body.size(), most_body_bytes(encoding, *layout)) << describe(encoding);
    if (!encoding.compressed) {
      EXPECT_EQ(update->body.size(), encoded_bytes(encoding, *layout)) << describe(encoding);
      EXPECT_EQ(most_body_bytes(encoding, *layout), update->body.size() + 4096);
    }
  }
  EXPECT_EQ(encoded_bytes({}, *layout), safetensors_bytes(*layout));
}

}  // namespace
}  // namespace muster
