// What a store whose rows move on their own, or are replaced, owes to its readers.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_CHECK_MOVING_ROWS_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_CHECK_MOVING_ROWS_H_

#include "tests/ops/core/support/check_store.h"

namespace keras_sparse {

// The rows that a writer puts in a round, and replaces in the next one.
inline std::vector<int64_t> KeysOfRound(int64_t writer, int64_t round) {
  const int64_t first = writer * 1000000 + round * 10;
  return Range(first, first + 10);
}

// Two writers put new rows, which push those before them down, replace some and erase others.
// Readers ask for rows of all ages: each is found in every call, as the version that is due. In the
// end all is known.
inline void CheckMovingRows(RowStore* store, int64_t num_rounds) {
  const int64_t record_bytes = store->record_bytes();
  struct Writer {
    std::atomic<int64_t> begun{0};
    std::atomic<int64_t> finished{0};
  };
  std::array<Writer, 2> writers;
  const auto write = [&](int64_t w) {
    Writer& self = writers[static_cast<size_t>(w)];
    for (int64_t round = 1; round <= num_rounds; ++round) {
      self.begun = round;
      ASSERT_TRUE(IsOk(PutRecords(store, KeysOfRound(w, round), round)));
      if (round > 1) {
        ASSERT_TRUE(IsOk(PutRecords(store, KeysOfRound(w, round - 1), round)));
      }
      self.finished = round;
      const std::vector<int64_t> keys = Range(-1000 * (w + 1), -1000 * (w + 1) + round % 90);
      ASSERT_TRUE(IsOk(PutRecords(store, keys, round)));
      ExpectStored(*store, keys, Records(keys, round, record_bytes));
      ASSERT_TRUE(IsOk(store->Erase(keys.data(), static_cast<int64_t>(keys.size()))));
      ExpectStored(*store, keys, {});
    }
  };
  const auto read = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    for (uint64_t i = 0; writers[0].finished < num_rounds || writers[1].finished < num_rounds;
         ++i) {
      const auto w = static_cast<size_t>(random() % 2);
      const int64_t finished = writers[w].finished;
      if (finished == 0) continue;
      // Mostly the newest ones, which are on their way.
      const int64_t age = static_cast<int64_t>(random() % (i % 4 == 0 ? 1000 : 20)) % finished;
      const int64_t round = finished - age;
      const std::vector<int64_t> keys = KeysOfRound(static_cast<int64_t>(w), round);
      std::string records(static_cast<size_t>(10 * record_bytes), '?');
      std::array<bool, 10> found;
      ASSERT_TRUE(IsOk(store->Get(keys.data(), 10, records.data(), found.data())));
      const int64_t begun = writers[w].begun;
      for (size_t k = 0; k < 10; ++k) {
        ASSERT_TRUE(found[k]) << "key " << keys[k];
        const auto width = static_cast<size_t>(record_bytes);
        const std::string record = records.substr(width * k, width);
        const bool is_new = record == MakeRecord(keys[k], round + 1, record_bytes);
        const bool is_old = record == MakeRecord(keys[k], round, record_bytes);
        ASSERT_TRUE((is_new && begun > round) || (is_old && finished == round))
            << "key " << keys[k];
      }
    }
  };
  std::vector<std::thread> threads;
  for (int64_t w = 0; w < 2; ++w) threads.emplace_back(write, w);
  for (uint64_t seed = 0; seed < 2; ++seed) threads.emplace_back(read, seed);
  for (std::thread& thread : threads) thread.join();
  StoredRecords expected;
  for (int64_t w = 0; w < 2; ++w) {
    for (int64_t round = 1; round <= num_rounds; ++round) {
      expected.merge(Records(KeysOfRound(w, round), std::min(round + 1, num_rounds), record_bytes));
    }
  }
  EXPECT_EQ(WalkStore(*store, 30), expected);
  EXPECT_EQ(store->num_rows(), static_cast<int64_t>(expected.size()));
}

// Puts one version after another of some rows while readers ask for them, and other rows come and
// go, so that places are taken over. A reader may see any version from the last one finished to the
// last one begun.
inline void CheckReadsOfReplacedRows(RowStore* store, int64_t num_versions) {
  constexpr int64_t kKeys = 300;
  constexpr size_t kRead = 20;
  const int64_t record_bytes = store->record_bytes();
  const auto width = static_cast<size_t>(record_bytes);
  ASSERT_TRUE(IsOk(PutRecords(store, Range(0, kKeys), 0)));
  std::atomic<int64_t> begun{0};
  std::atomic<int64_t> finished{0};
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 2; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      while (finished < num_versions) {
        const std::vector<int64_t> keys = RandomIds(kRead, 0, kKeys - 1, random());
        std::string records(kRead * width, '?');
        bool found[kRead];
        const int64_t least = finished;
        ASSERT_TRUE(IsOk(store->Get(keys.data(), kRead, records.data(), found)));
        const int64_t greatest = begun;
        for (size_t i = 0; i < kRead; ++i) {
          const std::string record = records.substr(width * i, width);
          bool is_one = false;
          for (int64_t v = least; v <= greatest && !is_one; ++v) {
            is_one = record == MakeRecord(keys[i], v, record_bytes);
          }
          ASSERT_TRUE(found[i] && is_one) << "key " << keys[i];
        }
      }
    });
  }
  threads.emplace_back([&] {
    for (int64_t round = 0; finished < num_versions; ++round) {
      const std::vector<int64_t> keys = Range(1000, 1000 + 10 * (round % 40));
      ASSERT_TRUE(IsOk(PutRecords(store, keys, round)));
      ExpectStored(*store, keys, Records(keys, round, record_bytes));
      ASSERT_TRUE(IsOk(store->Erase(keys.data(), static_cast<int64_t>(keys.size()))));
    }
  });
  for (int64_t version = 1; version <= num_versions; ++version) {
    begun = version;
    ASSERT_TRUE(IsOk(PutRecords(store, Range(0, kKeys), version)));
    finished = version;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(WalkStore(*store, 50), Records(Range(0, kKeys), num_versions, record_bytes));
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_CHECK_MOVING_ROWS_H_
