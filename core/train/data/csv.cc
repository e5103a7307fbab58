#include "core/train/data/csv.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/train/data/csv_columns.h"
#include "core/train/data/csv_number.h"
#include "core/train/data/csv_records.h"

namespace muster {
namespace {

Error empty_file(const std::string& name) {
  return {ErrorCode::kInvalidArgument,
          name + ": line 1: the file is empty; a header with the columns' names is wanted",
          "bad_csv"};
}

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& name, const CsvOptions& options,
            const CsvLimits& limits)
      : text_(text),
        name_(name),
        options_(options),
        limits_(limits),
        records_(text, name, limits.columns) {}

  Result<CsvTable> read() {
    if (records_.at_end()) return empty_file(name_);
    MUSTER_TRY_STATUS(records_.next());
    MUSTER_TRY(columns_, find_csv_columns(records_, text_, name_, options_, limits_));
    MUSTER_TRY_STATUS(read_classes());
    while (!records_.at_end()) {
      MUSTER_TRY_STATUS(records_.next());
      const std::size_t found = records_.fields().size();
      const bool blank = found == 1 && records_.fields()[0].empty();
      if (blank && records_.at_end()) break;
      if (found != columns_.count) {
        return records_.bad(
            std::min(found, columns_.count),
            fmt::format("{} fields found, the header has {}", found, columns_.count));
      }
      MUSTER_TRY_STATUS(add_example());
    }
    if (rows_.floats.empty()) {
      return Error{ErrorCode::kInvalidArgument, name_ + ": line 2: there are no examples",
                   "bad_csv"};
    }
    rows_.shape = {static_cast<std::int64_t>(columns_.width)};
    CsvTable table;
    for (std::size_t i = 0; i < columns_.fills.size(); ++i) {
      if (to_fill_[i]) table.fills.push_back(columns_.fills[i]);
    }
    MUSTER_TRY(table.data, Dataset::create(std::move(rows_)));
    return table;
  }

 private:
  Status read_classes() {
    to_fill_.assign(columns_.fills.size(), false);
    if (options_.classes.empty()) return {};
    if (options_.targets != CsvOptions::Targets::kClasses) {
      return Error{ErrorCode::kInvalidArgument,
                   name_ + ": classes are stated, but the targets are values", "bad_csv"};
    }
    MUSTER_TRY_IN(name_, classes_, CsvTexts::create(options_.classes, "classes"));
    return {};
  }

  Status add_example() {
    const std::vector<std::string>& fields = records_.fields();
    const std::string& target = fields[columns_.target];
    if (is_missing(target, options_)) {
      return records_.bad(columns_.target, "the target is missing");
    }
    if (options_.targets == CsvOptions::Targets::kClasses) {
      MUSTER_TRY(const std::int32_t label, label_of(target));
      rows_.labels.push_back(label);
    } else {
      MUSTER_TRY(const float value, number_of(target, columns_.target));
      rows_.values.push_back(value);
    }
    if (rows_.floats.size() + columns_.width > limits_.features) {
      return records_.bad(
          0, fmt::format("with this example there are over {} features in all", limits_.features));
    }
    std::size_t fill = 0;
    for (const CsvColumn& column : columns_.features) {
      const bool later = column.missing == CsvColumn::Missing::kLater;
      MUSTER_TRY(const bool filled, add_features(column, fields[column.index]));
      if (later && filled) to_fill_[fill] = true;
      if (later) ++fill;
    }
    return {};
  }

