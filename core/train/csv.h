#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/train/dataset.h"

namespace muster {

struct CsvOptions {
  std::string target;  // name of the column with the targets
  // Classes: whole numbers from 0, the labels. Values: any numbers, for regression.
  enum class Targets { kClasses, kValues };
  Targets targets = Targets::kClasses;
};

struct CsvLimits {
  std::uint64_t bytes = std::uint64_t{1} << 30;
  std::size_t columns = 100'000;
  std::int32_t largest_label = 1'000'000;
};

// Reads comma-separated values (RFC 4180: quotes, doubled quotes, LF or CRLF, the last line end may
// be left out) with a header line. Every column but the target is a feature, in the order of the
// file; all fields are finite decimal numbers. Blanks around an unquoted field are ignored. An
// example's shape is [columns - 1]. Errors: kInvalidArgument, reason "bad_csv", with `name`, line,
// column and why; lines and columns count from 1.
Result<Dataset> parse_csv(std::string_view text, const std::string& name, const CsvOptions& options,
                          const CsvLimits& limits = {});

Result<Dataset> load_csv(const std::filesystem::path& path, const CsvOptions& options,
                         const CsvLimits& limits = {});

}  // namespace muster
