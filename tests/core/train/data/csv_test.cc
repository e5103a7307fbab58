#include "core/train/data/csv.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/core/train/data/data_support.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Result<Dataset> parse(std::string_view text, CsvOptions options = {.target = "y"},
                      CsvLimits limits = {}) {
  return parse_csv(text, "d.csv", options, limits);
}

std::string error_of(std::string_view text, const CsvOptions& options) {
  return error_text(parse(text, options));
}

std::string error_of(std::string_view text) {
  const auto data = parse(text);
  return data ? "no error" : data.error().message;
}

TEST(Csv, ReadsFeaturesInOrderAndLabels) {
  const auto data = parse("a,y,b\n1,0,2.5\n-3e2,2,0.125\n");
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->shape(), (Shape{2}));
  EXPECT_THAT(data->labels(), ElementsAre(0, 2));
  EXPECT_THAT(features_of(*data), ElementsAre(1, 2.5F, -300, 0.125F));
}

TEST(Csv, TakesQuotesBlanksCrLfAByteOrderMarkAndNoLastLineEnd) {
  const auto data = parse("\xEF\xBB\xBF\"a \"\"x\"\", b\",y\r\n 1 ,\"0\"\r\n\"2\" ,\t1");
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_THAT(data->labels(), ElementsAre(0, 1));
  EXPECT_THAT(features_of(*data), ElementsAre(1, 2));
}

TEST(Csv, ValuesAsTargetsForRegression) {
  const auto data =
      parse("a,y\n1,0.5\n2,-7\n", {.target = "y", .targets = CsvOptions::Targets::kValues});
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_FALSE(data->has_labels());
  std::vector<float> values(2);
  data->copy_values(std::vector<std::int64_t>{0, 1}, values);
  EXPECT_THAT(values, ElementsAre(0.5F, -7));
}

TEST(Csv, NumbersTooSmallForAFloatAreTheNearestOneAndTooLargeOnesAreRefused) {
  const auto data = parse(
      "a,y\n1e-50,0\n-1e-320,0\n1e-99999999999999999999,0\n1e-40,0\n0.0000001e-43,0\n1e-45,0\n"
      "123456789e-60,0\n1e-1000,0\n0e99999999999999999999,0\n");
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_THAT(features_of(*data),
              ElementsAre(0, 0, 0, 1e-40F, 0, std::numeric_limits<float>::denorm_min(), 0, 0, 0));
  for (const char* large : {"1e39", "-1e39", "1e400", "1e99999999999999999999", "1000e306",
                            "0.001e312", "inf", "nan", "0x10", "1e", "1e-", "--1", "1 2"}) {
    EXPECT_THAT(error_of("a,y\n" + std::string(large) + ",0\n"), HasSubstr("no finite number"))
        << large;
  }
}

TEST(Csv, ALeadingPlusIsTaken) {
  const auto data = parse("a,y\n+1,+2\n+1.5e+1,0\n");
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_THAT(features_of(*data), ElementsAre(1, 15));
  EXPECT_THAT(data->labels(), ElementsAre(2, 0));
  for (const char* bad : {"+", "+-1", "++1", "-+1"}) {
    EXPECT_THAT(error_of("a,y\n" + std::string(bad) + ",0\n"), HasSubstr("no finite number"));
    EXPECT_THAT(error_of("a,y\n1," + std::string(bad) + "\n"), HasSubstr("no class label"));
  }
}

TEST(Csv, AnEmptyFileIsSaidToBeEmpty) {
  EXPECT_THAT(error_of(""), HasSubstr("d.csv: line 1: the file is empty"));
  EXPECT_THAT(error_of("\xEF\xBB\xBF"), HasSubstr("d.csv: line 1: the file is empty"));
  EXPECT_THAT(error_of("\na,y\n1,0\n"), HasSubstr("d.csv: line 1: empty"));
}

