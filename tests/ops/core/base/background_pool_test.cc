#include "ops/core/base/background_pool.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "tests/ops/core/support/gate.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse::background_pool_test {

TEST(BackgroundPool, BeginsTasksInTheirOrder) {
  std::vector<int> done;  // by the one thread
  std::promise<void> all;
  BackgroundPool pool(1);
  for (int i = 0; i < 100; ++i) pool.Schedule([&done, i] { done.push_back(i); });
  pool.Schedule([&all] { all.set_value(); });
  all.get_future().wait();
  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
}

TEST(BackgroundPool, HasAllItsThreadsAtWork) {
  BackgroundPool pool(3);
  std::atomic<int> waiting{0};
  std::promise<void> together;
  const std::shared_future<void> all_here = together.get_future().share();
  std::vector<std::promise<void>> done(3);
  for (auto& each : done) {
    pool.Schedule([&] {
      if (++waiting == 3) together.set_value();
      all_here.wait();
      each.set_value();
    });
  }
  for (auto& each : done) each.get_future().wait();
}

TEST(BackgroundPool, EndsAfterTheTaskThatItIsIn) {
  BackgroundPool pool(1);
  std::promise<void> begun;
  std::promise<void> scheduled;
  std::atomic<int> done{0};
  std::atomic<int> dropped{0};
  EXPECT_TRUE(pool.Schedule([&] {
    begun.set_value();
    scheduled.get_future().wait();
    ++done;
  }));
  begun.get_future().wait();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(pool.Schedule([&] { ++done; }, [&] { ++dropped; }));
  std::thread stopper([&pool] { pool.Stop(); });
  // Once Stop has begun nothing is taken any more.
  while (pool.Schedule([&] { ++done; }, [&] { ++dropped; })) std::this_thread::yield();
  scheduled.set_value();
  stopper.join();
  EXPECT_EQ(done, 1);
  EXPECT_GE(dropped, 5);
  pool.Stop();
}

TEST(BackgroundPool, HasNoThreadsInAForkedProcess) {
  BackgroundPool pool(1);
  {
    const Gate gate(&pool);
  }
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool ran = false;
    BackgroundTask task(&pool, [&ran] {
      ran = true;
      return false;
    });
    task.Schedule();
    pool.Stop();
    ::_exit(ran ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(BackgroundTask, HasOneRunAtATimeAndOneAfterEachCall) {
  BackgroundPool pool(4);
  std::atomic<int> running{0};
  std::atomic<int> seen{0};
  std::atomic<int> wanted{0};
  {
    BackgroundTask task(&pool, [&] {
      EXPECT_EQ(++running, 1);
      seen = wanted.load();
      --running;
      return false;
    });
    for (int i = 0; i < 1000; ++i) {
      ++wanted;
      task.Schedule();
    }
    while (seen != 1000) std::this_thread::yield();
  }
  EXPECT_EQ(running, 0);
}

TEST(BackgroundTask, RunsAgainAfterTheOthers) {
  std::vector<int> order;  // by the one thread
  BackgroundPool pool(1);
  std::atomic<int> left{3};
  BackgroundTask first(&pool, [&] {
    order.push_back(1);
    return --left > 0;
  });
  BackgroundTask second(&pool, [&] {
    order.push_back(2);
    return false;
  });
  {
    const Gate gate(&pool);
    first.Schedule();
    second.Schedule();
  }
  while (left > 0) std::this_thread::yield();
  const Gate after(&pool);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 1, 1}));
}

TEST(BackgroundTask, BeginsNoRunOnceItHasEnded) {
  BackgroundPool pool(1);
  Gate gate(&pool);
  int runs = 0;
  auto task = std::make_unique<BackgroundTask>(&pool, [&runs] {
    ++runs;
    return true;
  });
  task->Schedule();
  task = nullptr;
  gate.Open();
  const Gate after(&pool);
  EXPECT_EQ(runs, 0);
}

TEST(BackgroundTask, IsRunByWhoeverAsksOnceThePoolHasStopped) {
  BackgroundPool pool(1);
  std::atomic<int> runs{0};
  std::atomic<int> stops{0};
  BackgroundTask task(&pool, [&runs] { return ++runs < 100000; }, [&stops] { ++stops; });
  {
    // Waits in the pool while that stops.
    auto gate = std::make_unique<Gate>(&pool);
    task.Schedule();
    std::thread stopper([&pool] { pool.Stop(); });
    while (pool.Schedule([] {})) std::this_thread::yield();
    gate = nullptr;
    stopper.join();
  }
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(stops, 1);
  task.Schedule();
  EXPECT_EQ(runs, 100000);
}

TEST(BackgroundPoolVariables, AreChecked) {
  struct Case {
    const char* variable;
    Status (*get)(BackgroundPool**);
    std::set<std::string> good;
    std::string bounds;
  };
  const std::vector<Case> cases = {
      {"KERAS_SPARSE_EVICTION_THREADS", BackgroundPool::ForEviction, {"1", "64"}, "0 to 64"},
      {"KERAS_SPARSE_SSDHASH_ASYNC_COMPACTION", BackgroundPool::ForCompaction, {"1"}, "0 to 1"}};
  for (const Case& each : cases) {
    BackgroundPool* pool = nullptr;
    for (const std::string& value : each.good) {
      ASSERT_EQ(::setenv(each.variable, value.c_str(), 1), 0);
      EXPECT_TRUE(IsOk(each.get(&pool)));
      EXPECT_NE(pool, nullptr) << value;
    }
    ASSERT_EQ(::setenv(each.variable, "0", 1), 0);
    EXPECT_TRUE(IsOk(each.get(&pool)));
    EXPECT_EQ(pool, nullptr);
    ASSERT_EQ(::setenv(each.variable, "", 1), 0);
    EXPECT_TRUE(IsOk(each.get(&pool)));
    for (const std::string value : {"-1", "65", "100", "2x", " 1", "all"}) {
      ASSERT_EQ(::setenv(each.variable, value.c_str(), 1), 0);
      EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                            std::string(each.variable) + " must be a whole number from " +
                                each.bounds + ". Received: '" + value + "'",
                            each.get(&pool)));
    }
    ASSERT_EQ(::unsetenv(each.variable), 0);
  }
}

}  // namespace keras_sparse::background_pool_test
