#include "core/train/dataset.h"

#include <gmock/gmock.h>

#include <limits>

namespace muster {
namespace {

using testing::ElementsAre;

DatasetRows six_rows() {
  DatasetRows rows;
  rows.shape = {2};
  for (int i = 0; i < 12; ++i) rows.floats.push_back(static_cast<float>(i));
  rows.labels = {0, 1, 2, 3, 4, 5};
  return rows;
}

TEST(Dataset, SubsetsOfSubsetsShareTheRows) {
  const Dataset all = *Dataset::create(six_rows());
  const Dataset part = all.subset(std::vector<std::int64_t>{5, 3, 1});
  const Dataset inner = part.subset(std::vector<std::int64_t>{2, 0});
  EXPECT_THAT(inner.labels(), ElementsAre(1, 5));
  std::vector<float> features(4);
  inner.copy_features(std::vector<std::int64_t>{1, 0}, features);
  EXPECT_THAT(features, ElementsAre(10, 11, 2, 3));
}

TEST(Dataset, ACompactedSubsetHasTheSameExamplesInRowsOfItsOwn) {
  const Dataset part = Dataset::create(six_rows())->subset(std::vector<std::int64_t>{5, 3, 1});
  const Dataset own = part.compacted();
  EXPECT_EQ(own.size(), 3);
  EXPECT_EQ(own.shape(), part.shape());
  EXPECT_THAT(own.labels(), ElementsAre(5, 3, 1));
  std::vector<float> features(6);
  own.copy_features(std::vector<std::int64_t>{0, 1, 2}, features);
  EXPECT_THAT(features, ElementsAre(10, 11, 6, 7, 2, 3));
  EXPECT_EQ(part.subset({}).compacted().size(), 0);
}

TEST(Dataset, EmptyOnesHaveNoExamples) {
  EXPECT_EQ(Dataset().size(), 0);
  EXPECT_EQ(Dataset().shape(), Shape{});
  EXPECT_EQ(Dataset::create(six_rows())->subset({}).size(), 0);
  EXPECT_EQ(Dataset().find_target_outside(0, 1), -1);
}

TEST(Dataset, LabelsServeAsValues) {
  const Dataset data = *Dataset::create(six_rows());
  std::vector<float> values(2);
  data.copy_values(std::vector<std::int64_t>{4, 2}, values);
  EXPECT_THAT(values, ElementsAre(4, 2));
}

TEST(Dataset, FindsTargetsOutsideARange) {
  const Dataset data = *Dataset::create(six_rows());
  EXPECT_EQ(data.find_target_outside(0, 5), -1);
  EXPECT_EQ(data.find_target_outside(0, 3), 4);
  DatasetRows rows = six_rows();
  rows.labels.clear();
  rows.target_size = 2;
  rows.values = std::vector<float>(12, 0.5F);
  rows.values[9] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Dataset::create(rows)->find_target_outside(0, 1), 4);
}

TEST(Dataset, RefusesLengthsThatDoNotFit) {
  DatasetRows rows = six_rows();
  rows.floats.pop_back();
  EXPECT_FALSE(Dataset::create(rows));
  rows = six_rows();
  rows.labels.pop_back();
  EXPECT_FALSE(Dataset::create(rows));
  rows = six_rows();
  rows.values = {1};
  EXPECT_FALSE(Dataset::create(rows));
  rows = six_rows();
  rows.bytes = {1};
  EXPECT_FALSE(Dataset::create(rows));
  rows = six_rows();
  rows.shape = {0};
  EXPECT_FALSE(Dataset::create(rows));
  rows = six_rows();
  rows.labels[3] = -1;
  EXPECT_THAT(Dataset::create(rows).error().message, testing::HasSubstr("example 3"));
}

}  // namespace
}  // namespace muster
