#include "core/train/data/npy.h"

#include <gmock/gmock.h>

#include <bit>
#include <cstring>
#include <limits>

#include "tests/core/train/data/data_support.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// A file as numpy.save writes it: the header padded so that the data begins at a multiple of 64.
std::string npy(const std::string& dictionary, const std::string& data, int version = 1) {
  const std::size_t before = version == 1 ? 10 : 12;
  std::string header = dictionary;
  header.append(63 - (before + header.size()) % 64, ' ');
  header += '\n';
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (std::size_t i = 0; i < (version == 1 ? 2U : 4U); ++i) {
    file += static_cast<char>(header.size() >> (8 * i));
  }
  return file + header + data;
}

std::string dictionary(const std::string& descr, const std::string& shape,
                       const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

// The bytes of numbers in either byte order.
template <typename T>
std::string raw(const std::vector<T>& numbers, bool big_endian = false) {
  std::string bytes;
  for (const T number : numbers) {
    std::string one(sizeof(T), '\0');
    std::memcpy(one.data(), &number, sizeof(T));
    bytes += big_endian ? std::string(one.rbegin(), one.rend()) : one;
  }
  return bytes;
}

std::string error_of(const std::string& file) {
  return error_text(parse_npy(as_bytes(file), "f.npy"));
}

const std::string kFloats = npy(dictionary("<f4", "(2, 3)"), raw<float>({1, 2, 3, 4, 5, 6}));
const std::string kLabels = npy(dictionary("<i8", "(2,)"), raw<std::int64_t>({7, 0}));

TEST(Npy, ReadsAllVersionsAndBothByteOrders) {
  for (const int version : {1, 2, 3}) {
    const std::string file = npy(dictionary("<f4", "(2, 3)"), std::string(24, 'x'), version);
    const auto array = parse_npy(as_bytes(file), "f.npy");
    ASSERT_TRUE(array) << array.error().message;
    EXPECT_EQ(array->shape, (Shape{2, 3}));
    EXPECT_EQ(array->dtype, Dtype::kF32);
    EXPECT_FALSE(array->big_endian);
    EXPECT_FALSE(array->first_index_fastest);
    EXPECT_EQ(array->begin, 128U);
    EXPECT_EQ(array->data.size(), 24U);
  }
  const std::string file = npy(dictionary(">u2", "(1,)", "True"), "ab");
  const auto array = parse_npy(as_bytes(file), "f.npy");
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_EQ(array->dtype, Dtype::kU16);
  EXPECT_TRUE(array->big_endian);
  EXPECT_TRUE(array->first_index_fastest);
}

TEST(Npy, TakesKeysInAnyOrderWithEitherQuoteAndNoTrailingComma) {
  const std::string file = npy(R"({"shape":(1,2,),"descr":"|u1",'fortran_order' : False})", "ab");
  const auto array = parse_npy(as_bytes(file), "f.npy");
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_EQ(array->shape, (Shape{1, 2}));
  const std::string scalar = npy(dictionary("|u1", "()"), "a");
  EXPECT_EQ(parse_npy(as_bytes(scalar), "f.npy")->shape, Shape{});
}

TEST(Npy, RefusesTruncationAtEveryByteAndAnyByteMore) {
  for (const std::string& file :
       {kFloats, npy(dictionary("<f4", "(2, 3)"), raw<float>({1, 2, 3, 4, 5, 6}), 3)}) {
    EXPECT_EQ(error_of(file), "no error");
    for (std::size_t length = 0; length < file.size(); ++length) {
      EXPECT_THAT(error_of(file.substr(0, length)), AllOf(HasSubstr("f.npy"), HasSubstr("byte")))
          << length;
    }
    EXPECT_THAT(error_of(file + "x"), HasSubstr("1 bytes follow"));
  }
  EXPECT_THAT(error_of(kFloats.substr(0, kFloats.size() - 1)),
              AllOf(HasSubstr("byte 151"), HasSubstr("23 of 24")));
}

TEST(Npy, RefusesForeignFilesAndVersions) {
  EXPECT_THAT(error_of("PK\x03\x04" + kFloats), AllOf(HasSubstr("byte 0"), HasSubstr("magic")));
  std::string file = kFloats;
  file[6] = 4;
  EXPECT_THAT(error_of(file), AllOf(HasSubstr("byte 6"), HasSubstr("4.0")));
  file[6] = 1;
  file[7] = 1;
  EXPECT_THAT(error_of(file), HasSubstr("1.1"));
}

TEST(Npy, RefusesDtypesByName) {
  for (const char* descr : {"|O", "<U5", "|S3", "<c8", "<f16", "<M8[ns]", "f4", "=f4", "|f4", "<b2",
                            "", "<", "<f4 ", "<i3"}) {
    EXPECT_THAT(error_of(npy(dictionary(descr, "(1,)"), "abcd")),
                AllOf(HasSubstr("byte 20"), HasSubstr("|u1"), HasSubstr(descr)))
        << descr;
  }
  EXPECT_THAT(
      error_of(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "abcd")),
      HasSubstr("structured"));
}

