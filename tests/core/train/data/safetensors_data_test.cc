#include "core/train/data/safetensors_data.h"

#include <gmock/gmock.h>

#include <cstring>
#include <limits>

#include "tests/core/train/data/data_support.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string file_of(const std::string& header, const std::string& data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file + header + data;
}

template <typename T>
std::string raw(const std::vector<T>& numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

// Two tensors, x and y, one after the other.
std::string two(const std::string& x_dtype, const std::string& x_shape, const std::string& x,
                const std::string& y_dtype, const std::string& y_shape, const std::string& y) {
  const std::string middle = std::to_string(x.size());
  const std::string end = std::to_string(x.size() + y.size());
  return file_of(R"({"x":{"dtype":")" + x_dtype + R"(","shape":)" + x_shape +
                     R"(,"data_offsets":[0,)" + middle + R"(]},"y":{"dtype":")" + y_dtype +
                     R"(","shape":)" + y_shape + R"(,"data_offsets":[)" + middle + "," + end +
                     "]}}",
                 x + y);
}

Result<Dataset> parse(const std::string& file, const ArrayOptions& options = {},
                      const TensorNames& names = {"x", "y"}) {
  return parse_safetensors_data(as_bytes(file), "d.safetensors", names, options);
}

const std::string kFile =
    two("F32", "[2,2]", raw<float>({1, -2, 3, 4.5F}), "I64", "[2]", raw<std::int64_t>({1, 0}));

TEST(SafetensorsData, ReadsFeaturesAndLabelsByName) {
  const auto data = parse(kFile);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->shape(), (Shape{2}));
  EXPECT_THAT(features_of(*data), ElementsAre(1, -2, 3, 4.5F));
  EXPECT_THAT(data->labels(), ElementsAre(1, 0));
  const auto turned = parse(kFile, {.targets = ArrayOptions::Targets::kValues}, {"x", "x"});
  ASSERT_TRUE(turned) << turned.error().message;
  EXPECT_EQ(turned->target_size(), 2);
}

TEST(SafetensorsData, ReadsEveryDtype) {
  const std::string y = raw<std::uint8_t>({0, 1});
  const auto features = [&](const std::string& dtype, const std::string& x) {
    const auto data = parse(two(dtype, "[2,1]", x, "U8", "[2]", y));
    EXPECT_TRUE(data) << dtype << error_text(data);
    return data ? features_of(*data) : std::vector<float>{};
  };
  EXPECT_THAT(features("F16", std::string("\0\x3c\0\xc0", 4)), ElementsAre(1, -2));
  EXPECT_THAT(features("BF16", std::string("\x80\x3f\0\xc0", 4)), ElementsAre(1, -2));
  EXPECT_THAT(features("F64", raw<double>({0.1, 2})), ElementsAre(0.1F, 2));
  EXPECT_THAT(features("U8", std::string("\xff\0", 2)), ElementsAre(1, 0));
  EXPECT_THAT(features("BOOL", std::string("\1\0", 2)), ElementsAre(1, 0));
  EXPECT_THAT(features("I8", std::string("\xff\2", 2)), ElementsAre(-1, 2));
  EXPECT_THAT(features("I16", raw<std::int16_t>({-7, 9})), ElementsAre(-7, 9));
  EXPECT_THAT(features("U16", raw<std::uint16_t>({65535, 9})), ElementsAre(65535, 9));
  EXPECT_THAT(features("I32", raw<std::int32_t>({-70000, 9})), ElementsAre(-70000, 9));
  EXPECT_THAT(features("U32", raw<std::uint32_t>({70000, 9})), ElementsAre(70000, 9));
  EXPECT_THAT(features("U64", raw<std::uint64_t>({70000, 9})), ElementsAre(70000, 9));
}

TEST(SafetensorsData, LabelsMayBeOneAPosition) {
  const auto data = parse(
      two("U8", "[1,3]", std::string("abc"), "I32", "[1,3]", raw<std::int32_t>({98, 99, 100})),
      {.scale = 1.0F});
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_THAT(features_of(*data), ElementsAre(97, 98, 99));
  EXPECT_THAT(data->labels(), ElementsAre(98, 99, 100));
}

TEST(SafetensorsData, RefusesTruncationAtEveryByteAndAnyByteMore) {
  for (std::size_t length = 0; length < kFile.size(); ++length) {
    EXPECT_THAT(error_text(parse(kFile.substr(0, length))), HasSubstr("d.safetensors")) << length;
  }
  EXPECT_THAT(error_text(parse(kFile + "x")), HasSubstr("d.safetensors"));
}

TEST(SafetensorsData, RefusesHeadersThatPromiseWhatIsNotThere) {
  const std::string x = raw<float>({1, 2});
  for (
      const char* header :
      {R"({"x":{"dtype":"F32","shape":[281474976710656,2],"data_offsets":[0,8]}})",
       R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})",
       R"({"x":{"dtype":"F32","shape":[-1,2],"data_offsets":[0,8]}})",
       R"({"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})",
       R"({"x":{"dtype":"F33","shape":[1,2],"data_offsets":[0,8]}})",
       R"({"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,18446744073709551615]}})"}) {
    EXPECT_THAT(error_text(parse(file_of(header, x), {}, {"x", "x"})),
                AllOf(HasSubstr("d.safetensors"), testing::Not(HasSubstr("no tensor"))))
        << header;
  }
}

TEST(SafetensorsData, AMissingTensorListsThoseThatAreThere) {
  const auto data = parse(kFile, {}, {"images", "y"});
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().reason, "missing_tensor");
  EXPECT_THAT(data.error().message, AllOf(HasSubstr("\"images\""), HasSubstr("x, y")));
}

TEST(SafetensorsData, RefusesValuesWithTensorByteAndIndex) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::string bad_x =
      two("F32", "[2,2]", raw<float>({1, nan, 3, 4}), "I64", "[2]", raw<std::int64_t>({1, 0}));
  const std::size_t data_begin = bad_x.size() - 32;
  EXPECT_THAT(error_text(parse(bad_x)), AllOf(HasSubstr("tensor \"x\""), HasSubstr("[0, 1]"),
                                              HasSubstr("byte " + std::to_string(data_begin + 4))));
  EXPECT_THAT(error_text(parse(two("F32", "[2,1]", raw<float>({1, 2}), "I64", "[2]",
                                   raw<std::int64_t>({1, -5})))),
              AllOf(HasSubstr("tensor \"y\""), HasSubstr("[1]"), HasSubstr("-5")));
  EXPECT_THAT(error_text(parse(kFile, {}, {"x", "x"})),
              AllOf(HasSubstr("tensor \"x\""), HasSubstr("F32"), HasSubstr("integers")));
  EXPECT_THAT(error_text(parse(kFile, {}, {"y", "y"})), HasSubstr("two dimensions"));
  EXPECT_THAT(error_text(load_safetensors_data("/nowhere/d", {"x", "y"}, {})),
              HasSubstr("/nowhere/d"));
}

}  // namespace
}  // namespace muster
