#include "core/strategy/partition/exchange.h"

#include <gmock/gmock.h>

#include <thread>

namespace muster {
namespace {

using ::testing::ElementsAre;

// input -> stage 0 (worker 0) -> "a" -> stage 1 (worker 1) -> "b" -> stage 2 (worker 0) -> "c";
// stage 2 takes "a" too.
struct Chain {
  std::vector<Stage> stages{
      {.place = 0, .nodes = {}}, {.place = 1, .nodes = {}}, {.place = 0, .index = 1, .nodes = {}}};
  Wiring wiring{.tensors = {{.name = "input", .consumers = {0}},
                            {.name = "a", .producer = 0, .consumers = {1, 2}},
                            {.name = "b", .producer = 1, .consumers = {2}},
                            {.name = "c", .producer = 2, .consumers = {3}}},
                .inputs = {{0}, {1}, {2, 1}},
                .outputs = {{1}, {2}, {3}},
                .output = 3};
};

TEST(Exchange, HandsActivationsToEveryConsumerAndAddsTheirGradients) {
  const Chain chain;
  MemoryObjectStore objects;
  for (ObjectStore* store :
       {static_cast<ObjectStore*>(nullptr), static_cast<ObjectStore*>(&objects)}) {
    Exchange exchange(chain.wiring, chain.stages, store);
    exchange.begin(2);
    ASSERT_TRUE(exchange.put_activation(1, 1, {1, 2}));
    EXPECT_EQ(objects.size(), store == nullptr ? 0U : 1U);
    EXPECT_THAT(*exchange.take_activation(1, 1), ElementsAre(1, 2));
    EXPECT_THAT(*exchange.take_activation(1, 1), ElementsAre(1, 2));
    ASSERT_TRUE(exchange.put_gradient(1, 0, 1, {1, 10}));
    ASSERT_TRUE(exchange.put_gradient(1, 0, 2, {0.5, 5}));
    EXPECT_THAT(*exchange.take_gradient(1, 0), ElementsAre(1.5, 15));
    EXPECT_EQ(objects.size(), 0U) << "all were taken";
  }
}

TEST(Exchange, CountsWhatGoesToAnotherPlace) {
  const Chain chain;
  Exchange exchange(chain.wiring, chain.stages, nullptr);
  exchange.begin(1);
  ASSERT_TRUE(exchange.put_activation(1, 0, {1, 2}));  // to worker 1, and to worker 0 itself
  EXPECT_EQ(exchange.bytes().activations, 8U);
  ASSERT_TRUE(exchange.put_activation(3, 0, {1}));  // to the coordinator's loss
  EXPECT_EQ(exchange.bytes().activations, 12U);
  ASSERT_TRUE(exchange.put_gradient(1, 0, 2, {1, 2}));
  EXPECT_EQ(exchange.bytes().gradients, 0U);
  ASSERT_TRUE(exchange.put_gradient(1, 0, 1, {1, 2}));
  EXPECT_EQ(exchange.bytes().gradients, 8U);
}

TEST(Exchange, TakingWaitsUntilItIsPut) {
  const Chain chain;
  Exchange exchange(chain.wiring, chain.stages, nullptr);
  exchange.begin(1);
  std::vector<float> taken;
  std::jthread taker([&] { taken = *exchange.take_activation(0, 0); });
  ASSERT_TRUE(exchange.put_activation(0, 0, {7}));
  taker.join();
  EXPECT_THAT(taken, ElementsAre(7));
}

TEST(Exchange, AFailureEndsAllWaitingAndTheFirstOneCounts) {
  const Chain chain;
  Exchange exchange(chain.wiring, chain.stages, nullptr);
  exchange.begin(1);
  std::vector<std::string> reasons(2);
  {
    std::jthread first([&] { reasons[0] = exchange.take_activation(0, 0).error().reason; });
    std::jthread second([&] { reasons[1] = exchange.take_gradient(1, 0).error().reason; });
    exchange.fail({ErrorCode::kUnavailable, "worker alpha: gone", "worker_lost"});
    exchange.fail({ErrorCode::kInternal, "later", "later"});
  }
  EXPECT_THAT(reasons, ElementsAre("worker_lost", "worker_lost"));
  EXPECT_EQ(exchange.failure()->reason, "worker_lost");
  exchange.begin(1);
  EXPECT_FALSE(exchange.failure());
}

TEST(Exchange, LeavesNothingInTheStoreThatNobodyTook) {
  const Chain chain;
  MemoryObjectStore store;
  {
    Exchange exchange(chain.wiring, chain.stages, &store);
    exchange.begin(1);
    ASSERT_TRUE(exchange.put_activation(1, 0, {1, 2}));
    ASSERT_TRUE(exchange.take_activation(1, 0));
    ASSERT_TRUE(exchange.put_gradient(1, 0, 2, {3}));
    EXPECT_EQ(store.size(), 2U);
  }
  EXPECT_EQ(store.size(), 0U);
}

TEST(Exchange, SaysWhatTheStoreSays) {
  const Chain chain;
  MemoryObjectStore store(4);
  Exchange exchange(chain.wiring, chain.stages, &store);
  exchange.begin(1);
  EXPECT_EQ(exchange.put_activation(1, 0, {1, 2}).error().reason, "store_full");
}

}  // namespace
}  // namespace muster
