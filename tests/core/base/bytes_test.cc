#include "core/base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "core/base/random.h"

namespace muster {
namespace {

Bytes bytes_of(std::string_view text) {
  const ByteView view = as_bytes(text);
  return {view.begin(), view.end()};
}

TEST(Le64, StoresTheLowestByteFirst) {
  std::array<std::byte, 8> bytes{};
  store_le64(0x0102030405060708, bytes);
  EXPECT_EQ(hex_encode(bytes), "0807060504030201");
  EXPECT_EQ(load_le64(bytes), 0x0102030405060708U);
}

TEST(Le64, KeepsTheHighestValue) {
  std::array<std::byte, 8> bytes{};
  store_le64(~std::uint64_t{0}, bytes);
  EXPECT_EQ(load_le64(bytes), ~std::uint64_t{0});
}

TEST(Hex, EncodesEveryByteValueAndBack) {
  Bytes all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<std::byte>(i));
  const std::string text = hex_encode(all);
  EXPECT_TRUE(text.starts_with("000102"));
  EXPECT_TRUE(text.ends_with("fdfeff"));
  EXPECT_EQ(hex_decode(text).value(), all);
  EXPECT_EQ(hex_decode("").value(), Bytes{});
}

TEST(Hex, RefusesWhatHasAnotherSpelling) {
  for (const std::string_view text : {"a", "0", "AB", "0x", "zz", "a ", " a", "00g0", "\xc3\xa4"}) {
    const auto decoded = hex_decode(text);
    ASSERT_FALSE(decoded) << text;
    EXPECT_EQ(decoded.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(decoded.error().reason, "bad_encoding");
  }
}

// RFC 4648 section 10.
TEST(Base64, AgreesWithTheVectorsOfTheRfc) {
  const std::pair<std::string_view, std::string_view> vectors[] = {{"", ""},
                                                                   {"f", "Zg=="},
                                                                   {"fo", "Zm8="},
                                                                   {"foo", "Zm9v"},
                                                                   {"foob", "Zm9vYg=="},
                                                                   {"fooba", "Zm9vYmE="},
                                                                   {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, encoded] : vectors) {
    EXPECT_EQ(base64_encode(as_bytes(plain)), encoded);
    EXPECT_EQ(base64_decode(encoded).value(), bytes_of(plain));
  }
}

TEST(Base64, GivesBackRandomBytesOfEveryLength) {
  Random random(1);
  for (std::size_t length = 0; length < 100; ++length) {
    Bytes bytes(length);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    EXPECT_EQ(base64_decode(base64_encode(bytes)).value(), bytes);
  }
}

TEST(Base64, RefusesWhatHasAnotherSpelling) {
  for (const std::string_view text :
       {"Zg", "Zg=", "Zg===", "=", "====", "Z===", "Zh==", "Zm9=", "Zm9v\n", " Zm9v", "Zm 9",
        "Zm9v====", "Zg==Zg==", "Zm-_", "Z=g=", "Zm9v=", "\xff\xff\xff\xff"}) {
    const auto decoded = base64_decode(text);
    ASSERT_FALSE(decoded) << text;
    EXPECT_EQ(decoded.error().reason, "bad_encoding");
  }
}

TEST(Utf8, AcceptsTheFirstAndLastOfEveryLength) {
  for (const std::string_view text :
       {"", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(text)) << hex_encode(as_bytes(text));
  }
  EXPECT_TRUE(is_utf8(std::string_view("\0", 1)));
}

TEST(Utf8, RefusesOverlongSurrogateCutAndBeyond) {
  for (const std::string_view text : {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x80\x80",
                                      "\xe0\x9f\xbf",
                                      "\xf0\x80\x80\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xed\xa0\x80",
                                      "\xed\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xfe",
                                      "\xc3",
                                      "\xe3\x81",
                                      "\xf0\x9f\x92",
                                      "a\xc3",
                                      "\xc3(",
                                      "\xe3\x28\x81"}) {
    EXPECT_FALSE(is_utf8(text)) << hex_encode(as_bytes(text));
  }
}

TEST(Printable, LeavesOrdinaryTextAlone) {
  EXPECT_EQ(printable("conv1.weight [2, 3]"), "conv1.weight [2, 3]");
  EXPECT_EQ(printable("gewicht.\u00e4 \u5c64"), "gewicht.\u00e4 \u5c64");
}

TEST(Printable, TakesTheTeethOutOfHostileText) {
  EXPECT_EQ(printable("a\nb"), "a\\x0ab");
  EXPECT_EQ(printable("\x1b[31m"), "\\x1b[31m");
  EXPECT_EQ(printable("\x7f"), "\\x7f");
  EXPECT_EQ(printable("\"'\\"), "\\x22\\x27\\x5c");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b") << "C1 controls move cursors too";
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae") << "right-to-left override";
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, KeepsToTheLimitWhateverTheText) {
  const std::string plain(200, 'a');
  const std::string control(200, '\n');
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "\u5c64";
  for (const std::string& text : {plain, control, wide}) {
    for (std::size_t limit = 0; limit < 40; ++limit) {
      const std::string out = printable(text, limit);
      EXPECT_LE(out.size(), limit);
      EXPECT_TRUE(is_utf8(out));
      EXPECT_TRUE(limit < 3 || out.ends_with("...")) << out;
    }
  }
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abc...");
}

TEST(Bytes, ASentenceKeepsItsQuotesAndNothingElseThatPrintableEscapes) {
  EXPECT_EQ(printable_sentence("the node \"fc1\" isn't C:\\x"), "the node \"fc1\" isn't C:\\x");
  EXPECT_EQ(printable_sentence("a\x1b[31m\n"), "a\\x1b[31m\\x0a");
  EXPECT_EQ(printable("\"'"), "\\x22\\x27");
}

}  // namespace
}  // namespace muster
