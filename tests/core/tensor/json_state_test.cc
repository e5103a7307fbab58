#include "core/tensor/json_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/base/random.h"
#include "core/tensor/safetensors.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr double kLargest = std::numeric_limits<double>::max();
constexpr double kTiny = std::numeric_limits<double>::denorm_min();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::uint64_t bits(double number) {
  return std::bit_cast<std::uint64_t>(number);
}

JsonTemplate template_of(const Json& json) {
  auto made = JsonTemplate::create(json);
  if (!made) throw std::runtime_error(made.error().message);
  return *std::move(made);
}

TEST(NumberWords, EveryDoubleSurvivesBitForBitNaNsToo) {
  Random random(1);
  std::vector<double> numbers = {0.0,   -0.0,     1.0,    -1.0,      1.0 / 3,
                                 kTiny, kLargest, -kTiny, kInfinity, -kInfinity};
  for (int bit = 0; bit < 64; ++bit) numbers.push_back(std::bit_cast<double>(1ULL << bit));
  for (int i = 0; i < 100'000; ++i) numbers.push_back(std::bit_cast<double>(random.next()));
  numbers.push_back(std::bit_cast<double>(~std::uint64_t{0}));
  for (const double number : numbers) {
    const NumberWords words = words_of(number);
    for (const float word : words) ASSERT_TRUE(std::isfinite(word) && word >= 0) << number;
    const auto again = number_of(words.data());
    ASSERT_TRUE(again.has_value()) << number;
    ASSERT_EQ(bits(*again), bits(number));
  }
}

TEST(NumberWords, HaveTheBitsWhereTheFormatSays) {
  // 1.5 is 0x3ff8000000000000.
  EXPECT_EQ(words_of(1.5), (NumberWords{0x3ff800000 >> 14, 0, 0}));
  EXPECT_EQ(words_of(std::bit_cast<double>((std::uint64_t{3} << 42) | (5 << 21) | 7)),
            (NumberWords{3, 5, 7}));
}

TEST(NumberWords, AreCanonicalOrThoseOfNoDouble) {
  const std::vector<NumberWords> bad = {{4194304, 0, 0},
                                        {0, 2097152, 0},
                                        {0, 0, 2097152},
                                        {-1, 0, 0},
                                        {0, 0.5, 0},
                                        {0, 0, 2097151.75F},
                                        {-0.0F, 0, 0},
                                        {0, -0.0F, 0},
                                        {0, 0, -0.0F},
                                        {std::nanf(""), 0, 0},
                                        {0, static_cast<float>(kInfinity), 0},
                                        {1e30F, 0, 0}};
  for (const NumberWords& words : bad) {
    EXPECT_FALSE(number_of(words.data()).has_value()) << ::testing::PrintToString(words);
    const Status status = check_numbers(words, 41);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().reason, "bad_number");
    EXPECT_THAT(status.error().message, HasSubstr("number 41"));
  }
  EXPECT_TRUE(number_of(NumberWords{4194303, 2097151, 2097151}.data()).has_value());
}

TEST(NumberWords, OfNaNAndInfinityAreNoNumbersOfAState) {
  for (const double number : {kInfinity, -kInfinity, std::nan("")}) {
    std::vector<float> rows(6);
    std::ranges::copy(words_of(2.0), rows.begin());
    std::ranges::copy(words_of(number), rows.begin() + 3);
    const Status status = check_numbers(rows);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().reason, "non_finite");
    EXPECT_THAT(status.error().message, HasSubstr("number 1"));
  }
}

TEST(JsonTemplate, CarriesAStateThereAndBackThroughAFile) {
  const Json state = {{"lowest", -9007199254740992},
                      {"k", 8},
                      {"zero", 0},
                      {"negative zero", -0.0},
                      {"tiny", kTiny},
                      {"huge", kLargest},
                      {"third", 1.0 / 3},
                      {"whole", 2.0},
                      {"none", nullptr},
                      {"yes", true},
                      {"text", "a/b~c"},
                      {"empty", Json::array()},
                      {"object", Json::object()},
                      {"nested", {{{"b", {1, 2.5}}, {"a", -3}}}}};
  const JsonTemplate made = template_of(state);
  EXPECT_EQ(made.num_numbers(), 11);
  EXPECT_TRUE(is_json_layout(*made.layout()));
  const auto packed = made.pack(state);
  ASSERT_TRUE(packed.has_value()) << packed.error().message;
  EXPECT_TRUE(check_finite(packed->layout(), packed->values()).has_value());
  const auto reread = read_state(write_state(*packed), made.layout());
  ASSERT_TRUE(reread.has_value());
  const auto json = made.unpack(*reread);
  ASSERT_TRUE(json.has_value()) << json.error().message;
  EXPECT_EQ(json->dump(), state.dump());
}

TEST(JsonTemplate, TakesNumbersInDocumentOrderTheKeysInByteOrder) {
  const JsonTemplate made = template_of(Json::parse(R"({"b": [1, 2], "a": {"d": 3, "C": 4}})"));
  const auto packed = made.pack(made.json());
  ASSERT_TRUE(packed.has_value());
  std::vector<double> numbers;
  for (std::size_t i = 0; i < 4; ++i) {
    numbers.push_back(*number_of(packed->values().data() + 3 * i));
  }
  EXPECT_EQ(numbers, (std::vector<double>{4, 3, 1, 2}));
}

