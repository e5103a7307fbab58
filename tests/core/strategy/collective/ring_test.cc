#include "core/strategy/collective/ring.h"

#include <gmock/gmock.h>

#include <bit>

#include "core/base/random.h"
#include "tests/support/vectors.h"

namespace muster {
namespace {

using Vectors = std::vector<std::vector<float>>;

Vectors inputs_of(const Json& test) {
  Vectors inputs;
  for (const Json& row : test.at("inputs")) inputs.push_back(vectors::floats(row));
  return inputs;
}

Vectors random_inputs(std::int64_t workers, std::int64_t size) {
  Random random(17);
  Vectors inputs(static_cast<std::size_t>(workers));
  for (auto& input : inputs) {
    for (std::int64_t i = 0; i < size; ++i) input.push_back(static_cast<float>(random.normal()));
  }
  return inputs;
}

std::vector<std::int64_t> reduce(Vectors& values, const RingPacing& pacing = {}) {
  std::vector<std::span<float>> spans(values.begin(), values.end());
  return ring_all_reduce(spans, pacing);
}

// One step of every worker by what ring_step says, all seen before anyone changed.
Vectors after_step(const Vectors& before, std::int64_t step) {
  Vectors after = before;
  const auto workers = static_cast<std::int64_t>(before.size());
  const auto size = static_cast<std::int64_t>(before.front().size());
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    const auto w = static_cast<std::size_t>(worker);
    const auto left = static_cast<std::size_t>((worker + workers - 1) % workers);
    const RingStep todo = ring_step(workers, worker, step);
    EXPECT_EQ(ring_step(workers, static_cast<std::int64_t>(left), step).send, todo.receive);
    const ChunkRange chunk = ring_chunk(size, workers, todo.receive);
    for (auto i = static_cast<std::size_t>(chunk.begin); i < static_cast<std::size_t>(chunk.end);
         ++i) {
      after[w][i] = todo.add ? before[w][i] + before[left][i] : before[left][i];
    }
  }
  return after;
}

Vectors after_all_steps(Vectors values) {
  const std::int64_t steps = ring_steps(static_cast<std::int64_t>(values.size()));
  for (std::int64_t step = 0; step < steps; ++step) values = after_step(values, step);
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

// Many small pieces, on threads however few elements there are.
constexpr RingPacing kFine{.piece = 2, .lag = 1, .threads_from = 0};

TEST(Ring, CutsChunksAndCountsElementsAsTheVectorsSay) {
  std::size_t counted = 0;
  const Json file = vectors::load("ring_allreduce.json");
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const auto workers = test.at("workers").get<std::int64_t>();
    const auto size = test.at("size").get<std::int64_t>();
    const Json& expected = test.at("expected");
    for (std::int64_t i = 0; i < workers; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto bounds = expected.at("chunk_bounds").at(at).get<std::vector<std::int64_t>>();
      EXPECT_EQ(ring_chunk(size, workers, i), (ChunkRange{bounds[0], bounds[1]}));
      if (!expected.contains("elements_sent")) continue;
      EXPECT_EQ(ring_elements_sent(size, workers, i),
                expected.at("elements_sent").at(at).get<std::int64_t>());
      ++counted;
    }
  }
  EXPECT_GT(counted, 30U);
}

TEST(Ring, StepsLeaveWhatTheVectorsSayAfterEachOfThem) {
  std::size_t checked = 0;
  const Json file = vectors::load("ring_allreduce.json");
  for (const Json& test : file.at("cases")) {
    if (!test.at("expected").contains("after_each_step")) continue;
    SCOPED_TRACE(test.at("name").get<std::string>());
    Vectors values = inputs_of(test);
    std::int64_t step = 0;
    for (const Json& after : test.at("expected").at("after_each_step")) {
      values = after_step(values, step++);
      for (std::size_t worker = 0; worker < values.size(); ++worker) {
        EXPECT_EQ(values[worker], vectors::floats(after.at("workers").at(worker)));
      }
      ++checked;
    }
    EXPECT_EQ(step, ring_steps(static_cast<std::int64_t>(values.size())));
  }
  EXPECT_GT(checked, 8U);
}

TEST(Ring, AllReduceGivesTheVectorsSumsHoweverItIsCutUp) {
  const Json file = vectors::load("ring_allreduce.json");
  for (const RingPacing& pacing :
       {RingPacing{}, kFine, RingPacing{.piece = 1, .lag = 3, .threads_from = 0}}) {
    for (const Json& test : file.at("cases")) {
      SCOPED_TRACE(test.at("name").get<std::string>());
      Vectors values = inputs_of(test);
      const auto taken = reduce(values, pacing);
      for (std::size_t worker = 0; worker < values.size(); ++worker) {
        vectors::expect_close(values[worker], vectors::doubles(test.at("expected").at("sum")),
                              vectors::tolerance(file, test));
        EXPECT_TRUE(same_bits(values[worker], values[0]));
        if (!test.at("expected").contains("elements_sent")) continue;
        // What it takes is what its left neighbour sends.
        const auto sent = vectors::integers(test.at("expected").at("elements_sent"));
        EXPECT_EQ(taken[worker], sent[(worker + sent.size() - 1) % sent.size()]);
      }
    }
  }
}

TEST(Ring, HasTheBitsOfItsStepsForEveryNumberOfWorkersAndLength) {
  for (const std::int64_t workers : {1, 2, 3, 5, 8, 16}) {
    for (const std::int64_t size : {0, 1, 7, 64, 257}) {
      SCOPED_TRACE(testing::Message() << workers << " workers, " << size << " elements");
      const Vectors inputs = random_inputs(workers, size);
      const Vectors expected = after_all_steps(inputs);
      for (const RingPacing& pacing :
           {RingPacing{}, kFine, RingPacing{.piece = 5, .lag = 4, .threads_from = 0}}) {
        Vectors values = inputs;
        (void)reduce(values, pacing);
        for (std::size_t worker = 0; worker < values.size(); ++worker) {
          EXPECT_TRUE(same_bits(values[worker], expected[worker])) << "worker " << worker;
        }
      }
    }
  }
}

TEST(Ring, SumsLongVectorsOnThreadsWithTheUsualPieces) {
  const Vectors inputs = random_inputs(3, 700'001);  // four pieces a chunk
  const Vectors expected = after_all_steps(inputs);
  Vectors values = inputs;
  (void)reduce(values);
  for (std::size_t worker = 0; worker < values.size(); ++worker) {
    EXPECT_TRUE(same_bits(values[worker], expected[worker]));
  }
}

// Under ThreadSanitizer this looks for a read of what a neighbour is writing.
TEST(Ring, GivesTheSameBitsAThousandTimes) {
  constexpr std::size_t kWorkers = 4;
  const Vectors inputs = random_inputs(kWorkers, 1'003);
  const Vectors expected = after_all_steps(inputs);
  for (int repetition = 0; repetition < 1'000; ++repetition) {
    Vectors values = inputs;
    const std::int64_t lag = 1 + repetition % 4;
    (void)reduce(values, {.piece = 16, .lag = lag, .threads_from = 0});
    for (std::size_t worker = 0; worker < kWorkers; ++worker) {
      ASSERT_TRUE(same_bits(values[worker], expected[worker])) << "repetition " << repetition;
    }
  }
}

TEST(Ring, EveryWorkerSendsTheLeastThereIs) {
  for (std::int64_t worker = 0; worker < 5; ++worker) {
    EXPECT_EQ(ring_elements_sent(1'000, 5, worker), 2 * 4 * 1'000 / 5);
  }
}

TEST(Ring, CarriesInfinitiesToEveryone) {
  Vectors values(3, std::vector<float>(6, 1));
  values[1][4] = std::numeric_limits<float>::infinity();
  (void)reduce(values, kFine);
  for (const auto& value : values) {
    EXPECT_EQ(value[4], std::numeric_limits<float>::infinity());
    EXPECT_EQ(value[3], 3);
  }
}

TEST(Ring, NoVectorsAreNothingToDo) {
  EXPECT_TRUE(ring_all_reduce({}).empty());
}

TEST(RingDeathTest, StopsAtVectorsOfDifferentLengths) {
  Vectors values = {{1, 2}, {3}};
  EXPECT_DEATH((void)reduce(values), "different lengths");
}

}  // namespace
}  // namespace muster
