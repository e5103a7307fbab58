#include "core/train/data/dataset.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/core/train/data/data_support.h"

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
  EXPECT_FALSE(Dataset().find_target_outside(0, 1));
  EXPECT_EQ(Dataset().target_size(), 0);
}

TEST(Dataset, LabelsServeAsValues) {
  const Dataset data = *Dataset::create(six_rows());
  std::vector<float> values(2);
  data.copy_values(std::vector<std::int64_t>{4, 2}, values);
  EXPECT_THAT(values, ElementsAre(4, 2));
}

TEST(Dataset, FindsTargetsOutsideARange) {
  const Dataset data = *Dataset::create(six_rows());
  EXPECT_FALSE(data.find_target_outside(0, 5));
  const auto found = data.find_target_outside(0, 3);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->example, 4);
  EXPECT_EQ(found->value, 4);
  DatasetRows rows = six_rows();
  rows.labels.clear();
  rows.target_size = 2;
  rows.values = std::vector<float>(12, 0.5F);
  rows.values[9] = std::numeric_limits<float>::quiet_NaN();
  const auto nan = Dataset::create(rows)->find_target_outside(0, 1);
  ASSERT_TRUE(nan);
  EXPECT_EQ(nan->example, 4);
  EXPECT_EQ(nan->position, 1);
}

TEST(Dataset, SequencesHaveALabelForEachPosition) {
  DatasetRows rows = six_rows();
  rows.target_size = 2;
  rows.labels = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const Dataset data = *Dataset::create(rows);
  EXPECT_EQ(data.size(), 6);
  EXPECT_EQ(data.target_size(), 2);
  const Dataset part = data.subset(std::vector<std::int64_t>{4, 1});
  EXPECT_THAT(part.labels(), ElementsAre(8, 9, 2, 3));
  EXPECT_THAT(part.compacted().labels(), ElementsAre(8, 9, 2, 3));
  std::vector<std::int32_t> labels(2);
  data.copy_labels(std::vector<std::int64_t>{5}, labels);
  EXPECT_THAT(labels, ElementsAre(10, 11));
  std::vector<float> values(2);
  data.copy_values(std::vector<std::int64_t>{3}, values);
  EXPECT_THAT(values, ElementsAre(6, 7));
  const auto found = data.find_target_outside(0, 8);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->example, 4);
  EXPECT_EQ(found->position, 1);
  rows.labels.pop_back();
  EXPECT_FALSE(Dataset::create(rows));
}

DatasetRows every_byte(float divisor) {
  DatasetRows rows;
  rows.shape = {256};
  for (int i = 0; i < 256; ++i) rows.bytes.push_back(static_cast<std::uint8_t>(i));
  rows.byte_divisor = divisor;
  rows.labels = {0};
  return rows;
}

TEST(Dataset, EveryByteIsDividedToTheBit) {
  for (const float divisor : {255.0F, 1.0F, 127.5F, 3.0F}) {
    const std::vector<float> features = features_of(*Dataset::create(every_byte(divisor)));
    for (std::size_t i = 0; i < 256; ++i) {
      EXPECT_EQ(features[i], static_cast<float>(i) / divisor) << i << " / " << divisor;
    }
  }
}

TEST(Dataset, WordsAreWholeNumbers) {
  DatasetRows rows;
  rows.shape = {2};
  rows.words = {0, 65535, 256, 1};
  rows.labels = {0, 1};
  const Dataset data = *Dataset::create(rows);
  EXPECT_THAT(features_of(data), ElementsAre(0, 65535, 256, 1));
  EXPECT_THAT(features_of(data.subset(std::vector<std::int64_t>{1}).compacted()),
              ElementsAre(256, 1));
}

DatasetRows windows(std::int64_t stride) {
  DatasetRows rows;
  rows.shape = {3};
  rows.bytes = {10, 11, 12, 13, 14, 15, 16, 17};
  rows.byte_divisor = 1;
  rows.target_size = 3;
  rows.window_stride = stride;
  return rows;
}

TEST(Dataset, WindowsShareTheirSequenceAndHaveTheNextOneAsLabel) {
  const Dataset data = *Dataset::create(windows(2));
  ASSERT_EQ(data.size(), 3);
  EXPECT_TRUE(data.has_labels());
  EXPECT_THAT(features_of(data), ElementsAre(10, 11, 12, 12, 13, 14, 14, 15, 16));
  EXPECT_THAT(data.labels(), ElementsAre(11, 12, 13, 13, 14, 15, 15, 16, 17));
  EXPECT_THAT(values_of(data), ElementsAre(11, 12, 13, 13, 14, 15, 15, 16, 17));
  const auto found = data.find_target_outside(0, 14);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->example, 1);
  EXPECT_EQ(found->position, 2);
  EXPECT_EQ(found->value, 15);
}

TEST(Dataset, ThereAreAsManyWindowsAsHaveAllTheirBytes) {
  EXPECT_EQ(Dataset::create(windows(1))->size(), 5);
  EXPECT_EQ(Dataset::create(windows(4))->size(), 2);
  EXPECT_EQ(Dataset::create(windows(5))->size(), 1);
  EXPECT_EQ(Dataset::create(windows(1'000'000))->size(), 1);
  DatasetRows rows = windows(1);
  rows.bytes.resize(4);
  EXPECT_EQ(Dataset::create(rows)->size(), 1);
  rows.bytes.resize(3);
  EXPECT_EQ(Dataset::create(rows)->size(), 0);
}

TEST(Dataset, CompactedWindowsAreTheSameWhetherCopiedOrShared) {
  const Dataset data = *Dataset::create(windows(1));
  for (const std::vector<std::int64_t>& some :
       {std::vector<std::int64_t>{4}, std::vector<std::int64_t>{4, 0, 2}}) {
    const Dataset part = data.subset(some);
    const Dataset own = part.compacted();
    EXPECT_EQ(own.size(), part.size());
    EXPECT_EQ(features_of(own), features_of(part));
    EXPECT_EQ(own.labels(), part.labels());
  }
  const Dataset again = *Dataset::create(data.subset(std::vector<std::int64_t>{4, 0}).own_rows());
  EXPECT_THAT(again.labels(), ElementsAre(15, 16, 17, 11, 12, 13));
}

TEST(Dataset, RefusesWindowsWithMoreThanBytes) {
  DatasetRows rows = windows(1);
  rows.labels = {1};
  EXPECT_FALSE(Dataset::create(rows));
  rows = windows(1);
  rows.target_size = 2;
  EXPECT_FALSE(Dataset::create(rows));
  rows = windows(1);
  rows.byte_divisor = 255;
  EXPECT_FALSE(Dataset::create(rows));
  rows = windows(1);
  rows.shape = {3, 1};
  EXPECT_FALSE(Dataset::create(rows));
  EXPECT_FALSE(Dataset::create(windows(-1)));
}

TEST(Dataset, RefusesDivisorsThatAreNoNumbersOverZero) {
  for (const float divisor : {0.0F, -1.0F, std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_FALSE(Dataset::create(every_byte(divisor))) << divisor;
  }
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
  rows.words = {1};
  EXPECT_FALSE(Dataset::create(rows));
  rows = six_rows();
  rows.target_size = 0;
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
