#include "core/train/batch.h"

#include <gmock/gmock.h>

#include <utility>
#include <vector>

#include "core/graph/model.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// What is said of two examples of zeros, of `shape`, for a model that takes `input`.
Error mismatch(const Json& input, const Shape& shape) {
  const auto model =
      resolve_model({{"preset", "logistic"}, {"input", input}, {"classes", 2}}, "model");
  const auto graph = graph_from_model(*model);
  EXPECT_TRUE(graph) << graph.error().message;
  DatasetRows rows;
  rows.shape = shape;
  rows.floats = std::vector<float>(2 * static_cast<std::size_t>(*element_count(shape)));
  rows.labels = {0, 1};
  const auto data = Dataset::create(std::move(rows));
  EXPECT_TRUE(data) << data.error().message;
  const Status fits = check_data_fits(*graph, *data);
  EXPECT_FALSE(fits);
  return fits ? Error{} : fits.error();
}

TEST(CheckDataFits, AnotherShapeOfAsManyElementsComesWithItsCure) {
  const Error error = mismatch({28, 28}, {1, 28, 28});
  EXPECT_EQ(error.reason, "data_mismatch");
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("wants examples of shape [28, 28], the data has [1, 28, 28]"),
                    EndsWith("set the model's \"input\" to [1, 28, 28]")));
}

TEST(CheckDataFits, OfOtherElementsThereIsNoCure) {
  EXPECT_THAT(mismatch({28, 28}, {3, 28, 28}).message,
              AllOf(EndsWith("the data has [3, 28, 28]"), Not(HasSubstr("set the model"))));
}

}  // namespace
}  // namespace muster
