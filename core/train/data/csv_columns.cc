#include "core/train/data/csv_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/bytes.h"
#include "core/train/data/csv_number.h"

namespace muster {
namespace {

constexpr std::size_t kMostListed = 20;

template <typename Texts>
std::string joined(const Texts& texts, std::string_view separator, std::size_t most) {
  std::string list;
  std::size_t count = 0;
  for (const std::string& text : texts) {
    if (count == most) return list + std::string(separator) + "...";
    list += (count == 0 ? "" : std::string(separator)) + printable(text, 40);
    ++count;
  }
  return list;
}

// Reads the header and the options into columns, in steps that each need the one before.
class ColumnFinder {
 public:
  ColumnFinder(const CsvRecords& records, std::string_view text, const std::string& name,
               const CsvOptions& options, const CsvLimits& limits)
      : records_(records), text_(text), name_(name), options_(options), limits_(limits) {}

  Result<CsvColumns> find() {
    MUSTER_TRY_STATUS(read_names());
    MUSTER_TRY(columns_.target, index_of(options_.target));
    MUSTER_TRY_STATUS(choose_features());
    MUSTER_TRY_STATUS(choose_categories());
    for (CsvColumn& column : columns_.features) {
      MUSTER_TRY_STATUS(set_missing(column));
      column.feature = columns_.width;
      columns_.width += column.texts ? column.texts->size() : 1;
      if (columns_.width > limits_.columns) {
        return records_.bad(column.index,
                            fmt::format("with \"{}\" there are {} features, over the limit of {}",
                                        printable(column.name), columns_.width, limits_.columns));
      }
      if (column.missing != CsvColumn::Missing::kLater) continue;
      columns_.fills.push_back({static_cast<std::int64_t>(column.feature), column.name,
                                missing_text(column) == "median" ? MissingFill::With::kMedian
                                                                 : MissingFill::With::kMean});
    }
    return std::move(columns_);
  }

 private:
  Status read_names() {
    names_ = records_.fields();
    if (names_.size() == 1 && names_[0].empty()) {
      return bad_header("empty; a header with the columns' names is wanted");
    }
    columns_.count = names_.size();
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!by_name_.emplace(names_[i], i).second) {
        return records_.bad(i, "the column name \"" + printable(names_[i]) + "\" is there twice");
      }
    }
    return {};
  }

  Error bad_header(const std::string& reason) const {
    return {ErrorCode::kInvalidArgument, name_ + ": line 1: " + reason, "bad_csv"};
  }

  Result<std::size_t> index_of(const std::string& column) const {
    const auto found = by_name_.find(column);
    if (found != by_name_.end()) return found->second;
    return bad_header("no column \"" + printable(column) + "\", known are " +
                      joined(names_, ", ", kMostListed));
  }

