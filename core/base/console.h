#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"

// What the programs write to their user. Any thread may write; texts do not mix.
namespace muster {

// To standard error: progress, hints, and why the program ends. What cannot be written is lost, as
// nothing depends on it.
void say(std::string_view text);

// To standard output: what the program was asked for. An error is kept for `check_printed`.
void print(std::string_view text);

// Whether all that was printed so far has arrived; call it at the end.
// Errors: kInternal, reason "output", when something has not: the disk is full, the reader is gone.
Status check_printed();

// For the beginning of a program: where it was started with a standard stream closed, puts one
// there that can neither be read nor written, so that no file is opened in its place and gets what
// is meant for the user.
void hold_standard_streams();

}  // namespace muster
