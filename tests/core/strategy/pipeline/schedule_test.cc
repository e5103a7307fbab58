#include "core/strategy/pipeline/schedule.h"

#include <gmock/gmock.h>

#include <functional>

#include "tests/support/vectors.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Kind = PipelineStep::Kind;

constexpr PipelineSchedule kBoth[] = {PipelineSchedule::kGPipe,
                                      PipelineSchedule::kOneForwardOneBackward};

void for_each_shape(
    const std::function<void(PipelineSchedule, std::int64_t, std::int64_t)>& check) {
  for (const PipelineSchedule schedule : kBoth) {
    for (std::int64_t stages = 1; stages <= 8; ++stages) {
      for (std::int64_t count = 1; count <= 32; ++count) {
        SCOPED_TRACE(testing::Message()
                     << (schedule == PipelineSchedule::kGPipe ? "GPipe" : "1F1B") << ", " << stages
                     << " stages, " << count << " micro-batches");
        check(schedule, stages, count);
      }
    }
  }
}

std::string text_of(const std::vector<PipelineStep>& steps) {
  std::string text;
  for (const PipelineStep& step : steps) {
    text += (step.kind == Kind::kForward ? "F" : "B") + std::to_string(step.micro_batch) + " ";
  }
  return text;
}

TEST(PipelineSchedule, IsTheOrderOfThePapers) {
  EXPECT_EQ(text_of(pipeline_steps(PipelineSchedule::kGPipe, 3, 4, 0)), "F0 F1 F2 F3 B0 B1 B2 B3 ");
  EXPECT_EQ(text_of(pipeline_steps(PipelineSchedule::kOneForwardOneBackward, 3, 4, 0)),
            "F0 F1 F2 B0 F3 B1 B2 B3 ");
  EXPECT_EQ(text_of(pipeline_steps(PipelineSchedule::kOneForwardOneBackward, 3, 4, 1)),
            "F0 F1 B0 F2 B1 F3 B2 B3 ");
  EXPECT_EQ(text_of(pipeline_steps(PipelineSchedule::kOneForwardOneBackward, 3, 4, 2)),
            "F0 B0 F1 B1 F2 B2 F3 B3 ");
}

TEST(PipelineSchedule, EveryStageDoesEachStepOnceInRisingOrderForwardFirst) {
  for_each_shape([](PipelineSchedule schedule, std::int64_t stages, std::int64_t count) {
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      std::int64_t forwards = 0;
      std::int64_t backwards = 0;
      for (const PipelineStep& step : pipeline_steps(schedule, stages, count, stage)) {
        EXPECT_EQ(step.micro_batch, step.kind == Kind::kForward ? forwards++ : backwards++);
        EXPECT_LE(backwards, forwards);
      }
      EXPECT_EQ(forwards, count);
      EXPECT_EQ(backwards, count);
    }
  });
}

TEST(PipelineSchedule, HoldsTheActivationsItSays) {
  for_each_shape([](PipelineSchedule schedule, std::int64_t stages, std::int64_t count) {
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      std::int64_t held = 0;
      std::int64_t most = 0;
      for (const PipelineStep& step : pipeline_steps(schedule, stages, count, stage)) {
        held += step.kind == Kind::kForward ? 1 : -1;
        most = std::max(most, held);
      }
      EXPECT_EQ(most, activations_held(schedule, stages, count, stage)) << "stage " << stage;
      EXPECT_EQ(most,
                schedule == PipelineSchedule::kGPipe ? count : std::min(count, stages - stage));
    }
  });
}

// Stages that block on what they need, some much slower than others, come to their ends.
TEST(PipelineSchedule, NeverDeadlocksWhicheverStageIsSlow) {
  for_each_shape([](PipelineSchedule schedule, std::int64_t stages, std::int64_t count) {
    const auto size = static_cast<std::size_t>(stages);
    for (std::size_t slow = 0; slow < size; ++slow) {
      std::vector<std::size_t> next(size, 0);
      std::vector<std::int64_t> forwards(size, 0);
      std::vector<std::int64_t> backwards(size, 0);
      const auto can = [&](std::size_t stage) {
        const auto steps =
            pipeline_steps(schedule, stages, count, static_cast<std::int64_t>(stage));
        if (next[stage] == steps.size()) return false;
        const PipelineStep step = steps[next[stage]];
        const bool forward = step.kind == Kind::kForward;
        const bool ready = forward
                               ? stage == 0 || forwards[stage - 1] > step.micro_batch
                               : forwards[stage] > step.micro_batch &&
                                     (stage + 1 == size || backwards[stage + 1] > step.micro_batch);
        if (!ready) return false;
        ++next[stage];
        ++(forward ? forwards : backwards)[stage];
        return true;
      };
      // The slow stage moves only when nobody else can.
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t stage = 0; stage < size; ++stage) moved |= stage != slow && can(stage);
        if (!moved) moved = can(slow);
      }
      for (std::size_t stage = 0; stage < size; ++stage) {
        ASSERT_EQ(next[stage], static_cast<std::size_t>(2 * count)) << "stuck at stage " << stage;
      }
    }
  });
}

