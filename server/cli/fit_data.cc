#include "server/cli/fit_data.h"

#include <algorithm>

#include "core/train/data/data_spec.h"

namespace muster::cli {
namespace {

using Categories = std::map<std::string, std::vector<std::string>>;

bool has_unstated(const DataSpec& spec) {
  return std::ranges::any_of(spec.csv.categorical, [&](const std::string& column) {
    return !spec.csv.categories.contains(column);
  });
}

Result<LocalData> load_train(const std::string& text, Categories& categories) {
  MUSTER_TRY(DataSpec spec, parse_data_spec(text));
  // Loading first: it looks at the files before it reads them.
  MUSTER_TRY(LocalData data, load_data(spec, DataUse::kCentral));
  categories = spec.csv.categories;
  if (has_unstated(spec)) {
    MUSTER_TRY(categories, load_csv_categories(spec.file, spec.csv));
  }
  return data;
}

Result<Dataset> load_test(const std::string& text, const Categories& of_training) {
  MUSTER_TRY(DataSpec spec, parse_data_spec(text));
  spec.holdout = 0;
  for (const std::string& column : spec.csv.categorical) {
    const auto found = of_training.find(column);
    if (found != of_training.end()) spec.csv.categories.insert(*found);
  }
  // Those of a column that the training data does not have must be stated.
  MUSTER_TRY(LocalData data, load_data(spec));
  return std::move(data.train);
}

// A file that a user named and that is not there is wrong input.
Error wrong_input(Error error, const std::string& what) {
  if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kInvalidArgument;
  return with_context(std::move(error), what);
}

}  // namespace

Result<FitData> load_fit_data(const std::string& train, const std::string& test) {
  FitData data;
  Categories categories;
  Result<LocalData> local = load_train(train, categories);
  if (!local) return wrong_input(std::move(local).error(), "training data");
  data.local = *std::move(local);
  if (test.empty()) return data;
  Result<Dataset> tests = load_test(test, categories);
  if (!tests) return wrong_input(std::move(tests).error(), "test data");
  data.test = *std::move(tests);
  return data;
}

}  // namespace muster::cli
