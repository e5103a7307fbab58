#include "core/aggregate/encoding/encode.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <set>

#include "core/aggregate/encoding/rounding.h"
#include "core/tensor/safetensors.h"
#include "tests/core/aggregate/encoding/encoding_support.h"

namespace muster {
namespace {

using namespace encodings;
using ::testing::HasSubstr;

constexpr float kLargest = std::numeric_limits<float>::max();

EncodedUpdate encode(const UpdateEncoding& encoding, const StateDict& global,
                     const StateDict& trained, const StateDict* residual = nullptr,
                     std::uint64_t seed = 1) {
  auto update = encode_update(encoding, global, trained, residual, seed);
  EXPECT_TRUE(update) << update.error().message;
  return *std::move(update);
}

class EveryEncoding : public testing::TestWithParam<UpdateEncoding> {};
INSTANTIATE_TEST_SUITE_P(Encodings, EveryEncoding, testing::ValuesIn(all_encodings()));

// `sent` is what somebody has who reads the body and adds it to the global state.
TEST_P(EveryEncoding, SentIsWhatTheBodyDecodesTo) {
  const TemporaryFolder folder;
  const LayoutPtr layout = small_layout();
  const StateDict global = random_state(layout, 1);
  const EncodedUpdate update = encode(GetParam(), global, random_state(layout, 2));
  const auto values = open_body(folder, update.body, GetParam(), layout);
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ((*values)->layout(), *layout);
  std::vector<float> read = all_of(**values);
  if (GetParam().content == UpdateContent::kDelta) {
    for (std::size_t i = 0; i < read.size(); ++i) read[i] += global.values()[i];
  }
  EXPECT_TRUE(std::equal(read.begin(), read.end(), update.sent.values().begin()));
}

TEST_P(EveryEncoding, EqualArgumentsGiveEqualBytes) {
  const LayoutPtr layout = small_layout();
  const StateDict global = random_state(layout, 1);
  const StateDict trained = random_state(layout, 2);
  EXPECT_EQ(encode(GetParam(), global, trained, nullptr, 9).body,
            encode(GetParam(), global, trained, nullptr, 9).body);
}

TEST_P(EveryEncoding, LayoutsThatDifferAreRefused) {
  const LayoutPtr layout = small_layout();
  const StateDict global = random_state(layout, 1);
  const StateDict other(*StateLayout::create({{"b", {7}}}));
  for (const auto& update : {encode_update(GetParam(), global, other, nullptr, 1),
                             encode_update(GetParam(), global, global, &other, 1)}) {
    ASSERT_FALSE(update);
    EXPECT_EQ(update.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(Encode, Float32StateIsTheCanonicalFile) {
  const LayoutPtr layout = small_layout();
  const StateDict trained = random_state(layout, 2);
  const EncodedUpdate update = encode({}, random_state(layout, 1), trained);
  EXPECT_EQ(update.body, write_state(trained));
  EXPECT_EQ(update.sent, trained);
  EXPECT_FALSE(update.residual);
}

TEST(Encode, HeadersAreThoseOfTheDocumentation) {
  const std::string page =
      *read_file(std::filesystem::path(MUSTER_SOURCE_DIR) / "docs/formats/update.md", 1 << 20);
  const LayoutPtr layout = *StateLayout::create({{"dense.bias", {2}}, {"dense.weight", {2, 3}}});
  const StateDict state = random_state(layout, 1);
  for (const Json& json : {Json{{"format", "float16"}}, Json{{"format", "int8"}},
                           Json{{"format", "top_k"}, {"fraction", 0.25}}}) {
    const Bytes body = encode(encoding_of(json), state, state).body;
    std::string header(as_text(body).substr(8, load_le64(body)));
    header.resize(header.find_last_not_of(' ') + 1);
    EXPECT_THAT(page, HasSubstr("\n" + header + "\n"));
  }
}

LayoutPtr vector_layout(std::int64_t size) {
  return *StateLayout::create({{"w", {size}}});
}

StateDict state_of(const std::vector<float>& values) {
  StateDict state(vector_layout(static_cast<std::int64_t>(values.size())));
  std::copy(values.begin(), values.end(), state.values().begin());
  return state;
}

// One value there and back.
float through(Format format, float value) {
  const StateDict state = state_of({value});
  return encode({.format = format}, state, state).sent.values()[0];
}

TEST(Encode, HalvesAreRoundedToNearestEven) {
  for (const auto& [x, rounded] : std::vector<std::pair<float, float>>{
           {1.0F, 1.0F},
           {1 + 0x1p-11F, 1.0F},              // tie to even
           {1 + 3 * 0x1p-11F, 1 + 0x1p-9F},   // tie to even, up
           {1 + 0x1.002p-11F, 1 + 0x1p-10F},  // just over a tie
           {-0.0F, -0.0F},
           {65504.0F, 65504.0F},
           {65519.996F, 65504.0F},
           {-65519.996F, -65504.0F},
           {0x1p-14F, 0x1p-14F},
           {0x1.ff8p-15F, 0x1.ff8p-15F},  // largest subnormal
           {0x1.ffcp-15F, 0x1p-14F},      // tie up to the smallest normal
           {0x1p-24F, 0x1p-24F},
           {0x1p-25F, 0.0F},  // tie to zero
           {0x1.000002p-25F, 0x1p-24F},
           {3 * 0x1p-25F, 0x1p-23F},  // tie to even
           {1e-40F, 0.0F}}) {
    const float got = through(Format::kFloat16, x);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(rounded)) << x;
  }
}

TEST(Encode, BfloatsAreRoundedToNearestEven) {
  for (const auto& [x, rounded] :
       std::vector<std::pair<float, float>>{{1.0F, 1.0F},
                                            {1 + 0x1p-8F, 1.0F},
                                            {1 + 3 * 0x1p-8F, 1 + 0x1p-6F},
                                            {1 + 0x1.002p-8F, 1 + 0x1p-7F},
                                            {-0.0F, -0.0F},
                                            {0x1.fep127F, 0x1.fep127F},
                                            {0x1.fefffep127F, 0x1.fep127F},
                                            {0x1p-133F, 0x1p-133F},
                                            {0x1p-134F, 0.0F}}) {
    const float got = through(Format::kBFloat16, x);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(rounded)) << x;
  }
}

// Every half there is, and every tie between two neighbours.
TEST(Encode, EveryHalfIsItselfAndEveryTieGoesToTheEvenOne) {
  for (std::uint32_t bits = 0; bits < kHalfInfinity; ++bits) {
    const auto value_of = [](std::uint32_t half) {
      const int exponent = static_cast<int>(half >> 10);
      const double mantissa = half & 0x3ff;
      return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    };
    const double low = value_of(bits);
    const double high = value_of(bits + 1);
    EXPECT_EQ(to_half(static_cast<float>(low)), bits);
    EXPECT_EQ(to_half(static_cast<float>(-low)), bits | 0x8000U);
    const auto tie = static_cast<float>((low + high) / 2);
    EXPECT_EQ(to_half(tie), bits + (bits & 1)) << bits;
    EXPECT_EQ(to_half(std::nextafter(tie, 0.0F)), bits) << bits;
    EXPECT_EQ(to_half(std::nextafter(tie, kLargest)), bits + 1) << bits;
  }
}

TEST(Encode, WhatAFormatCannotHoldIsRefusedNamingTensorAndElement) {
  const auto refused = [](const UpdateEncoding& encoding, const StateDict& global,
                          const StateDict& trained) {
    const auto update = encode_update(encoding, global, trained, nullptr, 1);
    if (update) return std::string("it was encoded");
    EXPECT_EQ(update.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_EQ(update.error().reason, "not_encodable");
    return update.error().message;
  };
  const StateDict zero = state_of({0, 0});
  for (const float value : {65520.0F, -65520.0F, 1e30F}) {
    EXPECT_THAT(refused({.format = Format::kFloat16}, zero, state_of({0, value})),
                HasSubstr("\"w\" has"));
    EXPECT_THAT(refused({.format = Format::kFloat16}, zero, state_of({0, value})),
                HasSubstr("at element 1, which float16"));
  }
  EXPECT_THAT(refused({.format = Format::kBFloat16}, zero, state_of({0, kLargest})),
              HasSubstr("bfloat16"));
  // A change that float32 cannot hold, whatever the format.
  for (const Format format : {Format::kFloat32, Format::kInt8, Format::kTopK}) {
    EXPECT_THAT(refused({.format = format, .content = UpdateContent::kDelta, .fraction = 1},
                        state_of({0, -kLargest}), state_of({0, kLargest})),
                HasSubstr("at element 1"));
  }
  EXPECT_THAT(refused({}, zero, state_of({std::nanf(""), 0})), HasSubstr("nan at element 0"));
}

TEST(Encode, ANameThatBecomesTooLongIsRefusedBeforeItIsSent) {
  const StateDict state(*StateLayout::create({{std::string(510, 'n'), {2}}}));
  const auto update = encode_update({.format = Format::kInt8, .content = UpdateContent::kDelta},
                                    state, state, nullptr, 1);
  ASSERT_FALSE(update);
  EXPECT_EQ(update.error().reason, "not_encodable");
}

TEST(Encode, Int8IsWithinOneStepOfEveryValue) {
  const UpdateEncoding encoding{.format = Format::kInt8};
  for (const double scale : {1.0, 1e-30, 1e30, 1e-44}) {
    const StateDict state = random_state(vector_layout(5000), 3, scale);
    float largest = 0;
    for (const float value : state.values()) largest = std::max(largest, std::abs(value));
    const EncodedUpdate update = encode(encoding, state, state);
    for (std::size_t i = 0; i < 5000; ++i) {
      const double error = std::abs(static_cast<double>(update.sent.values()[i]) -
                                    static_cast<double>(state.values()[i]));
      EXPECT_LT(error, 1.0000002 * static_cast<double>(int8_scale(largest)));
    }
  }
}

TEST(Encode, Int8IsRightOnAverage) {
  const StateDict state = random_state(vector_layout(200), 4);
  std::vector<double> sum(200);
  constexpr int kSeeds = 4000;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const EncodedUpdate update =
        encode({.format = Format::kInt8}, state, state, nullptr, static_cast<std::uint64_t>(seed));
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += static_cast<double>(update.sent.values()[i]);
    }
  }
  float largest = 0;
  for (const float value : state.values()) largest = std::max(largest, std::abs(value));
  const double step = static_cast<double>(int8_scale(largest));
  double chi = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const double value = static_cast<double>(state.values()[i]);
    const double error = sum[i] / kSeeds - value;
    // The deviation of a mean of draws between two neighbours is at most half a step.
    EXPECT_LT(std::abs(error), 5 * 0.5 * step / std::sqrt(kSeeds)) << i;
    const double part = value / step - std::floor(value / step);
    const double variance = part * (1 - part) * step * step / kSeeds;
    if (variance > 1e-9 * step * step) chi += error * error / variance;
  }
  // About 200 squares of standard normal values: deviation 20.
  EXPECT_LT(chi, 300);
  EXPECT_GT(chi, 120);
}

TEST(Encode, Int8HoldsTheLargestAndTheSmallestFloats) {
  for (const float largest : {kLargest, 1e-45F, 3e-45F, 1.17549435e-38F, 127.0F, 1.0F}) {
    const StateDict state = state_of({largest, -largest, 0, -0.0F});
    const EncodedUpdate update = encode({.format = Format::kInt8}, state, state);
    const TemporaryFolder folder;
    const auto values =
        open_body(folder, update.body, {.format = Format::kInt8}, state.layout_ptr());
    ASSERT_TRUE(values) << values.error().message;
    const auto sent = update.sent.values();
    // Scales are coarse where they are subnormal.
    const double near = largest < 1e-36F ? 1e-2 : 1e-6;
    EXPECT_NEAR(static_cast<double>(sent[0]) / static_cast<double>(largest), 1, near);
    EXPECT_NEAR(static_cast<double>(sent[1]) / static_cast<double>(largest), -1, near);
    EXPECT_EQ(sent[2], 0);
  }
  const StateDict zeros = state_of({0, 0});
  EXPECT_EQ(encode({.format = Format::kInt8}, zeros, zeros).sent, zeros);
}

std::vector<std::size_t> largest_of(const std::vector<float>& x, std::size_t count) {
  std::vector<std::size_t> found;
  for_each_largest(x, count, [&](std::size_t i) { found.push_back(i); });
  return found;
}

TEST(Encode, TopKPicksExactlyTheLargestAndOfEqualOnesTheFirst) {
  EXPECT_EQ(largest_of({1, -5, 3, 5, 0}, 2), (std::vector<std::size_t>{1, 3}));
  EXPECT_EQ(largest_of({2, 2, -2, 2}, 3), (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(largest_of({0, 0, -0.0F}, 2), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(largest_of({kLargest, -kLargest, 1e-45F}, 1), (std::vector<std::size_t>{0}));
  Random random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> x(1 + random.below(100));
    for (float& value : x) {
      value = round % 2 == 0 ? static_cast<float>(random.normal())
                             : static_cast<float>(random.below(5)) - 2;
    }
    const std::size_t count = 1 + random.below(x.size());
    std::vector<std::size_t> order(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return std::abs(x[a]) > std::abs(x[b]); });
    order.resize(count);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(largest_of(x, count), order);
  }
}

// Values are small multiples of a power of two, so that every sum here is exact.
TEST(Encode, WhatTopKLeavesOutIsSentLater) {
  const LayoutPtr layout = vector_layout(40);
  const UpdateEncoding encoding{
      .format = Format::kTopK, .content = UpdateContent::kDelta, .fraction = 0.1};
  Random random(6);
  std::vector<double> changes(40), sent(40);
  std::optional<StateDict> residual;
  StateDict global(layout);
  for (int round = 0; round < 50; ++round) {
    StateDict trained = global.clone();
    for (std::size_t i = 0; i < 40; ++i) {
      const float change = static_cast<float>(random.below(17)) / 8 - 1;
      trained.values()[i] += change;
      changes[i] += static_cast<double>(change);
    }
    EncodedUpdate update = encode(encoding, global, trained, residual ? &*residual : nullptr);
    int moved = 0;
    ASSERT_TRUE(update.residual);
    for (std::size_t i = 0; i < 40; ++i) {
      const double step =
          static_cast<double>(update.sent.values()[i]) - static_cast<double>(global.values()[i]);
      moved += step != 0 ? 1 : 0;
      sent[i] += step;
      EXPECT_EQ(sent[i] + static_cast<double>(update.residual->values()[i]), changes[i]);
    }
    EXPECT_LE(moved, 4);
    residual = std::move(update.residual);
    global = std::move(update.sent);
  }
}

TEST(Encode, TopKOfEverythingIsTheChange) {
  const LayoutPtr layout = small_layout();
  const StateDict zero(layout);
  const StateDict trained = random_state(layout, 2);
  const EncodedUpdate update = encode(
      {.format = Format::kTopK, .content = UpdateContent::kDelta, .fraction = 1}, zero, trained);
  EXPECT_EQ(update.sent, trained);
  EXPECT_EQ(*update.residual, zero);
}

}  // namespace
}  // namespace muster
