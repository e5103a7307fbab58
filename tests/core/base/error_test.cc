#include "core/base/error.h"

#include <gtest/gtest.h>

#include <memory>

namespace muster {
namespace {

Error failure() {
  return {ErrorCode::kNotFound, "no such model", "unknown_model"};
}

Result<int> half(int value) {
  if (value % 2 != 0) return failure();
  return value / 2;
}

Result<int> quarter(int value) {
  MUSTER_TRY(const int once, half(value));
  MUSTER_TRY_IN("second half", const int twice, half(once));
  return twice;
}

Status only_even(int value) {
  MUSTER_TRY_STATUS(half(value));
  return {};
}

Result<std::unique_ptr<int>> boxed(int value) {
  MUSTER_TRY(const int found, half(value));
  return std::make_unique<int>(found);
}

TEST(Result, CarriesTheValueThroughTry) {
  EXPECT_EQ(quarter(8).value(), 2);
}

TEST(Result, CarriesTheErrorThroughTry) {
  const auto result = quarter(3);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(result.error().message, "no such model");
  EXPECT_EQ(result.error().reason, "unknown_model");
}

TEST(Result, GainsContextAndKeepsCodeAndReason) {
  const auto result = quarter(2);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "second half: no such model");
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(result.error().reason, "unknown_model");
}

TEST(Result, CarriesWhatCanOnlyBeMoved) {
  EXPECT_EQ(**boxed(4), 2);
  EXPECT_FALSE(boxed(5));
}

TEST(Status, IsGoodByDefaultAndCarriesErrors) {
  EXPECT_TRUE(Status());
  EXPECT_TRUE(only_even(2));
  EXPECT_EQ(only_even(3).error().reason, "unknown_model");
}

TEST(ErrorCode, HasAWordForEach) {
  EXPECT_EQ(to_string(ErrorCode::kInvalidArgument), "invalid_argument");
  EXPECT_EQ(to_string(ErrorCode::kDataLoss), "data_loss");
  EXPECT_EQ(to_string(ErrorCode::kInternal), "internal");
}

}  // namespace
}  // namespace muster