TEST(Npy, RefusesHeadersThatAreNoDictionaryOfTheThreeKeys) {
  const std::vector<std::pair<std::string, const char*>> cases{
      {"", "'{' is wanted"},
      {"[1]", "'{' is wanted"},
      {"{}", "no key \"descr\""},
      {"{'descr': '<f4', 'fortran_order': False}", "no key \"shape\""},
      {"{'descr': '<f4', 'shape': (1,)}", "no key \"fortran_order\""},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "twice"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", "unknown key \"x\""},
      {"{descr: '<f4', 'fortran_order': False, 'shape': (1,)}", "between quotes"},
      {"{'descr' '<f4'}", "':' is wanted"},
      {"{'descr': '<f4'  'shape': (1,)}", "'}' is wanted"},
      {"{'descr': '<f4}", "not closed"},
      {R"({'descr': '<f\x34'})", "backslash"},
      {"{'descr': '<f4', 'fortran_order': false, 'shape': (1,)}", "True or False"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "True or False"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': 1}", "'(' is wanted"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': [1]}", "'(' is wanted"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", "only dimension"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,,)}", "whole number"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "whole number"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}", "only dimension"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (01,)}", "whole number"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1L,)}", "only dimension"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", "'}' is wanted"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} ;import os", "only spaces"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}\n", "only spaces"},
      {"{'descr': '<f4', 'fortran_order': __import__('os'), 'shape': (1,)}", "True or False"},
  };
  for (const auto& [header, wanted] : cases) {
    EXPECT_THAT(error_of(npy(header, "abcd")), AllOf(HasSubstr("f.npy: byte"), HasSubstr(wanted)))
        << header;
  }
  std::string open = kFloats;
  open[127] = ' ';
  EXPECT_THAT(error_of(open), HasSubstr("does not end with a line end"));
}

TEST(Npy, RefusesHugeShapesWithoutTakingMemory) {
  for (const char* shape :
       {"(9223372036854775807,)", "(99999999999999999999,)", "(281474976710656, 281474976710656)",
        "(4294967296, 4294967296, 4294967296, 4294967296)", "(281474976710656,)", "(1000000,)",
        "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)", "(0, 1)"}) {
    EXPECT_THAT(error_of(npy(dictionary("<f8", shape), "abcdefgh")), HasSubstr("f.npy: byte"))
        << shape;
  }
  std::string file = npy(dictionary("<f4", "(1,)"), "abcd", 2);
  file[11] = '\x7f';
  EXPECT_THAT(error_of(file), AllOf(HasSubstr("byte 8"), HasSubstr("over the limit")));
}

TEST(Npy, AnyByteOfTheHeaderChangedIsReadOrRefusedWithoutHarm) {
  std::size_t refused = 0;
  for (std::size_t i = 0; i < 128; ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string file = kFloats;
      file[i] = static_cast<char>(byte);
      const auto array = parse_npy(as_bytes(file), "f.npy");
      if (!array) {
        ++refused;
      } else {
        // 24 bytes of data are those of the shape and the dtype, whatever they are now.
        std::int64_t count = 1;
        for (const std::int64_t dimension : array->shape) count *= dimension;
        EXPECT_EQ(static_cast<std::uint64_t>(count) * size_in_bytes(array->dtype), 24U);
      }
    }
  }
  EXPECT_GT(refused, 16'000U);
}

class NpyFiles : public FolderTest {
 protected:
  Result<Dataset> load(const std::string& x, const std::string& y,
                       const ArrayOptions& options = {}) {
    return load_npy(file("x.npy", x), file("y.npy", y), options);
  }
};

TEST_F(NpyFiles, FeaturesAndLabelsBecomeADataset) {
  const auto data = load(kFloats, kLabels);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->shape(), (Shape{3}));
  EXPECT_THAT(features_of(*data), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(data->labels(), ElementsAre(7, 0));
}

template <typename T>
std::vector<std::pair<std::string, std::string>> both_orders(const std::string& code) {
  const std::vector<T> numbers{static_cast<T>(1), static_cast<T>(100), static_cast<T>(0),
                               static_cast<T>(std::numeric_limits<T>::max() / 2)};
  return {{"<" + code, raw(numbers)}, {">" + code, raw(numbers, true)}};
}

