#include <gtest/gtest.h>

#include <cmath>

#include "core/base/json.h"

namespace muster {
namespace {

Json json(std::string_view text) {
  return parse_json(text).value();
}

// The error that `read` leaves behind on the object of this text.
template <typename Read>
std::string error_of(std::string_view text, Read read) {
  const Json value = json(text);
  JsonObject object(value, "job");
  read(object);
  const Status status = object.finish();
  if (status) return "no error";
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(status.error().reason, "bad_field");
  return status.error().message;
}

TEST(JsonObject, ReadsEachFieldAndFallsBackWhereOneIsMissing) {
  const Json value = json(
      R"({"name": "mnist", "rounds": -7, "lr": 0.5, "whole": 3, "on": true, "tags": ["a", "b"], "any": [1]})");
  JsonObject object(value, "job");
  EXPECT_EQ(object.text("name"), "mnist");
  EXPECT_EQ(object.integer("rounds"), -7);
  EXPECT_EQ(object.number("lr"), 0.5);
  EXPECT_EQ(object.number("whole"), 3.0) << "an integer is a number too";
  EXPECT_TRUE(object.boolean("on"));
  EXPECT_EQ(object.texts("tags", {}), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(object.value("any"), Json::array({1}));
  EXPECT_EQ(object.text("no_text", "f"), "f");
  EXPECT_EQ(object.integer("no_integer", 4, {1, 5}), 4);
  EXPECT_EQ(object.number("no_number", 0.25, {0, 1}), 0.25);
  EXPECT_TRUE(object.boolean("no_boolean", true));
  EXPECT_EQ(object.texts("no_texts", {"x"}), std::vector<std::string>{"x"});
  EXPECT_EQ(object.find("no_value"), nullptr);
  EXPECT_TRUE(object.finish());
}

TEST(JsonObject, RefusesAMissingField) {
  EXPECT_EQ(error_of("{}", [](auto& o) { o.integer("rounds"); }),
            "job.rounds: the field is missing");
  EXPECT_EQ(error_of("{}", [](auto& o) { EXPECT_TRUE(o.value("model").is_null()); }),
            "job.model: the field is missing");
}

TEST(JsonObject, RefusesTheWrongTypeSayingFoundAndWanted) {
  EXPECT_EQ(error_of(R"({"a": 1})", [](auto& o) { o.text("a"); }),
            "job.a: 1 found, a text is wanted");
  EXPECT_EQ(error_of(R"({"a": "1"})", [](auto& o) { o.integer("a"); }),
            "job.a: \"1\" found, an integer is wanted");
  EXPECT_EQ(error_of(R"({"a": []})", [](auto& o) { o.number("a"); }),
            "job.a: an array of 0 found, a finite number is wanted");
  EXPECT_EQ(error_of(R"({"a": 0})", [](auto& o) { o.boolean("a", false); }),
            "job.a: 0 found, true or false is wanted");
  EXPECT_EQ(error_of(R"({"a": "x"})", [](auto& o) { o.texts("a", {}); }),
            "job.a: \"x\" found, an array of texts is wanted");
  EXPECT_EQ(error_of(R"({"a": ["x", 2]})", [](auto& o) { o.texts("a", {}); }),
            "job.a[1]: 2 found, a text is wanted");
}

TEST(JsonObject, TakesNullForAWrongTypeNotForMissing) {
  EXPECT_EQ(error_of(R"({"a": null})", [](auto& o) { o.integer("a", 1, {}); }),
            "job.a: null found, an integer is wanted");
  EXPECT_EQ(error_of(R"({"a": null})", [](auto& o) { o.text("a", "x"); }),
            "job.a: null found, a text is wanted");
}

TEST(JsonObject, TakesNoRealForAnInteger) {
  EXPECT_EQ(error_of(R"({"a": 1.0})", [](auto& o) { o.integer("a"); }),
            "job.a: 1.0 found, an integer is wanted");
  EXPECT_NE(error_of(R"({"a": 1e2})", [](auto& o) { o.integer("a"); }), "no error");
  EXPECT_NE(error_of(R"({"a": true})", [](auto& o) { o.integer("a"); }), "no error");
}

TEST(JsonObject, NeverWrapsAnInteger) {
  const Json value =
      json(R"({"least": -9223372036854775808, "most": 9223372036854775807, "minus": -1})");
  JsonObject object(value, "");
  EXPECT_EQ(object.integer("least"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(object.integer("most"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(object.integer("minus"), -1);
  EXPECT_TRUE(object.finish());
  EXPECT_EQ(error_of(R"({"a": 9223372036854775808})", [](auto& o) { o.integer("a"); }),
            "job.a: 9223372036854775808 found, an integer is wanted");
  EXPECT_EQ(error_of(R"({"a": 18446744073709551615})",
                     [](auto& o) {
                       o.integer("a", {-5, 5});
                     }),
            "job.a: 18446744073709551615 found, an integer from -5 to 5 is wanted");
  EXPECT_EQ(error_of(R"({"a": -1})", [](auto& o) { o.integer("a", {.low = 0}); }),
            "job.a: -1 found, an integer of at least 0 is wanted");
}

TEST(JsonObject, HoldsRangesAtBothEnds) {
  for (const auto& [text, good] :
       {std::pair{R"({"a": 1})", true}, std::pair{R"({"a": 5})", true},
        std::pair{R"({"a": 0})", false}, std::pair{R"({"a": 6})", false}}) {
    EXPECT_EQ(error_of(text, [](auto& o) { o.integer("a", {1, 5}); }) == "no error", good) << text;
    EXPECT_EQ(error_of(text,
                       [](auto& o) {
                         o.integer("a", 2, {1, 5});
                       }) == "no error",
              good)
        << text;
    EXPECT_EQ(error_of(text, [](auto& o) { o.number("a", {1, 5}); }) == "no error", good) << text;
    EXPECT_EQ(error_of(text,
                       [](auto& o) {
                         o.number("a", 2, {1, 5});
                       }) == "no error",
              good)
        << text;
  }
}

TEST(JsonObject, TakesNoNanOrInfinityForANumber) {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    const Json value = {{"a", bad}};
    JsonObject object(value, "job");
    EXPECT_EQ(object.number("a"), 0);
    EXPECT_FALSE(object.finish());
  }
}

TEST(JsonObject, RefusesAnUnknownFieldListingTheKnown) {
  EXPECT_EQ(error_of(R"({"zebra": 1, "mu": 1})",
                     [](auto& o) {
                       o.number("mu");
                       o.text("name", "");
                     }),
            "job.zebra: unknown field; known: mu, name");
  EXPECT_EQ(error_of(R"({"a\nb": 1})", [](auto&) {}), "job.a\\x0ab: unknown field; known: none");
}

TEST(JsonObject, SuggestsAKnownFieldThatIsNear) {
  const auto read = [](auto& o) {
    o.number("deadline_s", 1.0, {});
    o.number("mu", 1.0, {});
  };
  EXPECT_EQ(error_of(R"({"deadlin_s": 1})", read),
            "job.deadlin_s: unknown field (did you mean \"deadline_s\"?); known: deadline_s, mu");
  EXPECT_EQ(error_of(R"({"dedaline_s": 1})", read),
            "job.dedaline_s: unknown field (did you mean \"deadline_s\"?); known: deadline_s, mu");
  EXPECT_EQ(error_of(R"({"m": 1})", read),
            "job.m: unknown field (did you mean \"mu\"?); known: deadline_s, mu");
  EXPECT_EQ(error_of(R"({"lr": 1})", read), "job.lr: unknown field; known: deadline_s, mu")
      << "two edits turn any two letters into any others";
}

TEST(JsonObject, KeepsTheFirstError) {
  EXPECT_EQ(error_of(R"({"a": "x", "b": "y", "c": 1})",
                     [](auto& o) {
                       EXPECT_TRUE(o.ok());
                       EXPECT_EQ(o.integer("a"), 0);
                       EXPECT_FALSE(o.ok());
                       EXPECT_EQ(o.integer("b", 7, {}), 7);
                       o.fail("c", "never seen");
                     }),
            "job.a: \"x\" found, an integer is wanted");
}

TEST(JsonObject, CarriesTheCallersOwnError) {
  EXPECT_EQ(error_of(R"({"a": 1})", [](auto& o) { o.fail("a", "more than min_updates"); }),
            "job.a: more than min_updates");
}

TEST(JsonObject, RefusesWhatIsNoObject) {
  EXPECT_EQ(error_of("[1]", [](auto& o) { o.integer("a"); }),
            "job: an array of 1 found, an object is wanted");
  EXPECT_EQ(error_of("null", [](auto& o) { EXPECT_EQ(o.find("a"), nullptr); }),
            "job: null found, an object is wanted");
}

TEST(JsonObject, RefusesAChoiceThatIsNotInTheList) {
  const auto read = [](auto& o) { EXPECT_EQ(o.choice("type", {"FedYogi", "FedAvg"}), ""); };
  EXPECT_EQ(error_of(R"({"type": "FedAvgg"})", read),
            "job.type: unknown \"FedAvgg\" (did you mean \"FedAvg\"?); known: FedAvg, FedYogi");
  EXPECT_EQ(error_of(R"({"type": "Local"})", read),
            "job.type: unknown \"Local\"; known: FedAvg, FedYogi");
  EXPECT_EQ(error_of(R"({"type": "FedAvg"})",
                     [](auto& o) { EXPECT_EQ(o.choice("type", {"FedAvg"}), "FedAvg"); }),
            "no error");
}

}  // namespace
}  // namespace muster
