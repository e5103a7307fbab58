#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "core/train/data/csv.h"
#include "core/train/data/csv_records.h"

namespace muster {

// A closed list of texts with their places.
class CsvTexts {
 public:
  CsvTexts() = default;
  // A last kAnyOther takes what is not in the list. `what` and the name are for errors.
  static Result<CsvTexts> create(const std::vector<std::string>& texts, const std::string& what);

  std::optional<std::size_t> find(const std::string& text) const;
  std::size_t size() const { return texts_.size(); }
  const std::vector<std::string>& all() const { return texts_; }
  // "red, green, blue", shortened when there are many.
  std::string listed() const;

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::size_t> places_;
  bool any_other_ = false;
};

// One column of the file that gives features.
struct CsvColumn {
  std::size_t index = 0;  // in a record
  std::string name;
  std::size_t feature = 0;             // its first place in an example
  std::optional<CsvTexts> texts = {};  // with them, one place for each; without, one number
  enum class Missing { kError, kLater, kNumber };
  Missing missing = Missing::kError;
  float fill = 0;  // kNumber: the number, or the place among the texts
};

// What to do with each field of a record.
struct CsvColumns {
  std::size_t count = 0;   // columns of the file
  std::size_t target = 0;  // index
  std::vector<CsvColumn> features;
  std::size_t width = 0;  // features of an example
  std::vector<MissingFill> fills;
};

// Finds the columns that the options name in the header, which `records` has just read. The
// categories of columns without stated ones are collected from `text`, the whole file.
// Errors: kInvalidArgument, reason "bad_csv".
Result<CsvColumns> find_csv_columns(const CsvRecords& records, std::string_view text,
                                    const std::string& name, const CsvOptions& options,
                                    const CsvLimits& limits);

// The empty field, or one of the options' words.
bool is_missing(const std::string& field, const CsvOptions& options);

}  // namespace muster