TEST_F(NpyFiles, EveryDtypeIsReadInBothByteOrders) {
  const std::string y = npy(dictionary("|u1", "(2,)"), std::string("\0\1", 2));
  const auto check = [&](const auto& files, float largest) {
    for (const auto& [descr, bytes] : files) {
      const auto data = load(npy(dictionary(descr, "(2, 2)"), bytes), y, {.scale = 1.0F});
      ASSERT_TRUE(data) << descr << data.error().message;
      EXPECT_THAT(features_of(*data), ElementsAre(1, 100, 0, largest)) << descr;
    }
  };
  check(both_orders<std::int8_t>("i1"), 63);
  check(both_orders<std::uint8_t>("u1"), 127);
  check(both_orders<std::int16_t>("i2"), 16383);
  check(both_orders<std::uint16_t>("u2"), 32767);
  check(both_orders<std::int32_t>("i4"), 0x1.0p30F);
  check(both_orders<std::uint32_t>("u4"), 0x1.0p31F);
  check(both_orders<std::int64_t>("i8"), 0x1.0p62F);
  check(both_orders<std::uint64_t>("u8"), 0x1.0p63F);
  check(both_orders<float>("f4"), std::numeric_limits<float>::max() / 2);
  const auto half =
      load(npy(dictionary(">f2", "(2, 2)"), std::string("\x3c\0\xc0\0\0\1\x7b\xff", 8)), y);
  ASSERT_TRUE(half) << half.error().message;
  EXPECT_THAT(features_of(*half), ElementsAre(1, -2, 0x1.0p-24F, 65504));
  const auto wide = load(npy(dictionary(">f8", "(2, 1)"), raw<double>({0.1, -2}, true)), y);
  ASSERT_TRUE(wide) << wide.error().message;
  EXPECT_THAT(features_of(*wide), ElementsAre(0.1F, -2));
  const auto truth = load(npy(dictionary("|b1", "(2, 1)"), std::string("\0\1", 2)), y);
  ASSERT_TRUE(truth) << truth.error().message;
  EXPECT_THAT(features_of(*truth), ElementsAre(0, 1));
}

TEST_F(NpyFiles, UnsignedBytesAreDividedAsThoseOfIdxUnlessScaleSaysOtherwise) {
  const std::string x = npy(dictionary("|u1", "(2, 1)"), std::string("\xff\x33", 2));
  EXPECT_THAT(features_of(*load(x, kLabels)), ElementsAre(1, 0.2F));
  EXPECT_THAT(features_of(*load(x, kLabels, {.scale = 1.0F})), ElementsAre(255, 51));
  EXPECT_THAT(features_of(*load(x, kLabels, {.scale = 2.0F})), ElementsAre(127.5F, 25.5F));
  const std::string words = npy(dictionary("<i2", "(2, 1)"), raw<std::int16_t>({-3, 500}));
  EXPECT_THAT(features_of(*load(words, kLabels)), ElementsAre(-3, 500));
  EXPECT_THAT(features_of(*load(words, kLabels, {.scale = 2.0F})), ElementsAre(-1.5F, 250));
  EXPECT_THAT(features_of(*load(kFloats, kLabels, {.scale = 2.0F})),
              ElementsAre(0.5F, 1, 1.5F, 2, 2.5F, 3));
}

TEST_F(NpyFiles, FortranOrderIsTurned) {
  // [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]
  const std::string x = npy(dictionary("<i4", "(2, 3, 2)", "True"),
                            raw<std::int32_t>({0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}));
  const auto data = load(x, kLabels);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->shape(), (Shape{3, 2}));
  EXPECT_THAT(features_of(*data), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST_F(NpyFiles, LabelsMayBeOneAPosition) {
  const auto data = load(npy(dictionary("<i8", "(2, 3)"), raw<std::int64_t>({5, 0, 1, 2, 3, 300})),
                         npy(dictionary("<i4", "(2, 3)"), raw<std::int32_t>({0, 1, 2, 3, 300, 5})));
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->target_size(), 3);
  EXPECT_THAT(features_of(*data), ElementsAre(5, 0, 1, 2, 3, 300));
  EXPECT_THAT(data->labels(), ElementsAre(0, 1, 2, 3, 300, 5));
}

TEST_F(NpyFiles, WholeNumbersAreKeptSmall) {
  const auto bytes = load(npy(dictionary("<i8", "(2, 1)"), raw<std::int64_t>({0, 255})), kLabels);
  EXPECT_EQ(bytes->own_rows().bytes.size(), 2U);
  const auto words = load(npy(dictionary("<i8", "(2, 1)"), raw<std::int64_t>({0, 65535})), kLabels);
  EXPECT_EQ(words->own_rows().words.size(), 2U);
  const auto floats =
      load(npy(dictionary("<i8", "(2, 1)"), raw<std::int64_t>({-1, 65536})), kLabels);
  EXPECT_EQ(floats->own_rows().floats.size(), 2U);
  EXPECT_THAT(features_of(*floats), ElementsAre(-1, 65536));
}