TEST(PipelineSchedule, ChartKeepsEveryDependency) {
  for_each_shape([](PipelineSchedule schedule, std::int64_t stages, std::int64_t count) {
    const auto chart = pipeline_chart(schedule, stages, count);
    ASSERT_EQ(chart.size(), static_cast<std::size_t>(stages));
    const auto batches = static_cast<std::size_t>(count);
    std::vector<std::vector<std::size_t>> forward(chart.size(), std::vector<std::size_t>(batches));
    auto backward = forward;
    for (std::size_t stage = 0; stage < chart.size(); ++stage) {
      const auto steps = pipeline_steps(schedule, stages, count, static_cast<std::int64_t>(stage));
      std::int64_t next = 0;
      for (std::size_t time = 0; time < chart[stage].size(); ++time) {
        if (chart[stage][time] < 0) continue;
        ASSERT_EQ(chart[stage][time], next);
        const PipelineStep step = steps[static_cast<std::size_t>(next++)];
        (step.kind == Kind::kForward
             ? forward
             : backward)[stage][static_cast<std::size_t>(step.micro_batch)] = time;
      }
      ASSERT_EQ(next, 2 * count);
    }
    for (std::size_t batch = 0; batch < batches; ++batch) {
      EXPECT_LT(forward.back()[batch], backward.back()[batch]);
      for (std::size_t stage = 1; stage < chart.size(); ++stage) {
        EXPECT_LT(forward[stage - 1][batch], forward[stage][batch]);
        EXPECT_LT(backward[stage][batch], backward[stage - 1][batch]);
      }
    }
  });
}

TEST(PipelineSchedule, ChartIdlesAsTheFormulaSays) {
  for_each_shape([](PipelineSchedule schedule, std::int64_t stages, std::int64_t count) {
    const auto chart = pipeline_chart(schedule, stages, count);
    std::int64_t slots = 0;
    std::int64_t idle = 0;
    for (const auto& row : chart) {
      EXPECT_EQ(row.size(), chart.front().size());
      slots += static_cast<std::int64_t>(row.size());
      idle += std::ranges::count(row, -1);
    }
    EXPECT_EQ(slots, stages * 2 * (count + stages - 1));
    EXPECT_DOUBLE_EQ(static_cast<double>(idle) / static_cast<double>(slots),
                     bubble_fraction(stages, count));
  });
}

TEST(PipelineSchedule, BubblesAreTheVectors) {
  const Json file = vectors::load("pipeline.json");
  for (const Json& row : file.at("bubble")) {
    const auto stages = row.at("stages").get<std::int64_t>();
    const auto count = row.at("micro_batches").get<std::int64_t>();
    SCOPED_TRACE(testing::Message() << stages << " stages, " << count << " micro-batches");
    EXPECT_DOUBLE_EQ(bubble_fraction(stages, count), row.at("bubble_fraction").get<double>());
    for (const PipelineSchedule schedule : kBoth) {
      EXPECT_EQ(pipeline_chart(schedule, stages, count).front().size(),
                row.at("slots_forward_and_backward").get<std::size_t>());
    }
  }
}

TEST(MicroBatches, AreEqualButForTheLast) {
  EXPECT_THAT(*micro_batches(8, 2), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(*micro_batches(8, 3), ElementsAre(3, 3, 2));
  EXPECT_THAT(*micro_batches(6, 4), ElementsAre(4, 2));
  EXPECT_THAT(*micro_batches(5, 5), ElementsAre(5));
  EXPECT_THAT(*micro_batches(3, 1), ElementsAre(1, 1, 1));
}

TEST(MicroBatches, RefuseWhatIsNoneNamingBothSizes) {
  for (const auto& [batch, size] : {std::pair{8, 0}, {8, -1}, {3, 4}, {0, 1}, {-2, 1}}) {
    const auto sizes = micro_batches(batch, size);
    ASSERT_FALSE(sizes);
    EXPECT_EQ(sizes.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(sizes.error().message,
                AllOf(HasSubstr(std::to_string(batch)), HasSubstr(std::to_string(size))));
  }
}

}  // namespace
}  // namespace muster
