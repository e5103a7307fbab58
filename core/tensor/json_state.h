#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/tensor/state.h"

// States that are JSON rather than tensors: a scaler's means, k-means centres, counts. They travel,
// are checked and are stored as a StateDict like any model's (docs/formats/json-state.md):
//
//   tensor "numbers" [n, 3]   a row for each of the n numbers in document order, the members of an
//                             object in byte order of their keys; the row is the double's 64 bits
//                             as three whole numbers: the upper 22, the middle 21, the lower 21
//
// Each of these is a float32 exactly, so every finite double survives, and equal doubles have equal
// words. What is no number stays out of it: it is the same in all states of a job, and stands in
// the job's model.
namespace muster {

inline constexpr std::string_view kNumbersName = "numbers";
inline constexpr std::int64_t kNumberWords = 3;
// Of nesting below the root: a task's message (16 levels) has room for this and no more.
inline constexpr int kMostJsonLevels = 12;

using NumberWords = std::array<float, kNumberWords>;

NumberWords words_of(double number);
// The double, which may be NaN or infinite. None when the three floats are not the words of any: a
// sign (-0.0 too), a fraction, out of range, NaN.
std::optional<double> number_of(const float* words);

// Whether a layout is that of JSON states.
bool is_json_layout(const StateLayout& layout);

// That all rows are finite doubles.
//   words  whole rows
//   first  the index of the first of them, for messages
// Errors: kInvalidArgument naming the number's index; reason "bad_number" (words of no double) or
// "non_finite".
Status check_numbers(std::span<const float> words, std::int64_t first = 0);

// The structure that all states of one job share, and the way between JSON and StateDict. Made of
// any one of these states; a value; any thread may read it.
class JsonTemplate {
 public:
  // Errors: kInvalidArgument naming the place as a JSON pointer (RFC 6901): reason "non_finite",
  // "inexact" (an integer beyond 2^53, which a double need not hold), "too_deep"; "bad_layout":
  // more than 2^48 words.
  static Result<JsonTemplate> create(Json state);

  const Json& json() const { return json_; }
  const LayoutPtr& layout() const { return layout_; }
  std::int64_t num_numbers() const { return layout_->num_elements() / kNumberWords; }

  // Objects need equal keys and arrays equal lengths; texts, booleans and nulls equal values.
  // Errors: kInvalidArgument naming the place as a JSON pointer: those of `create`, and
  // "missing_key", "extra_key", "length_mismatch", "type_mismatch", "value_mismatch" (what is no
  // number and differs).
  Result<StateDict> pack(const Json& state) const;

  // A number that is an integer in the template is one again where it is whole and within 2^53
  // (-0.0 stays a double); others are doubles.
  // Errors: kInvalidArgument: as check_same_layout; "bad_number" and "non_finite" naming the place.
  Result<Json> unpack(const StateDict& state) const;

 private:
  JsonTemplate(Json json, LayoutPtr layout) : json_(std::move(json)), layout_(std::move(layout)) {}

  Json json_;
  LayoutPtr layout_;
};

}  // namespace muster
