#pragma once

#include <string>

#include "core/base/error.h"
#include "core/train/data/dataset.h"

namespace muster::cli {

struct FitData {
  LocalData local;  // training data and what is held out of it
  Dataset test;     // no examples: none
};

// Loads what `muster fit` trains and tests on, for which nobody else's data has to mean the same:
// categories of a CSV that are not stated are those of the training file, for the test file too.
//   train, test  data specs (core/train/data/data_spec.h); an empty `test`: none. Of the test data
//                nothing is held out, as the server reads a job's test data.
// Errors: those of load_data, saying which of the two; a file that is not there is wrong input,
// kInvalidArgument.
Result<FitData> load_fit_data(const std::string& train, const std::string& test);

}  // namespace muster::cli
