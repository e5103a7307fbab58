#include "core/tensor/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "core/base/random.h"
#include "tests/core/tensor/safetensors_files.h"

namespace muster {
namespace {

using testing::HasSubstr;
using namespace files;

// Random names (any UTF-8), shapes and bits, NaN payloads among them.
StateDict random_state(Random& random) {
  const std::vector<std::string> pieces{"a",    "b.",   "weight", "\"",     "\\",   "\n",
                                        "\x01", "\x7f", "\u00e4", "\u5c64", "/../", " "};
  std::set<std::string> names;
  for (std::uint64_t tensors = random.below(8); tensors > 0; --tensors) {
    std::string name;
    for (std::uint64_t n = random.below(5); n > 0; --n) name += pieces[random.below(pieces.size())];
    names.insert(name);
  }
  std::vector<StateLayout::Entry> entries;
  for (const std::string& name : names) {
    Shape shape(random.below(5));
    for (std::int64_t& dimension : shape) dimension = static_cast<std::int64_t>(random.below(5));
    entries.push_back({name, shape});
  }
  random.shuffle(entries);
  StateDict state(layout(std::move(entries)));
  for (float& value : state.values())
    value = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
  return state;
}

TEST(WriteState, IsTheDocumentedByteSequence) {
  StateDict state(layout({{"step", {}},
                          {"q\"\\\n\x01\x7f\u00e9", {0, 2}},
                          {"dense.weight", {2, 3}},
                          {"dense.bias", {2}}}));
  const std::vector<float> values{0.5F, -1, 1, 2, 3, 4, 5, 6, 12.25F};
  std::copy(values.begin(), values.end(), state.values().begin());
  const std::string json = R"({"dense.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                           R"("dense.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},)"
                           "\"q\\\"\\\\\\n\\u0001\x7f\u00e9\":"
                           R"({"dtype":"F32","shape":[0,2],"data_offsets":[32,32]},)"
                           R"("step":{"dtype":"F32","shape":[],"data_offsets":[32,36]}})" +
                           std::string(53, ' ');
  const Bytes file = write_state(state);
  EXPECT_EQ(file, file_of(json, values));
  EXPECT_EQ(sha256(file).hex(), "d1676d0056da45711ff2a1de008ec4e989780090c30e7b71d2ccf1147b9b612d");
  EXPECT_EQ(state_digest(state).hex(),
            "d1676d0056da45711ff2a1de008ec4e989780090c30e7b71d2ccf1147b9b612d");
}

TEST(WriteState, GivesAnEmptyStateSixtyFourBytes) {
  const Bytes file = write_state(StateDict(layout({})));
  EXPECT_EQ(as_text(file), std::string("\x38\0\0\0\0\0\0\0", 8) + "{}" + std::string(54, ' '));
  EXPECT_TRUE(read_state(file).value().values().empty());
}

TEST(WriteState, GivesBackEveryStateBitForBit) {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    const StateDict state = random_state(random);
    const Bytes file = write_state(state);
    const auto read = read_state(file);
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(*read, state);
    ASSERT_EQ(read_state(file, state.layout_ptr()).value(), state);
    ASSERT_EQ(write_state(*read), file) << "one state, one spelling";
    ASSERT_EQ(state_digest(state), sha256(file));
    ASSERT_EQ(safetensors_bytes(state.layout()), file.size());
    const auto header = parse_safetensors_header(file, file.size()).value();
    ASSERT_EQ(header.data_begin % 64, 0U);
    ASSERT_EQ(header.data_begin, safetensors_header(state.layout()).size());
  }
}

TEST(WriteState, DoesNotDependOnTheOrderOfTheEntries) {
  StateDict one(layout({{"a", {1}}, {"b", {1}}}));
  StateDict two(layout({{"b", {1}}, {"a", {1}}}));
  for (StateDict* state : {&one, &two}) {
    state->tensor("a")[0] = 1;
    state->tensor("b")[0] = 2;
  }
  EXPECT_EQ(write_state(one), write_state(two));
}

