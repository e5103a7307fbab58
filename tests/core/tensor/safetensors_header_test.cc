#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/tensor/safetensors.h"
#include "tests/core/tensor/safetensors_files.h"

namespace muster {
namespace {

using testing::HasSubstr;
using namespace files;

TEST(ParseSafetensorsHeader, ReadsTheHeaderOfAFileThatIsNotAllThere) {
  const StateDict state(layout({{"a", {1000}}}));
  const Bytes file = write_state(state);
  const std::size_t header_bytes = safetensors_header(state.layout()).size();
  const auto header =
      parse_safetensors_header(ByteView(file).subspan(0, header_bytes), file.size());
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->data_begin, header_bytes);
  EXPECT_EQ(header->tensors.at(0).end, 4000U);
  EXPECT_FALSE(parse_safetensors_header(ByteView(file).subspan(0, header_bytes - 1), file.size()));
  EXPECT_EQ(
      error_of(parse_safetensors_header(ByteView(file).subspan(0, header_bytes), file.size() - 1))
          .reason,
      "bad_layout");
  EXPECT_EQ(error_of(parse_safetensors_header(file, header_bytes - 1)).reason, "bad_header");
}

TEST(ParseSafetensorsHeader, ChecksTheLengthBeforeTheHeader) {
  for (const std::uint64_t length : {std::uint64_t{(1 << 20) + 1}, std::uint64_t{1} << 63,
                                     ~std::uint64_t{0}, ~std::uint64_t{0} - 7}) {
    Bytes file = file_of("{}", ByteView());
    store_le64(length, file);
    const Error error = error_of(parse_safetensors_header(file, ~std::uint64_t{0}));
    EXPECT_EQ(error.reason, "bad_header");
    EXPECT_EQ(error.message,
              "header length " + std::to_string(length) + " is over the limit 1048576");
  }
}

TEST(ParseSafetensorsHeader, TakesAHeaderAsLongAsTheLimit) {
  const std::string json = "{}" + std::string((1 << 20) - 2, ' ');
  const Bytes file = file_of(json, ByteView());
  EXPECT_TRUE(parse_safetensors_header(file, file.size()));
  EXPECT_EQ(
      error_of(parse_safetensors_header(file, file.size(), {.header_bytes = (1 << 20) - 1})).reason,
      "bad_header");
}

TEST(ParseSafetensorsHeader, HoldsTheLimitsOnTensorsRankAndName) {
  std::string json;
  for (int i = 0; i < 5; ++i) {
    json.append(i > 0 ? "," : "").append(entry(std::to_string(i), "F32", "[0]", "[0,0]"));
  }
  const Bytes five = file_of(braced(json), ByteView());
  EXPECT_TRUE(parse_safetensors_header(five, five.size(), {.tensors = 5}));
  EXPECT_THAT(error_of(parse_safetensors_header(five, five.size(), {.tensors = 4})).message,
              HasSubstr("more than 4 tensors"));
  const auto with_rank = [](std::size_t rank) {
    std::string shape = "[0";
    for (std::size_t i = 1; i < rank; ++i) shape += ",1";
    const Bytes file = file_of(braced(entry("a", "F32", shape + "]", "[0,0]")), ByteView());
    return parse_safetensors_header(file, file.size());
  };
  EXPECT_TRUE(with_rank(16));
  EXPECT_EQ(error_of(with_rank(17)).reason, "bad_header");
  EXPECT_EQ(error_of(with_rank(1000)).reason, "bad_header");
  const Bytes named =
      file_of(braced(entry(std::string(513, 'n'), "F32", "[0]", "[0,0]")), ByteView());
  EXPECT_EQ(error_of(parse_safetensors_header(named, named.size())).reason, "bad_header");
}

TEST(ParseSafetensorsHeader, SaysHowTheLayoutIsWrong) {
  const auto message = [](const std::string& json, std::size_t data) {
    const Bytes file = file_of(braced(json), Bytes(data));
    const Error error = error_of(parse_safetensors_header(file, file.size()));
    EXPECT_EQ(error.reason, "bad_layout");
    return error.message;
  };
  const std::string a = entry("a", "F32", "[2]", "[0,8]");
  EXPECT_THAT(message(a + "," + entry("b", "F32", "[1]", "[4,8]"), 8),
              HasSubstr("\"b\" begins at 4 where 8 is wanted: it overlaps"));
  EXPECT_THAT(message(a + "," + entry("b", "F32", "[2]", "[0,8]"), 8), HasSubstr("overlaps"));
  EXPECT_THAT(message(a + "," + entry("b", "F32", "[1]", "[12,16]"), 16),
              HasSubstr("belong to none"));
  EXPECT_THAT(message(entry("a", "F32", "[1]", "[4,8]"), 8),
              HasSubstr("\"a\" begins at 4 where 0 is wanted"));
  EXPECT_THAT(message(a, 12), HasSubstr("12 bytes of data, the tensors end at 8"));
  EXPECT_THAT(message(a, 4), HasSubstr("its data ends at 8, the file has 4 bytes"));
  EXPECT_THAT(message(entry("a", "F32", "[3]", "[0,8]"), 8),
              HasSubstr("8 bytes of data, F32 of shape [3] need 12"));
  EXPECT_THAT(message(entry("a", "F32", "[2]", "[8,0]"), 8), HasSubstr("0 <= begin <= end"));
  EXPECT_THAT(message(entry("a", "F32", "[2]", "[-1,7]"), 8), HasSubstr("[-1, 7]"));
  EXPECT_THAT(message(entry("a", "F32", "[4294967296,4294967296]", "[0,0]"), 0),
              HasSubstr("more than"));
  EXPECT_THAT(message(entry("e", "F32", "[0]", "[4,4]") + "," + a, 8), HasSubstr("overlaps"))
      << "an empty one, inside another";
}

TEST(ParseSafetensorsHeader, PutsEmptyTensorsBeforeTheOneThatBeginsWithThem) {
  const Bytes file =
      file_of(braced(entry("a", "F32", "[1]", "[0,4]") + "," + entry("z", "F32", "[0]", "[0,0]")),
              Bytes(4));
  const auto header = parse_safetensors_header(file, file.size());
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->tensors.at(0).name, "z");
  EXPECT_EQ(header->tensors.at(1).name, "a");
}

