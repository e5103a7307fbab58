#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file.h"
#include "core/train/data/dataset.h"

// What the tests of data formats share.
namespace muster {

inline std::vector<std::int64_t> all_positions(const Dataset& data) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(data.size()));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return all;
}

inline std::vector<float> features_of(const Dataset& data) {
  std::vector<float> features(static_cast<std::size_t>(data.size() * data.example_size()));
  if (!features.empty()) data.copy_features(all_positions(data), features);
  return features;
}

inline std::vector<float> values_of(const Dataset& data) {
  std::vector<float> values(static_cast<std::size_t>(data.size() * data.target_size()));
  if (!values.empty()) data.copy_values(all_positions(data), values);
  return values;
}

template <typename T>
std::string error_text(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

// A test with a folder of its own, which is removed after it.
class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "muster-data-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, std::string_view content) {
    EXPECT_TRUE(write_file_durably(folder_ / name, as_bytes(content)));
    return (folder_ / name).string();
  }

  std::filesystem::path folder_;
};

}  // namespace muster
