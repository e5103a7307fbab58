#include "core/train/csv.h"

#include <gmock/gmock.h>

namespace muster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Result<Dataset> parse(std::string_view text, CsvOptions options = {.target = "y"},
                      CsvLimits limits = {}) {
  return parse_csv(text, "d.csv", options, limits);
}

std::vector<float> features_of(const Dataset& data) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < data.size(); ++i) all.push_back(i);
  std::vector<float> features(static_cast<std::size_t>(data.size() * data.example_size()));
  data.copy_features(all, features);
  return features;
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

TEST(Csv, ErrorsGiveFileLineColumnAndReason) {
  EXPECT_THAT(error_of("a,y\n1,0\nx,1\n"),
              AllOf(HasSubstr("d.csv: line 3, column 1"), HasSubstr("\"x\"")));
  EXPECT_THAT(error_of("a,y\n,0\n"), AllOf(HasSubstr("line 2, column 1"), HasSubstr("empty")));
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