TEST(ParseSafetensorsHeader, NamesAnUnknownDtypeAndTheKnown) {
  const Bytes file = file_of(braced(entry("a", "F8_E4M3", "[0]", "[0,0]")), ByteView());
  const Error error = error_of(parse_safetensors_header(file, file.size()));
  EXPECT_EQ(error.reason, "bad_header");
  EXPECT_THAT(error.message, HasSubstr("\"F8_E4M3\""));
  EXPECT_THAT(error.message, HasSubstr("BF16, BOOL"));
}

TEST(ParseSafetensorsHeader, RefusesOtherFormats) {
  // The first bytes of a zip (npz, a pickled checkpoint), a bare pickle, ONNX, NumPy.
  for (const std::string_view start :
       {"PK\x03\x04", "\x80\x04\x95", "\x08\x07\x12\x07pytorch", "\x93NUMPY\x01"}) {
    std::string content(start);
    content.resize(4096, 'x');
    EXPECT_EQ(error_of(read_state(as_bytes(content))).reason, "bad_header");
  }
}

TEST(Dtype, HasTheNamesAndSizesOfTheFormat) {
  EXPECT_EQ(to_string(Dtype::kBool), "BOOL");
  EXPECT_EQ(to_string(Dtype::kBF16), "BF16");
  EXPECT_EQ(to_string(Dtype::kU64), "U64");
  EXPECT_EQ(size_in_bytes(Dtype::kBool), 1U);
  EXPECT_EQ(size_in_bytes(Dtype::kF16), 2U);
  EXPECT_EQ(size_in_bytes(Dtype::kF32), 4U);
  EXPECT_EQ(size_in_bytes(Dtype::kI64), 8U);
}

}  // namespace
}  // namespace muster
