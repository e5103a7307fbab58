#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/train/data/dataset.h"
#include "core/train/data/missing_values.h"

namespace muster {

struct CsvOptions {
  std::string target;  // name of the column with the targets
  // Classes: whole numbers from 0, the labels, or the texts that `classes` names. Values: any
  // numbers, for regression.
  enum class Targets { kClasses, kValues };
  Targets targets = Targets::kClasses;
  // The texts of the target column: the first is label 0, and so on. Empty: it holds the labels.
  std::vector<std::string> classes = {};
  // The columns that are features, in this order. Empty: all but the target, in the file's order.
  std::vector<std::string> features = {};
  // Columns of texts, beside those of `categories`.
  std::vector<std::string> categorical = {};
  // The texts of a column, in the order of their features. The word kAnyOther, as the last, stands
  // for every text that is not among the others.
  std::map<std::string, std::vector<std::string>> categories = {};
  // Allows a column of `categorical` without stated categories: they are those of the file, sorted
  // by their bytes. Two files can so give features of different meaning; only for data that one
  // program alone trains on.
  bool collect_categories = false;
  // What becomes of a missing value: "error"; "mean" or "median" of the column's values in the
  // training part; or a number. A column of texts has no mean and takes no number: it is "error",
  // or a category that missing_of names.
  std::string missing = "error";
  std::map<std::string, std::string> missing_of = {};  // by column, before `missing`
  // Texts that stand for a missing value; the empty field always does.
  std::vector<std::string> missing_words = {};
};

inline constexpr std::string_view kAnyOther = "*";

struct CsvLimits {
  std::uint64_t bytes = std::uint64_t{1} << 30;
  std::size_t columns = 100'000;  // of the file, of the features, and categories of a column
  std::uint64_t features = std::uint64_t{1} << 29;  // of all examples
  std::int32_t largest_label = 1'000'000;
};

// A file as it was read. With fills, the missing values of some features are still NaN.
struct CsvTable {
  Dataset data;
  std::vector<MissingFill> fills;
};

// Reads comma-separated values (csv_records.h) with a header line. A feature is a column of finite
// decimal numbers, or a column of texts that becomes one feature for each category: 1 for the one
// that is there, 0 for the others. An example's shape is [features].
// Errors: kInvalidArgument, reason "bad_csv", with `name`, line, column and why; lines and columns
// count from 1. An unknown category or class is refused with the known ones.
Result<CsvTable> read_csv_table(std::string_view text, const std::string& name,
                                const CsvOptions& options, const CsvLimits& limits = {});

Result<CsvTable> load_csv_table(const std::filesystem::path& path, const CsvOptions& options,
                                const CsvLimits& limits = {});

// The same with missing values filled: means and medians are those of the whole file.
Result<Dataset> parse_csv(std::string_view text, const std::string& name, const CsvOptions& options,
                          const CsvLimits& limits = {});

Result<Dataset> load_csv(const std::filesystem::path& path, const CsvOptions& options,
                         const CsvLimits& limits = {});

// The texts of the columns of categories, stated or, for the others of `categorical`, those of the
// file, sorted by their bytes: what CsvOptions::categories has to be for another file to mean the
// same. Errors: kInvalidArgument, reason "bad_csv".
Result<std::map<std::string, std::vector<std::string>>> load_csv_categories(
    const std::filesystem::path& path, const CsvOptions& options, const CsvLimits& limits = {});

}  // namespace muster
