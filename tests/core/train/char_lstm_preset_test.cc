#include <gtest/gtest.h>

#include "core/graph/model.h"
#include "core/train/batch.h"
#include "core/train/data/text_windows.h"

namespace muster {
namespace {

TEST(CharLstmPreset, TakesTextDataWithTheDefaultsOfBoth) {
  const Graph graph = *graph_from_model(*resolve_model({{"preset", "char_lstm"}}));
  EXPECT_EQ(graph.loss().num_classes(), Vocabulary::ascii().size());
  const auto text = text_windows(std::string(1000, 'a'), "text", Vocabulary::ascii(), {});
  ASSERT_TRUE(text) << text.error().message;
  const Status fits = check_data_fits(graph, *text);
  EXPECT_TRUE(fits) << fits.error().message;
}

}  // namespace
}  // namespace muster
