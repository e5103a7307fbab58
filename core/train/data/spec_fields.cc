#include "core/train/data/spec_fields.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/bytes.h"

namespace muster {

Error bad_data_spec(const std::string& message) {
  return {ErrorCode::kInvalidArgument, "data spec: " + message, "bad_data_spec"};
}

std::string joined_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

Result<SpecFields> SpecFields::split(std::string_view text) {
  SpecFields fields;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return bad_data_spec(fmt::format("\"{}\" is not of the form field=value", printable(item)));
    }
    const std::string key(item.substr(0, equals));
    if (!fields.values_.emplace(key, item.substr(equals + 1)).second) {
      return bad_data_spec("the field " + printable(key) + " is there twice");
    }
  }
  return fields;
}

std::optional<std::string> SpecFields::take(const std::string& key) {
  known_.push_back(key);
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  std::string value = std::move(found->second);
  values_.erase(found);
  return value;
}

std::map<std::string, std::string> SpecFields::take_named(const std::string& prefix,
                                                          const std::string& wanted) {
  known_.push_back(prefix + "." + wanted);
  std::map<std::string, std::string> taken;
  const std::string begin = prefix + ".";
  auto at = values_.lower_bound(begin);
  while (at != values_.end() && at->first.starts_with(begin)) {
    taken.emplace(at->first.substr(begin.size()), std::move(at->second));
    at = values_.erase(at);
  }
  return taken;
}

std::vector<std::string> SpecFields::take_list(const std::string& key, char separator) {
  const std::optional<std::string> text = take(key);
  if (!text) return {};
  return split_list(key, *text, separator);
}

std::vector<std::string> SpecFields::split_list(const std::string& key, std::string_view text,
                                                char separator) {
  std::vector<std::string> items;
  for (std::string_view rest = text;;) {
    const std::size_t end = std::min(rest.find(separator), rest.size());
    const std::string item(rest.substr(0, end));
    if (item.empty() || std::find(items.begin(), items.end(), item) != items.end()) {
      fail(key, text, fmt::format("a list of different texts with '{}' between them", separator));
      return {};
    }
    items.push_back(item);
    if (end == rest.size()) return items;
    rest.remove_prefix(end + 1);
  }
}

void SpecFields::fail(const std::string& key, std::string_view found, const std::string& wanted) {
  if (error_) return;
  error_ =
      bad_data_spec(printable(key) + "=" + printable(found) + " found, " + wanted + " is wanted");
}

Status SpecFields::finish() {
  if (error_) return *error_;
  if (values_.empty()) return {};
  return bad_data_spec("unknown field " + printable(values_.begin()->first) + ", known are " +
                       joined_words(known_));
}

}  // namespace muster
