#include "core/train/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/file.h"

namespace muster {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& name, const CsvLimits& limits)
      : text_(text), name_(name), limits_(limits) {
    // The mark that spreadsheets put before UTF-8.
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  }

  Result<Dataset> read(const CsvOptions& options) {
    MUSTER_TRY_STATUS(read_header(options.target));
    DatasetRows rows;
    const bool classes = options.targets == CsvOptions::Targets::kClasses;
    while (!text_.empty()) {
      ++line_;
      MUSTER_TRY_STATUS(read_record());
      const bool blank = fields_.size() == 1 && fields_[0].empty();
      if (blank && text_.empty()) break;
      if (fields_.size() != names_.size()) {
        return bad(std::min(fields_.size(), names_.size()) + 1,
                   std::to_string(fields_.size()) + " fields found, the header has " +
                       std::to_string(names_.size()));
      }
      for (std::size_t i = 0; i < fields_.size(); ++i) {
        if (i == target_ && classes) {
          MUSTER_TRY(const std::int32_t label, label_at(i));
          rows.labels.push_back(label);
        } else {
          MUSTER_TRY(const float value, number_at(i));
          (i == target_ ? rows.values : rows.floats).push_back(value);
        }
      }
      line_ += lines_inside_;
    }
    if (rows.floats.empty()) {
      return Error{ErrorCode::kInvalidArgument, name_ + ": line 2: there are no examples",
                   "bad_csv"};
    }
    rows.shape = {static_cast<std::int64_t>(names_.size()) - 1};
    return Dataset::create(std::move(rows));
  }

 private:
  Status read_header(const std::string& target) {
    line_ = 1;
    MUSTER_TRY_STATUS(read_record());
    names_ = fields_;
    line_ += lines_inside_;
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!seen.insert(names_[i]).second) {
        return bad(i + 1, "the column name \"" + printable(names_[i]) + "\" is there twice");
      }
    }
    const auto found = std::find(names_.begin(), names_.end(), target);
    if (found == names_.end()) {
      std::string known;
      for (std::size_t i = 0; i < std::min<std::size_t>(names_.size(), 20); ++i) {
        known += (known.empty() ? "" : ", ") + printable(names_[i], 40);
      }
      return Error{ErrorCode::kInvalidArgument,
                   name_ + ": line 1: no column \"" + printable(target) + "\", known are " + known,
                   "bad_csv"};
    }
    target_ = static_cast<std::size_t>(found - names_.begin());
    if (names_.size() < 2) return bad(1, "there is no column beside the target");
    return {};
  }

  // Splits the next record off the text into fields_.
  Status read_record() {
    fields_.clear();
    lines_inside_ = 0;
    while (true) {
      if (fields_.size() == limits_.columns) {
        return bad(fields_.size() + 1,
                   "more than the limit of " + std::to_string(limits_.columns) + " columns");
      }
      const std::string_view start = trimmed_front();
      if (!start.empty() && start.front() == '"') {
        text_ = start.substr(1);
        MUSTER_TRY_STATUS(read_quoted());
      } else {
        const std::size_t end = std::min(text_.find_first_of(",\n"), text_.size());
        std::string_view field = text_.substr(0, end);
        text_.remove_prefix(end);
        if (field.ends_with('\r') && !text_.starts_with(',')) field.remove_suffix(1);
        if (field.find('"') != std::string_view::npos) {
          return bad(fields_.size() + 1, "a quote inside a field without quotes");
        }
        fields_.emplace_back(trimmed(field));
      }
      if (text_.empty()) return {};
      const char separator = text_.front();
      text_.remove_prefix(1);
      if (separator == '\n') return {};
    }
  }

  std::string_view trimmed_front() const {
    const std::size_t at = std::min(text_.find_first_not_of(" \t"), text_.size());
    return text_.substr(at);
  }

  // After the opening quote: up to the closing one and what separates it from the next field.
  Status read_quoted() {
    const std::size_t column = fields_.size() + 1;
    std::string field;
    while (true) {
      const std::size_t quote = text_.find('"');
      if (quote == std::string_view::npos) return bad(column, "the quote is not closed");
      field += text_.substr(0, quote);
      text_.remove_prefix(quote + 1);
      if (!text_.starts_with('"')) break;
      field += '"';
      text_.remove_prefix(1);
    }
    lines_inside_ += static_cast<std::size_t>(std::count(field.begin(), field.end(), '\n'));
    fields_.push_back(std::move(field));
    text_ = trimmed_front();
    if (text_.starts_with("\r\n")) text_.remove_prefix(1);
    if (text_ == "\r") text_ = {};
    if (!text_.empty() && text_.front() != ',' && text_.front() != '\n') {
      return bad(column, "text after the closing quote");
    }
    return {};
  }

  Result<float> number_at(std::size_t i) const {
    const std::string& field = fields_[i];
    float value = 0;
    const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (field.empty()) return bad(i + 1, "the field is empty, a number is wanted");
    if (code != std::errc() || end != field.data() + field.size() || !std::isfinite(value)) {
      return bad(i + 1, fmt::format("\"{}\" is no finite number", printable(field, 40)));
    }
    return value;
  }

  Result<std::int32_t> label_at(std::size_t i) const {
    const std::string& field = fields_[i];
    std::int32_t value = -1;
    const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (code != std::errc() || end != field.data() + field.size() || value < 0 ||
        value > limits_.largest_label) {
      return bad(i + 1,
                 fmt::format("\"{}\" is no class label, a whole number from 0 to {} is wanted",
                             printable(field, 40), limits_.largest_label));
    }
    return value;
  }

  Error bad(std::size_t column, const std::string& reason) const {
    return {ErrorCode::kInvalidArgument,
            name_ + ": line " + std::to_string(line_) + ", column " + std::to_string(column) +
                ": " + reason,
            "bad_csv"};
  }

  std::string_view text_;
  const std::string& name_;
  const CsvLimits& limits_;
  std::size_t line_ = 0;
  std::size_t lines_inside_ = 0;  // line ends within quotes of the record
  std::vector<std::string> fields_;
  std::vector<std::string> names_;
  std::size_t target_ = 0;
};

}  // namespace

Result<Dataset> parse_csv(std::string_view text, const std::string& name, const CsvOptions& options,
                          const CsvLimits& limits) {
  return CsvReader(text, name, limits).read(options);
}

Result<Dataset> load_csv(const std::filesystem::path& path, const CsvOptions& options,
                         const CsvLimits& limits) {
  MUSTER_TRY(const std::string text, read_file(path, limits.bytes));
  return parse_csv(text, path.string(), options, limits);
}

}  // namespace muster
