#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor/safetensors.h"

// Safetensors files made by hand, for the tests of this folder.
namespace muster::files {

inline LayoutPtr layout(std::vector<StateLayout::Entry> entries) {
  return StateLayout::create(std::move(entries)).value();
}

// A file out of its JSON and its data.
inline Bytes file_of(std::string_view json, ByteView data) {
  Bytes file(8);
  store_le64(json.size(), file);
  file.insert(file.end(), as_bytes(json).begin(), as_bytes(json).end());
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

template <typename T>
Bytes file_of(std::string_view json, const std::vector<T>& values) {
  return file_of(json, std::as_bytes(std::span<const T>(values)));
}

inline std::string entry(std::string_view name, std::string_view dtype, std::string_view shape,
                         std::string_view offsets) {
  std::string text = "\"";
  text.append(name).append("\":{\"dtype\":\"").append(dtype).append("\",\"shape\":").append(shape);
  return text.append(",\"data_offsets\":").append(offsets).append("}");
}

template <typename T>
Error error_of(const Result<T>& result) {
  EXPECT_FALSE(result);
  if (result) return {ErrorCode::kInternal, "accepted", "accepted"};
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  return result.error();
}

// {...}
inline std::string braced(std::string_view inside) {
  std::string text = "{";
  return text.append(inside).append("}");
}

}  // namespace muster::files