TEST_F(NpyFiles, ValuesForRegressionTakeAnyDtype) {
  const ArrayOptions values{.targets = ArrayOptions::Targets::kValues};
  const auto real = load(kFloats, npy(dictionary("<f8", "(2,)"), raw<double>({0.5, -1})), values);
  ASSERT_TRUE(real) << real.error().message;
  EXPECT_FALSE(real->has_labels());
  EXPECT_THAT(values_of(*real), ElementsAre(0.5F, -1));
  const auto pairs =
      load(kFloats, npy(dictionary("<i2", "(2, 2)"), raw<std::int16_t>({1, -2, 3, 4})), values);
  ASSERT_TRUE(pairs) << pairs.error().message;
  EXPECT_EQ(pairs->target_size(), 2);
  EXPECT_THAT(values_of(*pairs), ElementsAre(1, -2, 3, 4));
}

TEST_F(NpyFiles, RefusesLabelsOutOfRangeWithTheirPlace) {
  EXPECT_THAT(error_text(load(kFloats, npy(dictionary("<i8", "(2,)"), raw<std::int64_t>({0, -1})))),
              AllOf(HasSubstr("y.npy: byte 136"), HasSubstr("[1]"), HasSubstr("-1")));
  EXPECT_THAT(
      error_text(load(kFloats, npy(dictionary("<u8", "(2,)"), raw<std::uint64_t>({~0ULL, 0})))),
      AllOf(HasSubstr("byte 128"), HasSubstr("18446744073709551615")));
  EXPECT_THAT(
      error_text(load(kFloats, npy(dictionary("<i4", "(2,)"), raw<std::int32_t>({16777216, 0})))),
      HasSubstr("16777215"));
  EXPECT_THAT(error_text(load(kFloats, npy(dictionary("<f4", "(2,)"), raw<float>({0, 1})))),
              AllOf(HasSubstr("y.npy"), HasSubstr("F32"), HasSubstr("targets=values")));
}

TEST_F(NpyFiles, RefusesNumbersThatAreNotFiniteWithTheirPlace) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(
      error_text(load(npy(dictionary("<f4", "(2, 2)"), raw<float>({0, 1, 2, nan})), kLabels)),
      AllOf(HasSubstr("x.npy: byte 140"), HasSubstr("[1, 1]"), HasSubstr("nan")));
  // In Fortran's order the element [0, 1] is the third.
  EXPECT_THAT(
      error_text(load(npy(dictionary(">f4", "(2, 2)", "True"),
                          raw<float>({0, 1, -std::numeric_limits<float>::infinity(), 3}, true)),
                      kLabels)),
      AllOf(HasSubstr("x.npy: byte 136"), HasSubstr("[0, 1]"), HasSubstr("-inf")));
  EXPECT_THAT(error_text(load(npy(dictionary("<f8", "(2, 1)"), raw<double>({0, 1e300})), kLabels)),
              AllOf(HasSubstr("byte 136"), HasSubstr("1e+300")));
  EXPECT_THAT(
      error_text(load(npy(dictionary("<f2", "(2, 1)"), std::string("\0\0\0\x7e", 4)), kLabels)),
      HasSubstr("byte 130"));
  EXPECT_THAT(error_text(load(npy(dictionary("|b1", "(2, 1)"), std::string("\0\2", 2)), kLabels)),
              AllOf(HasSubstr("byte 129"), HasSubstr("0 or 1")));
}

TEST_F(NpyFiles, RefusesShapesThatDoNotFitTogether) {
  const std::string three = npy(dictionary("<i8", "(3,)"), raw<std::int64_t>({0, 1, 2}));
  EXPECT_THAT(error_text(load(kFloats, three)), AllOf(HasSubstr("[3]"), HasSubstr("2 targets")));
  EXPECT_THAT(error_text(load(kLabels, kLabels)), HasSubstr("two dimensions"));
  EXPECT_THAT(error_text(load(kFloats, npy(dictionary("|u1", "()"), "a"))),
              HasSubstr("one dimension"));
  EXPECT_THAT(
      error_text(load(npy(dictionary("<f4", "(0, 3)"), ""), npy(dictionary("<i8", "(0,)"), ""))),
      HasSubstr("no examples"));
  EXPECT_THAT(error_text(load(npy(dictionary("<f4", "(2, 0)"), ""), kLabels)),
              HasSubstr("no examples"));
  EXPECT_THAT(error_text(load(kFloats, npy(dictionary("<i8", "(2, 0)"), ""))),
              HasSubstr("no targets"));
  EXPECT_THAT(error_text(load_npy(folder_ / "none", folder_ / "none", {})), HasSubstr("none"));
}

}  // namespace
}  // namespace muster
