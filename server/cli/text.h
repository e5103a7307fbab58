#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/console.h"
#include "core/base/json.h"

// How the program writes numbers, times and tables for people.
namespace muster::cli {

std::string bytes_text(std::int64_t bytes);            // "15.9 MB"
std::string count_text(std::int64_t count);            // "1,663,370"
std::string duration_text(std::int64_t milliseconds);  // "850 ms", "12.4 s", "1:05", "2:03:09"
std::string time_text(std::int64_t unix_ms);           // "2026-01-31 12:00:05" in UTC; "-" for 0
// A metric of an object, or "-": metric_text(round["metrics"], "test_accuracy").
std::string metric_text(const Json& metrics, const std::string& name);
// "[#####-----]" with `width` places.
std::string bar_text(double share, std::size_t width);

// A duration on the command line: "90s", "15m", "1h", "7d". Errors: kInvalidArgument.
Result<std::chrono::seconds> parse_duration(const std::string& text);

// Columns as wide as they need to be, two spaces between, a line under the header.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// To standard output, as `print` of core/base/console.h.
void print_json(const Json& json);
bool is_terminal();

// What the aggregation did with the updates of a round, out of its metrics: "5 selected, 2
// clipped, mean staleness 1.5". Empty for most rules.
std::string aggregation_text(const Json& metrics);

}  // namespace muster::cli
