#include "core/base/json.h"

#include <gtest/gtest.h>

#include "core/base/bytes.h"

namespace muster {
namespace {

testing::AssertionResult refused(const Result<Json>& result, std::string_view part) {
  if (result) return testing::AssertionFailure() << "accepted: " << result->dump();
  if (result.error().code != ErrorCode::kInvalidArgument || result.error().reason != "bad_json") {
    return testing::AssertionFailure() << "code or reason: " << result.error().reason;
  }
  if (result.error().message.find(part) == std::string::npos) {
    return testing::AssertionFailure() << "message: " << result.error().message;
  }
  return testing::AssertionSuccess();
}

TEST(ParseJson, ReadsEveryKindOfValue) {
  const std::string text =
      R"( {"null": null, "yes": true, "no": false, "int": -3, "big": 18446744073709551615, "least": -9223372036854775808,)"
      R"( "real": 1.5e3, "text": "a\"\u00e4\ud83d\ude00\n", "list": [1, [2], {}], "object": {"": 1}} )";
  const Json json = parse_json(text).value();
  EXPECT_EQ(json, Json::parse(text));
  EXPECT_EQ(json.at("big").get<std::uint64_t>(), 18446744073709551615U);
  EXPECT_TRUE(json.at("int").is_number_integer());
  EXPECT_TRUE(json.at("real").is_number_float());
  EXPECT_EQ(json.at("text"), "a\"\u00e4\U0001f600\n");
  for (const std::string_view root : {"1", "\"a\"", "null", "[]", "{}", "\t[\r\n]\n"}) {
    EXPECT_EQ(parse_json(root).value(), Json::parse(root));
  }
}

TEST(ParseJson, RefusesWhatIsNoJson) {
  for (const std::string_view text :
       {"",         " ",      "{",          "[1",          "{\"a\"",      "{\"a\":",
        "{\"a\":1", "[1,]",   "{\"a\":1,}", "{a:1}",       "{'a':1}",     "nul",
        "truex",    "01",     "+1",         ".5",          "1.",          "1e",
        "-",        "0x10",   "NaN",        "Infinity",    "-Infinity",   "// c\n1",
        "/* c */1", "\"\n\"", "\"\\x\"",    "\"\\ud800\"", "\"\\udc00\"", "\"abc",
        "]",        "[}",     "\"\\u12\"",  "[1 2]",       "{\"a\" 1}",   "\f1"}) {
    EXPECT_TRUE(refused(parse_json(text), "byte")) << text;
  }
}

TEST(ParseJson, RefusesTextAfterTheValue) {
  EXPECT_TRUE(refused(parse_json("{} {}"), "JSON at byte 4"));
  EXPECT_TRUE(refused(parse_json("1 x"), "byte 3"));
  EXPECT_TRUE(refused(parse_json(std::string_view("{}\0", 3)), "byte 2: a zero byte"));
  EXPECT_TRUE(refused(parse_json(std::string_view("{}\0junk", 7)), "zero byte"));
}

TEST(ParseJson, RefusesAByteOrderMark) {
  EXPECT_TRUE(refused(parse_json("\xef\xbb\xbf{}"), "byte 0: a byte order mark"));
}

TEST(ParseJson, RefusesBytesThatAreNotUtf8) {
  for (const std::string_view bad :
       {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xe3\x81", "\xf4\x90\x80\x80"}) {
    EXPECT_TRUE(refused(parse_json("[\"" + std::string(bad) + "\"]"), "byte"));
    EXPECT_TRUE(refused(parse_json("{\"" + std::string(bad) + "\":1}"), "byte"));
    EXPECT_TRUE(refused(parse_json("[1]" + std::string(bad)), "byte"));
  }
}

TEST(ParseJson, RefusesDuplicateKeysAtEveryLevel) {
  EXPECT_TRUE(refused(parse_json(R"({"a":1,"a":1})"), "the key \"a\" occurs twice"));
  EXPECT_TRUE(refused(parse_json(R"([{"b":{"a":1,"c":[],"a":2}}])"), "the key \"a\" occurs twice"));
  EXPECT_TRUE(refused(parse_json(R"({"a":{},"\u0061":2})"), "occurs twice"))
      << "the same key, spelled in another way";
  EXPECT_TRUE(refused(parse_json("{\"\x01\":1}"), "byte"));
  EXPECT_TRUE(parse_json(R"({"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]})"));
}