TEST(Csv, ErrorsGiveFileLineColumnAndReason) {
  EXPECT_THAT(error_of("a,y\n1,0\nx,1\n"),
              AllOf(HasSubstr("d.csv: line 3, column 1"), HasSubstr("\"x\"")));
  EXPECT_THAT(error_of("a,y\n,0\n"), AllOf(HasSubstr("line 2, column 1"), HasSubstr("missing")));
  EXPECT_THAT(error_of("a,y\n1,0.5\n"), AllOf(HasSubstr("line 2, column 2"), HasSubstr("class")));
  EXPECT_THAT(error_of("a,y\n1,-1\n"), HasSubstr("line 2, column 2"));
  EXPECT_THAT(error_of("a,y\n1,9999999999\n"), HasSubstr("line 2, column 2"));
  EXPECT_THAT(error_of("a,y\n1\n"), AllOf(HasSubstr("line 2"), HasSubstr("1 fields")));
  EXPECT_THAT(error_of("a,y\n1,2,3\n"), AllOf(HasSubstr("line 2"), HasSubstr("3 fields")));
  EXPECT_THAT(error_of("a,y\n1,2,\n"), AllOf(HasSubstr("line 2"), HasSubstr("3 fields")));
  EXPECT_THAT(error_of("a,y\n\n1,2\n"), HasSubstr("line 2"));
  for (const char* bad : {"nan", "inf", "1e999", "0x10", "1,", "1 2", "+-1"}) {
    EXPECT_THAT(error_of(std::string("a,y\n") + bad + ",0\n"), HasSubstr("line 2")) << bad;
  }
}

TEST(Csv, LinesInsideQuotesAreCounted) {
  EXPECT_THAT(error_of("\"a\nb\",y\n1,0\nx,0\n"), HasSubstr("line 4, column 1"));
}

TEST(Csv, RefusesBrokenQuotes) {
  EXPECT_THAT(error_of("a,y\n\"1,0\n"), AllOf(HasSubstr("line 2"), HasSubstr("not closed")));
  EXPECT_THAT(error_of("a,y\n\"1\"2,0\n"), HasSubstr("after the closing quote"));
  EXPECT_THAT(error_of("a,y\n1\"2,0\n"), HasSubstr("quote inside"));
}

TEST(Csv, RefusesBadHeadersAndEmptyFiles) {
  EXPECT_THAT(error_of("a,b\n1,0\n"), AllOf(HasSubstr("\"y\""), HasSubstr("a, b")));
  EXPECT_THAT(error_of("a,a,y\n1,1,0\n"), AllOf(HasSubstr("column 2"), HasSubstr("twice")));
  EXPECT_THAT(error_of("y\n0\n"), HasSubstr("beside the target"));
  EXPECT_THAT(error_of("a,y\n"), HasSubstr("no examples"));
  EXPECT_THAT(error_of("a,y"), HasSubstr("no examples"));
  EXPECT_THAT(error_of(""), HasSubstr("line 1"));
}

TEST(Csv, HoldsItsLimits) {
  EXPECT_THAT(parse("a,b,y\n", {.target = "y"}, {.columns = 2}).error().message,
              HasSubstr("2 columns"));
  EXPECT_THAT(load_csv("/nowhere/d.csv", {.target = "y"}).error().message,
              HasSubstr("/nowhere/d.csv"));
}

CsvOptions colours() {
  return {.target = "y", .categories = {{"color", {"red", "green", "blue"}}}};
}

TEST(Csv, CategoriesBecomeOneFeatureEachInTheStatedOrder) {
  const auto data = parse("a,color,y,b\n1,green,0,5\n2,\"red\",1,6\r\n3,blue,0,7", colours());
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->shape(), (Shape{5}));
  EXPECT_THAT(features_of(*data), ElementsAre(1, 0, 1, 0, 5, 2, 1, 0, 0, 6, 3, 0, 0, 1, 7));
}

TEST(Csv, AnUnknownCategoryNamesLineColumnValueAndTheKnownOnes) {
  EXPECT_THAT(error_of("color,y\nred,0\nmauve,1\n", colours()),
              AllOf(HasSubstr("d.csv: line 3, column 1"), HasSubstr("\"mauve\""),
                    HasSubstr("\"color\""), HasSubstr("red, green, blue")));
}