TEST(ReadState, WidensEveryF16Exactly) {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  const StateDict state =
      read_state(file_of(braced(entry("h", "F16", "[65536]", "[0,131072]")), halves)).value();
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const int exponent = static_cast<int>((bits >> 10) & 31);
    const int fraction = static_cast<int>(bits & 1023);
    const float got = state.values()[bits];
    ASSERT_EQ(std::signbit(got), (bits >> 15) == 1) << bits;
    if (exponent == 31 && fraction != 0) {
      ASSERT_TRUE(std::isnan(got)) << bits;
    } else if (exponent == 31) {
      ASSERT_TRUE(std::isinf(got)) << bits;
    } else {
      const double magnitude =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      ASSERT_EQ(std::abs(got), magnitude) << bits;
    }
  }
}

TEST(ReadState, TakesBf16ForTheUpperHalfOfAFloat) {
  const std::vector<std::uint16_t> values{0x3f80, 0xc020, 0x7f80, 0x7fc1, 0x8000, 0x0001};
  const StateDict state =
      read_state(file_of(braced(entry("g", "BF16", "[6]", "[0,12]")), values)).value();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(state.values()[i]), static_cast<std::uint32_t>(values[i])
                                                                   << 16);
  }
}

TEST(ReadState, RoundsF64ToNearestEven) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<double> values{
      0.1,        1 + 0x1p-24,  1 + 0x3p-24,    -(1 + 0x1p-24 + 0x1p-50), 1e-60, -0.0, kInfinity,
      -kInfinity, std::nan(""), 0x1.fffffep127, 0x1.fffffefffffffp127};
  const StateDict state =
      read_state(file_of(braced(entry("d", "F64", "[11]", "[0,88]")), values)).value();
  const auto got = state.values();
  EXPECT_EQ(got[0], 0.1F);
  EXPECT_EQ(got[1], 1.0F);
  EXPECT_EQ(got[2], 1 + 0x1p-22F);
  EXPECT_EQ(got[3], -(1 + 0x1p-23F));
  EXPECT_EQ(got[4], 0.0F);
  EXPECT_TRUE(std::signbit(got[5]));
  EXPECT_TRUE(std::isinf(got[6]) && std::isinf(got[7]) && std::isnan(got[8]));
  EXPECT_EQ(got[9], std::numeric_limits<float>::max());
  EXPECT_EQ(got[10], std::numeric_limits<float>::max())
      << "the largest double that still rounds down";
}

TEST(ReadState, RefusesAnF64ThatWouldBecomeInfinite) {
  for (const double value : {1e300, -1e300, 0x1.ffffffp127}) {
    const Error error = error_of(read_state(
        file_of(braced(entry("d", "F64", "[2]", "[0,16]")), std::vector<double>{1, value})));
    EXPECT_EQ(error.reason, "non_finite");
    EXPECT_THAT(error.message, HasSubstr("tensor \"d\""));
    EXPECT_THAT(error.message, HasSubstr("index 1"));
  }
}

TEST(ReadState, RefusesIntegersAndBooleansByName) {
  for (const std::string dtype : {"BOOL", "U8", "I8", "I16", "U16", "I32", "U32", "I64", "U64"}) {
    const Error error =
        error_of(read_state(file_of(braced(entry("n", dtype, "[0]", "[0,0]")), ByteView())));
    EXPECT_EQ(error.reason, "dtype_mismatch");
    EXPECT_THAT(error.message, HasSubstr("tensor \"n\""));
    EXPECT_THAT(error.message, HasSubstr(dtype));
  }
}

TEST(ReadState, TakesDataInAnyOrderAndAtAnyAddress) {
  const Bytes file =
      file_of(braced(entry("a", "F32", "[1]", "[4,8]") + "," + entry("b", "F32", "[1]", "[0,4]")),
              std::vector<float>{2, 1});
  for (std::size_t shift = 0; shift < 4; ++shift) {
    Bytes moved(shift);
    moved.insert(moved.end(), file.begin(), file.end());
    const StateDict state = read_state(ByteView(moved).subspan(shift)).value();
    EXPECT_THAT(state.values(), testing::ElementsAre(1, 2));
  }
}

