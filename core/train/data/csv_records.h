#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace muster {

// Splits comma-separated values into records, one after another (RFC 4180: quotes, doubled quotes,
// LF or CRLF, the last line end may be left out). Blanks around a field without quotes are ignored;
// a quoted one may hold commas and line ends. A byte order mark of UTF-8 at the beginning is
// skipped.
//
// The text and the name must outlive it. Call `next` for as long as not `at_end`; one thread. After
// an error nothing more can be read.
class CsvRecords {
 public:
  CsvRecords(std::string_view text, const std::string& name, std::size_t most_columns);

  bool at_end() const { return text_.empty(); }

  // Reads a record into `fields`. The memory of the fields is used again.
  // Errors: kInvalidArgument, reason "bad_csv": quotes, or more columns than allowed.
  Status next();
  const std::vector<std::string>& fields() const { return fields_; }

  // The line, from 1, in which the record begins.
  std::size_t line() const { return line_; }

  // "d.csv: line 3, column 2: ..." with the line of this record; the column counts from 0 here and
  // from 1 in the message.
  Error bad(std::size_t column, const std::string& reason) const;

 private:
  std::string& add_field();
  std::string_view without_blanks() const;
  Status read_quoted(std::string& field);

  std::string_view text_;
  const std::string& name_;
  std::size_t most_columns_;
  std::size_t line_ = 0;
  std::size_t next_line_ = 1;
  std::vector<std::string> fields_;
  std::vector<std::string> spare_;  // strings of earlier records, for their memory
};

}  // namespace muster