TEST(Csv, AStarTakesAllOtherCategories) {
  CsvOptions options = colours();
  options.categories["color"] = {"red", "*"};
  const auto data = parse("color,y\nmauve,0\nred,1\n", options);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_THAT(features_of(*data), ElementsAre(0, 1, 1, 0));
  // A missing value is no category, not even another one.
  EXPECT_THAT(error_of("color,y\n,0\n", options), HasSubstr("missing"));
}

TEST(Csv, CategoriesMayHoldSeparatorsAndQuotes) {
  CsvOptions options = {.target = "y", .categories = {{"c", {"a,\"b\"", "two\nlines"}}}};
  const auto data = parse("c,y\n\"a,\"\"b\"\"\",0\n\"two\nlines\",1\n", options);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_THAT(features_of(*data), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(error_of("c,y\n\"two\nlines\",0\nx,0\n", options), HasSubstr("line 4, column 1"));
}

TEST(Csv, CollectedCategoriesAreSortedByTheirBytes) {
  CsvOptions options{.target = "y", .categorical = {"c"}, .collect_categories = true};
  const auto data = parse("c,y\nb,0\nB,1\na,0\nb,1\n", options);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_THAT(features_of(*data), ElementsAre(0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1));
  options.collect_categories = false;
  EXPECT_THAT(error_of("c,y\nb,0\nB,1\n", options),
              AllOf(HasSubstr("stated"), HasSubstr("categories.c=B|b")));
}

TEST(Csv, TextClassesAreLabelsInTheStatedOrder) {
  const CsvOptions options{.target = "y", .classes = {"dog", "cat"}};
  const auto data = parse("a,y\n1,cat\n2,dog\n", options);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_THAT(data->labels(), ElementsAre(1, 0));
  EXPECT_THAT(error_of("a,y\n1,cow\n", options),
              AllOf(HasSubstr("line 2, column 2"), HasSubstr("cow"), HasSubstr("dog, cat")));
  EXPECT_THAT(error_of("a,y\n1,cat\n"), HasSubstr("want their classes stated"));
  EXPECT_THAT(error_of("a,y\n1,1\n",
                       {.target = "y", .targets = CsvOptions::Targets::kValues, .classes = {"a"}}),
              HasSubstr("values"));
}

TEST(Csv, ChosenFeaturesComeInTheStatedOrderAndTheOthersAreNotRead) {
  const CsvOptions options{.target = "y", .features = {"b", "a"}};
  const auto data = parse("id,a,y,b\nx-1,1,0,2\nx-2,3,1,4\n", options);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_THAT(features_of(*data), ElementsAre(2, 1, 4, 3));
}

TEST(Csv, MissingValuesBecomeWhatIsStated) {
  const std::string text = "a,b,c,y\n1,,10,0\nNA,5,\"\",1\n4,7,,0\n ? ,?,40,1\n";
  const CsvOptions options{.target = "y",
                           .missing = "mean",
                           .missing_of = {{"b", "median"}, {"c", "-1"}},
                           .missing_words = {"NA", "?"}};
  const auto data = parse(text, options);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_THAT(features_of(*data), ElementsAre(1, 6, 10, 2.5F, 5, -1, 4, 7, -1, 2.5F, 6, 40));
}

TEST(Csv, AMissingCategoryBecomesAStatedOneAndNeverAMean) {
  CsvOptions options = colours();
  options.missing = "mean";
  EXPECT_THAT(error_of("color,y\n,0\n", options),
              AllOf(HasSubstr("line 2, column 1"), HasSubstr("missing.color=CATEGORY")));
  options.missing_of["color"] = "blue";
  const auto data = parse("color,y\n,0\n", options);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_THAT(features_of(*data), ElementsAre(0, 0, 1));
  options.missing_of["color"] = "pink";
  EXPECT_THAT(error_of("color,y\n,0\n", options),
              AllOf(HasSubstr("pink"), HasSubstr("red, green, blue")));
}

TEST(Csv, MissingTargetsAreNeverFilled) {
  CsvOptions options{.target = "y", .missing = "mean", .missing_words = {"NA"}};
  EXPECT_THAT(error_of("a,y\n1,NA\n", options),
              AllOf(HasSubstr("line 2, column 2"), HasSubstr("target")));
  options.missing_of["y"] = "0";
  EXPECT_THAT(error_of("a,y\n1,NA\n", options), HasSubstr("is the target"));
}

TEST(Csv, AColumnWithoutAnyValueHasNoMean) {
  EXPECT_THAT(error_of("a,b,y\n1,,0\n2,,1\n", {.target = "y", .missing = "median"}),
              AllOf(HasSubstr("\"b\""), HasSubstr("no median"), HasSubstr("d.csv")));
}

TEST(Csv, RefusesOptionsThatNameWhatIsNotThere) {
  const auto with = [](auto change) {
    CsvOptions options = colours();
    change(options);
    return error_of("color,a,y\nred,1,0\n", options);
  };
  EXPECT_EQ(with([](CsvOptions&) {}), "no error");
  EXPECT_THAT(with([](CsvOptions& o) { o.features = {"z"}; }), HasSubstr("known are color, a, y"));
  EXPECT_THAT(with([](CsvOptions& o) { o.features = {"a", "a"}; }), HasSubstr("named twice"));
  EXPECT_THAT(with([](CsvOptions& o) { o.features = {"a", "y"}; }), HasSubstr("is the target"));
  EXPECT_THAT(with([](CsvOptions& o) { o.features = {"a"}; }), HasSubstr("not among the chosen"));
  EXPECT_THAT(with([](CsvOptions& o) { o.categories["z"] = {"q"}; }), HasSubstr("no column \"z\""));
  EXPECT_THAT(with([](CsvOptions& o) { o.categorical = {"z"}; }), HasSubstr("no column \"z\""));
  EXPECT_THAT(with([](CsvOptions& o) { o.categories["y"] = {"0"}; }), HasSubstr("is the target"));
  EXPECT_THAT(with([](CsvOptions& o) { o.categories["color"] = {}; }), HasSubstr("at least one"));
  EXPECT_THAT(with([](CsvOptions& o) {
                o.categories["color"] = {"red", "red"};
              }),
              HasSubstr("twice"));
  EXPECT_THAT(with([](CsvOptions& o) { o.categories["color"] = {"red", ""}; }), HasSubstr("empty"));
  EXPECT_THAT(with([](CsvOptions& o) { o.missing_of["z"] = "0"; }), HasSubstr("no column \"z\""));
  EXPECT_THAT(with([](CsvOptions& o) { o.missing_of["a"] = "inf"; }), HasSubstr("\"inf\""));
  EXPECT_THAT(with([](CsvOptions& o) { o.missing = "most"; }), HasSubstr("\"most\""));
}

TEST(Csv, HoldsTheLimitsOfExpandedFeatures) {
  CsvOptions options = colours();
  EXPECT_THAT(error_text(parse("color,y\nred,0\n", options, {.columns = 2})),
              HasSubstr("3 features"));
  EXPECT_THAT(error_text(parse("color,y\nred,0\nred,0\n", options, {.features = 5})),
              AllOf(HasSubstr("line 3"), HasSubstr("over 5 features")));
  options = {.target = "y", .categorical = {"c"}, .collect_categories = true};
  EXPECT_THAT(error_text(parse("c,y\n1,0\n2,0\n3,0\n", options, {.columns = 2})),
              AllOf(HasSubstr("line 4"), HasSubstr("2 categories")));
}

TEST(Csv, AnyPrefixWithCategoriesIsReadOrRefusedWithoutHarm) {
  const std::string text = "\xEF\xBB\xBF\"color\",a,y\r\n\"red\",,0\r\nblue,2,1\r\n";
  CsvOptions options = colours();
  options.missing = "mean";
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const auto data = parse(text.substr(0, length), options);
    if (data) {
      EXPECT_GE(data->size(), 1);
    } else {
      EXPECT_THAT(data.error().message, HasSubstr("d.csv")) << length;
    }
  }
}

TEST(Csv, AnyPrefixIsReadOrRefusedWithoutHarm) {
  const std::string text = "\"a\"\"\n\",y\r\n\"1\",0\r\n2,1\r\n";
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const auto data = parse(text.substr(0, length));
    if (data) {
      EXPECT_GE(data->size(), 1);
    }
  }
}

}  // namespace
}  // namespace muster
