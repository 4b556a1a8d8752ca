// What tables say of their memory is what the system says of the process.
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <cstdlib>
#include <numeric>

#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/temp_folder.h"

namespace keras_sparse::resident_memory_test {

// Sanitizers keep memory of their own beside all that is allocated, and what is freed for a while.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif
#else
constexpr bool kIsSanitized = false;
#endif

// Of the process, without files; -1 if the system does not say.
int64_t AnonymousBytes() {
#ifdef __GLIBC__
  ::malloc_trim(0);  // what other tests have freed must not be taken again unseen
#endif
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) return 1024 * std::atoll(line.c_str() + 8);
  }
  return -1;
}

class ResidentMemory : public ::testing::TestWithParam<std::string> {};

TEST_P(ResidentMemory, OfATableOverAnSsdIsWhatItsTiersSay) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory, too";
  if (std::getenv("GTEST_TOTAL_SHARDS") != nullptr) GTEST_SKIP() << "ctest starts it alone";
  if (AnonymousBytes() < 0) GTEST_SKIP() << "this system does not say what a process takes";
  constexpr int64_t kFirstBytes = int64_t{64} << 20;
  constexpr int64_t kDim = 64;
  constexpr int64_t kBatch = 20000;
  constexpr int64_t kSlack = int64_t{4} << 20;  // stacks of threads, pages that are half in use
  const TempFolder folder;
  const int64_t before = AnonymousBytes();
  TableOptions options = Dynamic(kDim);
  options.storage = {{"ssdhash"}, {kFirstBytes, int64_t{4} << 30}, folder / "rows", GetParam()};
  const auto table = OpenWithRule(options, SgdRule());
  // Twice what the first tier holds, each row in two steps. On one thread: each thread that malloc
  // serves leaves a part of memory that is not given back.
  for (int64_t first = 0; first < 2 * kFirstBytes / (4 * kDim); first += kBatch / 2) {
    std::vector<int64_t> ids(static_cast<size_t>(kBatch));
    std::iota(ids.begin(), ids.end(), first);
    const std::vector<float> grads(static_cast<size_t>(kBatch * kDim), 1.0f);
    ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f}, ids, grads)));
  }
  int64_t said = 0;
  for (const TierStats& tier : TierStatsOf(*table)) {  // which waits until all is written
    said += tier.tier == "dram" ? tier.bytes : tier.memory_bytes;
  }
  EXPECT_GT(TierStatsOf(*table)[1].rows, kFirstBytes / (4 * kDim) / 2);
  EXPECT_LE(FirstTierBytes(*table), kFirstBytes * 105 / 100);
  const int64_t taken = AnonymousBytes() - before;
  EXPECT_LE(taken, said * 105 / 100 + kSlack);
  EXPECT_GE(taken, said * 95 / 100 - kSlack);
}

INSTANTIATE_TEST_SUITE_P(Strategies, ResidentMemory, ::testing::Values("LRU", "LFU"),
                         [](const auto& param) { return param.param; });

}  // namespace keras_sparse::resident_memory_test