TEST(ReadState, WithALayoutTakesItsFormOnly) {
  const LayoutPtr wanted = layout({{"a", {2}}, {"b", {}}});
  const std::vector<float> values{1, 2, 3};
  const auto read = [&](const std::string& json) {
    return read_state(file_of(braced(json), values), wanted);
  };
  const std::string a = entry("a", "F32", "[2]", "[0,8]");
  const std::string b = entry("b", "F32", "[]", "[8,12]");
  ASSERT_TRUE(read(a + "," + b));
  EXPECT_EQ(read(a + "," + b)->layout_ptr(), wanted);
  EXPECT_TRUE(read(b + "," + a)) << "order does not matter";
  EXPECT_EQ(error_of(read(a + "," + entry("c", "F32", "[]", "[8,12]"))).reason, "missing_tensor");
  EXPECT_EQ(error_of(read(a + "," + b + "," + entry("c", "F32", "[0]", "[12,12]"))).reason,
            "extra_tensor");
  EXPECT_EQ(error_of(read(entry("a", "F32", "[1,2]", "[0,8]") + "," + b)).reason, "shape_mismatch");
  EXPECT_EQ(error_of(read(entry("a", "F64", "[1]", "[0,8]") + "," + b)).reason, "shape_mismatch");
}

TEST(ReadState, WithALayoutTakesF32Only) {
  const LayoutPtr wanted = layout({{"a", {2}}});
  for (const std::string dtype : {"F16", "BF16", "I16"}) {
    const Error error = error_of(read_state(
        file_of(braced(entry("a", dtype, "[2]", "[0,4]")), std::vector<std::uint16_t>{0, 0}),
        wanted));
    EXPECT_EQ(error.reason, "dtype_mismatch");
    EXPECT_EQ(error.message, "tensor \"a\" has dtype " + dtype + ", F32 is wanted");
  }
}

TEST(ViewCanonicalState, IsTheDataItself) {
  StateDict state(layout({{"b", {2}}, {"a", {1, 2}}}));
  for (float value = 0; float& each : state.values()) each = ++value;
  const Bytes file = write_state(state);
  const auto view = view_canonical_state(file, state.layout());
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_THAT(*view, testing::ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(reinterpret_cast<const std::byte*>(view->data()),
            file.data() + safetensors_header(state.layout()).size());
}

TEST(ViewCanonicalState, RefusesOtherFormsAndSaysWhatIsWrong) {
  const LayoutPtr wanted = layout({{"a", {1}}});
  const std::vector<float> one{1};
  const auto reason = [&](const Bytes& file) {
    return error_of(view_canonical_state(file, *wanted)).reason;
  };
  EXPECT_EQ(reason(file_of(braced(entry("a", "F32", "[1]", "[0,4]")), one)), "not_canonical")
      << "not padded";
  EXPECT_EQ(reason(file_of(braced(entry("b", "F32", "[1]", "[0,4]")), one)), "missing_tensor");
  EXPECT_EQ(reason(file_of(braced(entry("a", "F32", "[1,1]", "[0,4]")), one)), "shape_mismatch");
  EXPECT_EQ(reason(file_of(braced(entry("a", "I32", "[1]", "[0,4]")), one)), "dtype_mismatch");
  Bytes file = write_state(StateDict(wanted));
  file.pop_back();
  EXPECT_EQ(reason(file), "bad_layout");
  file.resize(file.size() + 5);
  EXPECT_EQ(reason(file), "bad_layout");
  EXPECT_EQ(reason({}), "bad_header");
}

TEST(ViewCanonicalState, RefusesAnAddressThatNoFloatCanHave) {
  const StateDict state(layout({{"a", {1}}}));
  Bytes shifted(1);
  const Bytes file = write_state(state);
  shifted.insert(shifted.end(), file.begin(), file.end());
  EXPECT_EQ(error_of(view_canonical_state(ByteView(shifted).subspan(1), state.layout())).reason,
            "not_canonical");
}

}  // namespace
}  // namespace muster