TEST(ParseJson, KeepsKeysOutOfTheMessageUnlessHarmless) {
  const auto result = parse_json(R"({"\n\u001b":1,"\n\u001b":1})");
  EXPECT_TRUE(refused(result, "\"\\x0a\\x1b\""));
}

TEST(ParseJson, HoldsTheDepthLimitExactly) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parse_json(nested(16)));
  EXPECT_TRUE(
      refused(parse_json(nested(17)), "JSON at byte 17: nested deeper than the limit of 16"));
  EXPECT_TRUE(refused(parse_json("{\"a\":[]}", {.depth = 1}), "limit of 1"));
  EXPECT_TRUE(refused(parse_json("[]", {.depth = 0}), "limit of 0"));
  EXPECT_TRUE(parse_json("1", {.depth = 0}));
}

TEST(ParseJson, SurvivesAHundredThousandNestedArrays) {
  EXPECT_TRUE(refused(parse_json(std::string(100'000, '[')), "nested deeper"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_TRUE(refused(parse_json(objects), "nested deeper"));
  EXPECT_TRUE(refused(parse_json(std::string(300'000, '[')), "nested deeper"));
}

TEST(ParseJson, RefusesMoreBytesThanTheLimit) {
  EXPECT_TRUE(parse_json("[1]", {.bytes = 3}));
  EXPECT_TRUE(refused(parse_json("[1]", {.bytes = 2}), "JSON of 3 bytes is over the limit of 2"));
}

TEST(ParseJson, RefusesNumbersThatDoNotFit) {
  EXPECT_TRUE(refused(parse_json("1e999"), "beyond the range of a double"));
  EXPECT_TRUE(refused(parse_json("[-1e999]"), "beyond the range of a double"));
  EXPECT_TRUE(refused(parse_json("18446744073709551616"), "beyond the range of 64 bits"));
  EXPECT_TRUE(refused(parse_json("[-9223372036854775809]"), "beyond the range of 64 bits"));
  EXPECT_TRUE(refused(parse_json(std::string(5000, '9')), "beyond the range"));
  EXPECT_DOUBLE_EQ(parse_json("1.8446744073709552e19").value().get<double>(), 0x1p64);
  EXPECT_EQ(parse_json("1e-999").value().get<double>(), 0);
}

TEST(ParseJson, ErrorsAreShortWhateverTheText) {
  for (const std::string& text :
       {"\"" + std::string(100'000, 'x'), std::string(100'000, '1') + "e9999",
        "[" + std::string(100'000, 'q'),
        "{\"" + std::string(100'000, 'k') + "\":1,\"" + std::string(100'000, 'k') + "\":1}"}) {
    const auto result = parse_json(text);
    ASSERT_FALSE(result);
    EXPECT_LT(result.error().message.size(), 300U);
    EXPECT_TRUE(is_utf8(result.error().message));
  }
}

TEST(ParseJson, RefusesEveryProperPrefixOfAnObject) {
  const std::string text = R"({"a": [1, 2.5, "x\u00e4"], "b": {"c": null, "d": true}})";
  ASSERT_TRUE(parse_json(text));
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(parse_json(text.substr(0, length))) << length;
  }
}

TEST(Describe, IsShortAndPrintable) {
  EXPECT_EQ(describe(nullptr), "null");
  EXPECT_EQ(describe(true), "true");
  EXPECT_EQ(describe(-1), "-1");
  EXPECT_EQ(describe(18446744073709551615U), "18446744073709551615");
  EXPECT_EQ(describe(1.0), "1.0");
  EXPECT_EQ(describe(std::nan("")), "nan");
  EXPECT_EQ(describe("a\n"), "\"a\\x0a\"");
  EXPECT_EQ(describe(Json::array({1, 2})), "an array of 2");
  EXPECT_EQ(describe(Json::object()), "an object of 0 fields");
  EXPECT_LT(describe(std::string(1000, '\xff')).size(), 70U);
}

}  // namespace
}  // namespace muster