  // True when the value was missing.
  Result<bool> add_features(const CsvColumn& column, const std::string& field) {
    const bool missing = is_missing(field, options_);
    if (missing && column.missing == CsvColumn::Missing::kError) {
      return records_.bad(
          column.index,
          fmt::format("the value of \"{0}\" is missing; missing.{0}={1} would fill it",
                      printable(column.name),
                      column.texts ? "CATEGORY" : "mean (or median, or a number)"));
    }
    if (!column.texts) {
      float value = column.fill;
      if (!missing) {
        MUSTER_TRY(value, number_of(field, column.index));
      } else if (column.missing == CsvColumn::Missing::kLater) {
        value = std::numeric_limits<float>::quiet_NaN();
      }
      rows_.floats.push_back(value);
      return missing;
    }
    const std::optional<std::size_t> place =
        missing ? static_cast<std::size_t>(column.fill) : column.texts->find(field);
    if (!place) {
      return records_.bad(column.index, fmt::format("\"{}\" is no category of \"{}\", known are {}",
                                                    printable(field, 40), printable(column.name),
                                                    column.texts->listed()));
    }
    rows_.floats.resize(rows_.floats.size() + column.texts->size(), 0.0F);
    rows_.floats[rows_.floats.size() - column.texts->size() + *place] = 1.0F;
    return missing;
  }

  Result<float> number_of(const std::string& field, std::size_t column) const {
    if (const std::optional<float> value = csv_number(field)) return *value;
    return records_.bad(column, fmt::format("\"{}\" is no finite number", printable(field, 40)));
  }

  Result<std::int32_t> label_of(const std::string& field) const {
    if (classes_) {
      if (const auto place = classes_->find(field)) return static_cast<std::int32_t>(*place);
      return records_.bad(columns_.target, fmt::format("\"{}\" is no class, known are {}",
                                                       printable(field, 40), classes_->listed()));
    }
    std::int32_t value = -1;
    const std::string_view digits = without_plus(field);
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (code != std::errc() || end != digits.data() + digits.size() || value < 0 ||
        value > limits_.largest_label) {
      return records_.bad(
          columns_.target,
          fmt::format("\"{}\" is no class label, a whole number from 0 to {} is wanted (texts want "
                      "their classes stated)",
                      printable(field, 40), limits_.largest_label));
    }
    return value;
  }

  std::string_view text_;
  const std::string& name_;
  const CsvOptions& options_;
  const CsvLimits& limits_;
  CsvRecords records_;
  CsvColumns columns_;
  std::optional<CsvTexts> classes_;
  std::vector<bool> to_fill_;  // which of the columns' fills have something to do
  DatasetRows rows_;
};

Result<Dataset> filled(Result<CsvTable> table, const std::string& name) {
  if (!table) return std::move(table).error();
  MUSTER_TRY(LocalData data,
             fill_missing({.train = std::move(table->data), .holdout = {}}, table->fills, name));
  return std::move(data.train);
}

}  // namespace

Result<CsvTable> read_csv_table(std::string_view text, const std::string& name,
                                const CsvOptions& options, const CsvLimits& limits) {
  return CsvReader(text, name, options, limits).read();
}

Result<CsvTable> load_csv_table(const std::filesystem::path& path, const CsvOptions& options,
                                const CsvLimits& limits) {
  MUSTER_TRY(const std::string text, read_file(path, limits.bytes));
  return read_csv_table(text, path.string(), options, limits);
}

Result<std::map<std::string, std::vector<std::string>>> load_csv_categories(
    const std::filesystem::path& path, const CsvOptions& options, const CsvLimits& limits) {
  MUSTER_TRY(const std::string text, read_file(path, limits.bytes));
  const std::string name = path.string();
  CsvOptions collecting = options;
  collecting.collect_categories = true;
  CsvRecords records(text, name, limits.columns);
  if (records.at_end()) return empty_file(name);
  MUSTER_TRY_STATUS(records.next());
  MUSTER_TRY(const CsvColumns columns, find_csv_columns(records, text, name, collecting, limits));
  std::map<std::string, std::vector<std::string>> categories;
  for (const CsvColumn& column : columns.features) {
    if (column.texts) categories[column.name] = column.texts->all();
  }
  return categories;
}

Result<Dataset> parse_csv(std::string_view text, const std::string& name, const CsvOptions& options,
                          const CsvLimits& limits) {
  return filled(read_csv_table(text, name, options, limits), name);
}

Result<Dataset> load_csv(const std::filesystem::path& path, const CsvOptions& options,
                         const CsvLimits& limits) {
  return filled(load_csv_table(path, options, limits), path.string());
}

}  // namespace muster