TEST(JsonTemplate, AnIntegerIsOneAgainWhereItsValueIsWhole) {
  const JsonTemplate integers = template_of({1, 1, 1, 1});
  const JsonTemplate doubles = template_of({0.0, 0.0, 0.0, 0.0});
  const Json values = {3.0, 3.5, 1e300, -0.0};
  const auto packed = doubles.pack(values);
  ASSERT_TRUE(packed.has_value());
  EXPECT_EQ(integers.unpack(*packed)->dump(), "[3,3.5,1e+300,-0.0]");
  EXPECT_EQ(doubles.unpack(*packed)->dump(), "[3.0,3.5,1e+300,-0.0]");
}

class JsonTemplateRefuses : public ::testing::Test {
 protected:
  void expect_refused(const Json& state, std::string_view reason, const std::string& place) {
    const auto packed = made_.pack(state);
    ASSERT_FALSE(packed.has_value()) << state;
    EXPECT_EQ(packed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(packed.error().reason, reason);
    EXPECT_THAT(packed.error().message, HasSubstr(place));
  }

  const Json first_ = {{"a/b", {1, 2.5, {{"x~y", "text"}}}}, {"n", nullptr}};
  const JsonTemplate made_ = template_of(first_);
};

TEST_F(JsonTemplateRefuses, WhatDoesNotFitNamingThePlace) {
  Json other = first_;
  other.erase("n");
  expect_refused(other, "missing_key", "\"/n\"");
  other = first_;
  other["more"] = 1;
  expect_refused(other, "extra_key", "\"/more\"");
  other = first_;
  other["a/b"].push_back(1);
  expect_refused(other, "length_mismatch", "\"/a~1b\"");
  other = first_;
  other["a/b"][2]["x~y"] = "other";
  expect_refused(other, "value_mismatch", "\"/a~1b/2/x~0y\"");
  other = first_;
  other["a/b"][1] = "2.5";
  expect_refused(other, "type_mismatch", "\"/a~1b/1\"");
  other = first_;
  other["n"] = 0;
  expect_refused(other, "type_mismatch", "\"/n\"");
  expect_refused(Json::array(), "type_mismatch", "\"\"");
}

TEST_F(JsonTemplateRefuses, NumbersThatNoFiniteDoubleIs) {
  for (const double number : {std::nan(""), kInfinity, -kInfinity}) {
    Json other = first_;
    other["a/b"][0] = number;
    expect_refused(other, "non_finite", "\"/a~1b/0\"");
    EXPECT_EQ(JsonTemplate::create(other).error().reason, "non_finite");
  }
  const std::vector<Json> inexact = {9007199254740993, -9007199254740993,
                                     std::numeric_limits<std::int64_t>::min(),
                                     std::numeric_limits<std::uint64_t>::max()};
  for (const Json& number : inexact) {
    Json other = first_;
    other["a/b"][0] = number;
    expect_refused(other, "inexact", "\"/a~1b/0\"");
  }
}

TEST_F(JsonTemplateRefuses, WhatIsDeeperThanATaskHasRoomFor) {
  Json deep = 1;
  for (int i = 0; i < kMostJsonLevels; ++i) deep = Json::array({deep});
  const auto made = JsonTemplate::create(deep);
  ASSERT_TRUE(made.has_value());
  const Json task = {{"fit", {{"model", {{"json", deep}}}}}};
  EXPECT_TRUE(parse_json(task.dump()).has_value());
  const Json deeper = Json::array({deep});
  const auto refused = JsonTemplate::create(deeper);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().reason, "too_deep");
  Json hostile = 1;
  for (int i = 0; i < 100'000; ++i) hostile = Json::array({std::move(hostile)});
  EXPECT_EQ(made->pack(hostile).error().reason, "type_mismatch");
  EXPECT_EQ(JsonTemplate::create(hostile).error().reason, "too_deep");
}

TEST_F(JsonTemplateRefuses, ToUnpackAnotherLayoutAndWordsOfNoNumberNamingThePlace) {
  const StateDict longer(*StateLayout::create({{"numbers", {3, 3}}}));
  EXPECT_EQ(made_.unpack(longer).error().reason, "shape_mismatch");
  EXPECT_FALSE(is_json_layout(*(*StateLayout::create({{"numbers", {4}}}))));
  EXPECT_FALSE(is_json_layout(*(*StateLayout::create({{"number", {4, 3}}}))));
  StateDict state = *made_.pack(first_);
  state.values()[4] += 0.5F;
  auto json = made_.unpack(state);
  ASSERT_FALSE(json.has_value());
  EXPECT_EQ(json.error().reason, "bad_number");
  EXPECT_THAT(json.error().message, HasSubstr("\"/a~1b/1\""));
  std::ranges::copy(words_of(kInfinity), state.values().begin() + 3);
  json = made_.unpack(state);
  ASSERT_FALSE(json.has_value());
  EXPECT_EQ(json.error().reason, "non_finite");
  EXPECT_THAT(json.error().message, HasSubstr("\"/a~1b/1\""));
}

}  // namespace
}  // namespace muster