  Status choose_features() {
    std::vector<std::string> chosen = options_.features;
    if (chosen.empty()) {
      if (names_.size() < 2) return records_.bad(0, "there is no column beside the target");
      chosen = names_;
      chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(columns_.target));
    }
    for (const std::string& each : chosen) {
      MUSTER_TRY(const std::size_t index, index_of(each));
      if (index == columns_.target) {
        return bad_header("the column \"" + printable(each) +
                          "\" is the target, and can be no feature");
      }
      if (!places_.emplace(each, columns_.features.size()).second) {
        return bad_header("the feature \"" + printable(each) + "\" is named twice");
      }
      columns_.features.push_back({.index = index, .name = each});
    }
    for (const auto& [column, fill] : options_.missing_of) {
      MUSTER_TRY_STATUS(feature_of(column));
    }
    return {};
  }

  // The place of a feature's column among the features.
  Result<std::size_t> feature_of(const std::string& column) const {
    MUSTER_TRY(const std::size_t index, index_of(column));
    const auto found = places_.find(column);
    if (found != places_.end()) return found->second;
    return bad_header("the column \"" + printable(column) + "\" is " +
                      (index == columns_.target ? "the target" : "not among the chosen features") +
                      ", so it has no categories and no value for missing ones");
  }

  Status choose_categories() {
    std::vector<std::size_t> unstated;
    for (const std::string& column : options_.categorical) {
      MUSTER_TRY(const std::size_t place, feature_of(column));
      if (!options_.categories.contains(column)) unstated.push_back(place);
    }
    for (const auto& [column, texts] : options_.categories) {
      MUSTER_TRY(const std::size_t place, feature_of(column));
      MUSTER_TRY(columns_.features[place].texts,
                 CsvTexts::create(texts, "categories of \"" + printable(column) + "\""));
    }
    return unstated.empty() ? Status() : collect(unstated);
  }

  Status collect(const std::vector<std::size_t>& places) {
    std::map<std::size_t, std::set<std::string>> found;
    for (const std::size_t place : places) found[place];
    CsvRecords records(text_, name_, limits_.columns);
    MUSTER_TRY_STATUS(records.next());
    while (!records.at_end()) {
      MUSTER_TRY_STATUS(records.next());
      for (auto& [place, texts] : found) {
        const std::size_t index = columns_.features[place].index;
        // A record that is too short is refused when it is read for good.
        if (index >= records.fields().size()) continue;
        const std::string& field = records.fields()[index];
        if (!is_missing(field, options_)) texts.insert(field);
        if (texts.size() > limits_.columns) {
          return records.bad(index,
                             fmt::format("more than the limit of {} categories", limits_.columns));
        }
      }
    }
    for (const auto& [place, texts] : found) {
      CsvColumn& column = columns_.features[place];
      if (!options_.collect_categories) {
        return bad_header(fmt::format(
            "the categories of \"{0}\" must be stated, so that they mean the same on every device: "
            "categories.{0}={1} are those of this file",
            printable(column.name), joined(texts, "|", kMostListed)));
      }
      if (texts.empty()) {
        return bad_header("the column \"" + printable(column.name) + "\" has no category");
      }
      MUSTER_TRY(column.texts,
                 CsvTexts::create({texts.begin(), texts.end()},
                                  "categories of \"" + printable(column.name) + "\""));
    }
    return {};
  }

  const std::string& missing_text(const CsvColumn& column) const {
    const auto own = options_.missing_of.find(column.name);
    return own == options_.missing_of.end() ? options_.missing : own->second;
  }

  Status set_missing(CsvColumn& column) const {
    const std::string& text = missing_text(column);
    if (text == "error") return {};
    if (column.texts) {
      if (!options_.missing_of.contains(column.name)) return {};
      const auto place = column.texts->find(text);
      if (!place) {
        return bad_header(
            fmt::format("missing.{0}={1} found, \"error\" or a category of \"{0}\" is "
                        "wanted: {2}",
                        printable(column.name), printable(text, 40), column.texts->listed()));
      }
      column.missing = CsvColumn::Missing::kNumber;
      column.fill = static_cast<float>(*place);
      return {};
    }
    if (text == "mean" || text == "median") {
      column.missing = CsvColumn::Missing::kLater;
      return {};
    }
    const std::optional<float> number = csv_number(text);
    if (!number) {
      return bad_header(fmt::format(
          "missing values of \"{}\" become \"{}\", \"error\", \"mean\", \"median\" or a number is "
          "wanted",
          printable(column.name), printable(text, 40)));
    }
    column.missing = CsvColumn::Missing::kNumber;
    column.fill = *number;
    return {};
  }

  const CsvRecords& records_;
  std::string_view text_;
  const std::string& name_;
  const CsvOptions& options_;
  const CsvLimits& limits_;
  std::vector<std::string> names_;
  std::map<std::string, std::size_t> by_name_;
  std::map<std::string, std::size_t> places_;  // of features, by name
  CsvColumns columns_;
};

}  // namespace

Result<CsvTexts> CsvTexts::create(const std::vector<std::string>& texts, const std::string& what) {
  const auto bad = [&](const std::string& reason) {
    return Error{ErrorCode::kInvalidArgument, what + ": " + reason, "bad_csv"};
  };
  CsvTexts result;
  result.texts_ = texts;
  result.any_other_ = !texts.empty() && texts.back() == kAnyOther;
  if (texts.empty()) return bad("at least one is wanted");
  for (std::size_t i = 0; i < result.texts_.size(); ++i) {
    const std::string& text = result.texts_[i];
    if (text.empty()) return bad("an empty text stands for a missing value, and can be none");
    if (!result.places_.emplace(text, i).second) {
      return bad("\"" + printable(text, 40) + "\" is there twice");
    }
  }
  return result;
}

std::optional<std::size_t> CsvTexts::find(const std::string& text) const {
  const auto found = places_.find(text);
  if (found != places_.end()) return found->second;
  if (any_other_) return texts_.size() - 1;
  return std::nullopt;
}

std::string CsvTexts::listed() const {
  return joined(texts_, ", ", kMostListed);
}

Result<CsvColumns> find_csv_columns(const CsvRecords& records, std::string_view text,
                                    const std::string& name, const CsvOptions& options,
                                    const CsvLimits& limits) {
  return ColumnFinder(records, text, name, options, limits).find();
}

bool is_missing(const std::string& field, const CsvOptions& options) {
  return field.empty() || std::find(options.missing_words.begin(), options.missing_words.end(),
                                    field) != options.missing_words.end();
}

}  // namespace muster
