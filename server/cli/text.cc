#include "server/cli/text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace muster::cli {

std::string bytes_text(std::int64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits{"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string count_text(std::int64_t count) {
  std::string text = fmt::to_string(count);
  const std::ptrdiff_t first = count < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > first; at -= 3)
    text.insert(text.begin() + at, ',');
  return text;
}

std::string duration_text(std::int64_t milliseconds) {
  if (milliseconds < 1'000) return fmt::format("{} ms", milliseconds);
  if (milliseconds < 60'000)
    return fmt::format("{:.1f} s", static_cast<double>(milliseconds) / 1e3);
  const std::int64_t seconds = milliseconds / 1'000;
  if (seconds < 3'600) return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
  return fmt::format("{}:{:02}:{:02}", seconds / 3'600, seconds / 60 % 60, seconds % 60);
}

std::string time_text(std::int64_t unix_ms) {
  if (unix_ms == 0) return "-";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}",
                     fmt::gmtime(static_cast<std::time_t>(unix_ms / 1'000)));
}

std::string metric_text(const Json& metrics, const std::string& name) {
  if (!metrics.is_object() || !metrics.contains(name) || !metrics[name].is_number()) return "-";
  return fmt::format("{:.4f}", metrics[name].get<double>());
}

std::string bar_text(double share, std::size_t width) {
  const auto full =
      static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width));
  return fmt::format("[{:#<{}}{:-<{}}]", "", full, "", width - full);
}

Result<std::chrono::seconds> parse_duration(const std::string& text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const std::int64_t scale = unit == "s"   ? 1
                             : unit == "m" ? 60
                             : unit == "h" ? 3'600
                             : unit == "d" ? 86'400
                                           : 0;
  if (error != std::errc() || scale == 0 || count < 1 || count > 1'000'000) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("\"{}\" is no duration; wanted for example 90s, 15m, 1h or 7d",
                             printable(text)),
                 "bad_duration"};
  }
  return std::chrono::seconds(count * scale);
}

std::string Table::text() const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add_line(rows_.front());
  std::vector<std::string> rule;
  for (const std::size_t width : widths) rule.emplace_back(width, '-');
  add_line(rule);
  for (std::size_t i = 1; i < rows_.size(); ++i) add_line(rows_[i]);
  return text;
}

void print_json(const Json& json) {
  print(json.dump(2) + "\n");
}

bool is_terminal() {
  return isatty(STDOUT_FILENO) == 1;
}

std::string aggregation_text(const Json& metrics) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (const char* what : {"selected", "clipped", "filtered"}) {
    if (metrics.contains(what))
      add(fmt::format("{} {}", metrics.at(what).get<std::int64_t>(), what));
  }
  if (metrics.contains("staleness"))
    add(fmt::format("mean staleness {:.3g}", metrics.at("staleness").get<double>()));
  return text;
}

}  // namespace muster::cli
