#include "core/train/data/csv_records.h"

#include <algorithm>
#include <utility>

namespace muster {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

CsvRecords::CsvRecords(std::string_view text, const std::string& name, std::size_t most_columns)
    : text_(text), name_(name), most_columns_(most_columns) {
  // The mark that spreadsheets put before UTF-8.
  if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
}

std::string& CsvRecords::add_field() {
  if (spare_.empty()) return fields_.emplace_back();
  std::string& field = fields_.emplace_back(std::move(spare_.back()));
  spare_.pop_back();
  field.clear();
  return field;
}

Status CsvRecords::next() {
  while (!fields_.empty()) {
    spare_.push_back(std::move(fields_.back()));
    fields_.pop_back();
  }
  line_ = next_line_++;
  while (true) {
    if (fields_.size() == most_columns_) {
      return bad(fields_.size(),
                 "more than the limit of " + std::to_string(most_columns_) + " columns");
    }
    const std::string_view start = without_blanks();
    std::string& to = add_field();
    if (start.starts_with('"')) {
      text_ = start.substr(1);
      MUSTER_TRY_STATUS(read_quoted(to));
    } else {
      const std::size_t end = std::min(text_.find_first_of(",\n"), text_.size());
      std::string_view field = text_.substr(0, end);
      text_.remove_prefix(end);
      if (field.ends_with('\r') && !text_.starts_with(',')) field.remove_suffix(1);
      if (field.find('"') != std::string_view::npos) {
        return bad(fields_.size() - 1, "a quote inside a field without quotes");
      }
      to = trimmed(field);
    }
    if (text_.empty()) return {};
    const char separator = text_.front();
    text_.remove_prefix(1);
    if (separator == '\n') return {};
  }
}

std::string_view CsvRecords::without_blanks() const {
  const std::size_t at = std::min(text_.find_first_not_of(" \t"), text_.size());
  return text_.substr(at);
}

// After the opening quote: up to the closing one and what separates it from the next field.
Status CsvRecords::read_quoted(std::string& field) {
  const std::size_t column = fields_.size() - 1;
  while (true) {
    const std::size_t quote = text_.find('"');
    if (quote == std::string_view::npos) return bad(column, "the quote is not closed");
    field += text_.substr(0, quote);
    text_.remove_prefix(quote + 1);
    if (!text_.starts_with('"')) break;
    field += '"';
    text_.remove_prefix(1);
  }
  next_line_ += static_cast<std::size_t>(std::count(field.begin(), field.end(), '\n'));
  text_ = without_blanks();
  if (text_.starts_with("\r\n")) text_.remove_prefix(1);
  if (text_ == "\r") text_ = {};
  if (!text_.empty() && text_.front() != ',' && text_.front() != '\n') {
    return bad(column, "text after the closing quote");
  }
  return {};
}

Error CsvRecords::bad(std::size_t column, const std::string& reason) const {
  return {ErrorCode::kInvalidArgument,
          name_ + ": line " + std::to_string(line_) + ", column " + std::to_string(column + 1) +
              ": " + reason,
          "bad_csv"};
}

}  // namespace muster
