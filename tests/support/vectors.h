#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/tensor/state.h"

// Reference vectors for tests: tests/vectors/*.json, one file a subject, each with `rules`,
// `tolerance` and `cases`.
//
//   for (const Json& test : vectors::load("fedavg_mean.json").at("cases")) {
//     SCOPED_TRACE(test.at("name").get<std::string>());
//     auto x = vectors::floats(test.at("x"));           // float32 values, row-major
//     Shape shape = vectors::shape(test.at("x"));
//     vectors::expect_close(got, vectors::doubles(test.at("expected")), vectors::tolerance(file,
//     test));
//   }
//
// A tensor is {"shape", "data"}, {"shape", "ints"}, {"shape", "f32le_base64"} or {"shape", "lcg":
// {"seed", "scale_exp"}}. In data, "nan", "inf" and "-inf" are texts. A plain array of numbers,
// nested or not, or one number is taken as data too. A malformed vector throws, which fails the
// test that reads it.
namespace muster::vectors {

inline Json load(std::string_view file) {
  const std::filesystem::path path = std::filesystem::path(MUSTER_TEST_VECTORS) / file;
  const Result<std::string> text = read_file(path, 4 << 20);
  if (!text) throw std::runtime_error(text.error().message);
  Result<Json> json = parse_json(*text, {.bytes = 4 << 20, .depth = 64});
  if (!json) throw std::runtime_error(path.string() + ": " + json.error().message);
  return *std::move(json);
}

inline double number(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  const auto& text = value.get_ref<const std::string&>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw std::runtime_error("not a number: " + text);
}

// Appends the numbers of an array of any depth, in order.
inline void append_numbers(const Json& value, std::vector<double>& out) {
  if (!value.is_array()) {
    out.push_back(number(value));
    return;
  }
  for (const Json& item : value) append_numbers(item, out);
}

// The shape of a tensor; for a plain (nested) array that of the nesting, for a number [].
inline Shape shape(const Json& tensor) {
  if (tensor.is_object()) return tensor.at("shape").get<Shape>();
  Shape dimensions;
  for (const Json* at = &tensor; at->is_array(); at = &at->front()) {
    dimensions.push_back(static_cast<std::int64_t>(at->size()));
    if (at->empty()) break;
  }
  return dimensions;
}

inline std::size_t size_of(const Json& tensor) {
  std::size_t count = 1;
  for (const std::int64_t dimension : shape(tensor)) count *= static_cast<std::size_t>(dimension);
  return count;
}

// x <- (1664525 x + 1013904223) mod 2^32; the value is ((x >> 8) / 2^24 - 0.5) * 2^scale_exp, exact
// in float32.
inline std::vector<double> generated(const Json& lcg, std::size_t count) {
  auto x = lcg.at("seed").get<std::uint32_t>();
  const int scale_exp = lcg.at("scale_exp").get<int>();
  std::vector<double> values(count);
  for (double& value : values) {
    x = 1664525U * x + 1013904223U;
    value = std::ldexp(static_cast<double>(x >> 8) / 16777216.0 - 0.5, scale_exp);
  }
  return values;
}

inline std::vector<double> decoded(std::string_view base64) {
  const Result<Bytes> bytes = base64_decode(base64);
  if (!bytes) throw std::runtime_error(bytes.error().message);
  std::vector<float> values(bytes->size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes->data(), values.size() * sizeof(float));
  return {values.begin(), values.end()};
}

inline std::vector<double> doubles(const Json& tensor) {
  std::vector<double> values;
  if (!tensor.is_object()) {
    append_numbers(tensor, values);
    return values;
  }
  if (tensor.contains("lcg")) {
    values = generated(tensor.at("lcg"), size_of(tensor));
  } else if (tensor.contains("f32le_base64")) {
    values = decoded(tensor.at("f32le_base64").get<std::string>());
  } else {
    append_numbers(tensor.at(tensor.contains("ints") ? "ints" : "data"), values);
  }
  if (values.size() != size_of(tensor)) throw std::runtime_error("data does not fill the shape");
  return values;
}

// Inputs are float32: read as a double and rounded.
inline std::vector<float> floats(const Json& tensor) {
  std::vector<float> values;
  for (const double value : doubles(tensor)) values.push_back(static_cast<float>(value));
  return values;
}

inline std::vector<std::int64_t> integers(const Json& tensor) {
  const Json& list = tensor.is_object() ? tensor.at("ints") : tensor;
  return list.get<std::vector<std::int64_t>>();
}

// A state {"name": tensor, ...} in a layout of its own.
inline StateDict state(const Json& tensors) {
  std::vector<StateLayout::Entry> entries;
  for (const auto& [name, tensor] : tensors.items()) entries.push_back({name, shape(tensor)});
  Result<LayoutPtr> layout = StateLayout::create(std::move(entries));
  if (!layout) throw std::runtime_error(layout.error().message);
  StateDict result(*layout);
  for (const auto& [name, tensor] : tensors.items()) {
    const std::vector<float> values = floats(tensor);
    std::copy(values.begin(), values.end(), result.tensor(name).begin());
  }
  return result;
}

struct Tolerance {
  double rtol = 0;
  double atol = 0;
};

inline Tolerance tolerance(const Json& entry) {
  return {entry.at("rtol").get<double>(), entry.at("atol").get<double>()};
}

// The case's own tolerance, else the file's.
inline Tolerance tolerance(const Json& file, const Json& test) {
  return tolerance(test.contains("tolerance") ? test.at("tolerance") : file.at("tolerance"));
}

// |got - want| <= atol + rtol |want|; infinities and NaN only equal themselves. `got` and `want`
// are ranges of numbers.
template <typename Got, typename Want>
void expect_close(const Got& got, const Want& want, double rtol, double atol) {
  ASSERT_EQ(std::size(got), std::size(want));
  std::size_t reported = 0;
  for (std::size_t i = 0; i < std::size(want) && reported < 5; ++i) {
    const auto g = static_cast<double>(got[i]);
    const auto w = static_cast<double>(want[i]);
    const bool same = g == w || (std::isnan(g) && std::isnan(w));
    if (same || (std::isfinite(w) && std::abs(g - w) <= atol + rtol * std::abs(w))) continue;
    ADD_FAILURE() << "element " << i << ": got " << ::testing::PrintToString(g) << ", want "
                  << ::testing::PrintToString(w) << ", off by " << g - w << " (rtol " << rtol
                  << ", atol " << atol << ")";
    ++reported;
  }
}

template <typename Got, typename Want>
void expect_close(const Got& got, const Want& want, const Tolerance& allowed) {
  expect_close(got, want, allowed.rtol, allowed.atol);
}

}  // namespace muster::vectors
