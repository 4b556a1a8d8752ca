// Many threads on shared tables. Meant for the thread sanitizer, but checks values everywhere.
#include <chrono>

#include "ops/core/operations/clear_rows.h"
#include "ops/core/stores/dram_store.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::concurrency_test {

constexpr int64_t kDim = 3;
constexpr int64_t kKeys = 50;

TableOptions FromZero(int64_t input_dim) {
  TableOptions options = Options(input_dim, kDim);
  options.initializer = {};
  return options;
}

// Three tables that every step moves alike, so that they agree whenever an op sees them together: a
// dynamic one, a static one, and a dynamic one over a lower tier. The last two are of float16,
// which holds all whole numbers up to 2048.
class Tables {
 public:
  Tables() {
    const RecordTypes of_half = {FloatType::kFloat16, FloatType::kFloat32};
    tables_.push_back(OpenWithRule(FromZero(-1), SgdRule()));
    tables_.push_back(OpenWithRule(Packed(FromZero(kKeys), of_half), SgdRule()));
    tables_.push_back(OpenWithRule(Packed(FromZero(-1), of_half), SgdRule()));
    EXPECT_TRUE(IsOk(AddLowerTier(tables_[2].get(), std::make_unique<DramStore>(8))));
  }

  EmbeddingTable* operator[](size_t i) const { return tables_[i].get(); }

  // All rows of all tables, asked for in a random order of tables: whole, alike, and legal.
  void CheckLookup(std::mt19937_64* random, Executor* executor) const {
    const std::vector<int64_t> ids = AllKeys();
    std::vector<std::vector<float>> rows(3, std::vector<float>(ids.size() * kDim));
    std::vector<LookupRequest> requests;
    for (size_t i = 0; i < 3; ++i) {
      requests.push_back({tables_[i].get(), ids.data(), NoBags(ids), rows[i].data()});
    }
    std::shuffle(requests.begin(), requests.end(), *random);
    ASSERT_TRUE(IsOk(LookupRows(requests, executor)));
    for (size_t i = 0; i < rows[0].size(); ++i) {
      ASSERT_EQ(rows[0][i], rows[0][i / kDim * kDim]) << "half an update";
      ASSERT_EQ(rows[1][i], rows[0][i]) << "an update of one table and not of another";
      ASSERT_EQ(rows[2][i], rows[0][i]) << "an update of one table and not of another";
    }
  }

  // Adds one to each element of these rows in all tables, which are named in a random order.
  void Increment(const std::vector<int64_t>& ids, std::mt19937_64* random, Executor* executor) {
    const std::vector<float> grads(ids.size() * kDim, -1);
    std::vector<ApplyRequest> requests;
    for (const auto& table : tables_) {
      requests.push_back(Request(table.get(), ids, NoBags(ids), grads));
    }
    std::shuffle(requests.begin(), requests.end(), *random);
    ASSERT_TRUE(IsOk(ApplyGradients(requests, executor)));
  }

  static std::vector<int64_t> AllKeys() { return Range(0, kKeys); }

 private:
  std::vector<std::unique_ptr<EmbeddingTable>> tables_;
};

// A walk over a table that others change: whole rows, no key twice, or an error that says so.
void CheckExport(const EmbeddingTable& table) {
  std::vector<int64_t> keys;
  ExportedRows rows;
  for (int64_t cursor = 0; cursor >= 0; cursor = rows.next_cursor) {
    const Status status = ExportRows(table, cursor, 5, &rows);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
      return;
    }
    keys.insert(keys.end(), rows.keys.begin(), rows.keys.end());
    for (size_t i = 0; i < rows.records.size(); ++i) {
      ASSERT_EQ(rows.records[i], rows.records[i / kDim * kDim]);
    }
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
}

void RunAll(const std::vector<std::function<void(std::mt19937_64* random)>>& bodies) {
  InThreads(bodies.size(), [&](size_t i) {
    std::mt19937_64 random(i);
    bodies[i](&random);
  });
}

TEST(Concurrency, LosesNoUpdateAndShowsNoHalfOfOne) {
  Tables tables;
  std::vector<std::atomic<int>> increments(kKeys);
  const auto train = [&](std::mt19937_64* random) {
    ThreadExecutor executor(2);
    for (int step = 0; step < 150; ++step) {
      std::vector<int64_t> ids(20);
      for (int64_t& id : ids) id = static_cast<int64_t>((*random)() % kKeys);
      tables.Increment(ids, random, &executor);
      for (const int64_t id : ids) ++increments[static_cast<size_t>(id)];
    }
  };
  const auto read = [&](std::mt19937_64* random) {
    ThreadExecutor executor(2);
    for (int i = 0; i < 150; ++i) tables.CheckLookup(random, &executor);
  };
  const auto demote = [&](std::mt19937_64* random) {
    for (int i = 0; i < 300; ++i) {
      const auto key = static_cast<int64_t>((*random)() % kKeys);
      ASSERT_TRUE(IsOk(Demote(tables[2], &key, 1)));
      std::this_thread::yield();
    }
  };
  const auto watch = [&](std::mt19937_64* random) {
    for (int i = 0; i < 150; ++i) {
      CheckExport(*tables[(*random)() % 3]);
      const TableStats stats = StatsOf(*tables[(*random)() % 3]);
      ASSERT_LE(stats.rows, kKeys);
      ASSERT_LE(stats.hits, stats.lookups);
    }
  };
  RunAll({train, read, demote, train, read, watch});
  const std::vector<int64_t> ids = Tables::AllKeys();
  for (size_t t = 0; t < 3; ++t) {
    const std::vector<float> rows = Lookup(tables[t], ids);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i], static_cast<float>(increments[i / kDim])) << "table " << t;
    }
  }
}

TEST(Concurrency, ShowsOnlyRowsThatSomebodyWrote) {
  for (const int64_t input_dim : {int64_t{-1}, kKeys}) {
    const auto table = OpenWithRule(FromZero(input_dim), SgdRule());
    const std::vector<int64_t> ids = Tables::AllKeys();
    const auto import = [&](std::mt19937_64* random) {
      ThreadExecutor executor(2);
      for (int i = 0; i < 100; ++i) {
        const auto value = static_cast<float>((*random)() % 100);
        const std::vector<float> rows(ids.size() * kDim, value);
        ASSERT_TRUE(IsOk(ImportAll(table.get(), ids, rows, &executor)));
        const Status status = i % 10 == 0   ? ClearRows(table.get(), &executor)
                              : i % 30 == 1 ? SetRule(table.get(), AdagradRule(0), &executor)
                              : i % 30 == 2 ? SetRule(table.get(), SgdRule(), &executor)
                                            : Status::Ok();
        ASSERT_TRUE(IsOk(status));
      }
    };
    const auto read = [&](std::mt19937_64* /*random*/) {
      ThreadExecutor executor(2);
      for (int i = 0; i < 200; ++i) {
        const std::vector<float> rows = Lookup(table.get(), ids, &executor);
        ASSERT_EQ(rows, std::vector<float>(rows.size(), rows[0])) << "half an import";
        ASSERT_LT(rows[0], 100);
      }
    };
    RunAll({import, read, import, read});
  }
}

// Says when it has the lock.
template <typename Locks>
std::thread Lock(EmbeddingTable* table, std::atomic<bool>* has_locked) {
  return std::thread([table, has_locked] {
    const Locks locks({table});
    *has_locked = true;
  });
}

TEST(Concurrency, LetsNoLookupPassAnUpdateThatWaits) {
  const auto table = Open(FromZero(-1));
  std::atomic<bool> updated{false};
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<std::atomic<bool>>> looked_up;
  {
    const ReadLocks lookup({table.get()});
    threads.push_back(Lock<WriteLocks>(table.get(), &updated));
    // The first lookups may come before the update waits.
    bool has_passed = true;
    for (int i = 0; i < 3000 && has_passed; ++i) {
      looked_up.push_back(std::make_unique<std::atomic<bool>>(false));
      threads.push_back(Lock<ReadLocks>(table.get(), looked_up.back().get()));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      has_passed = *looked_up.back();
    }
    EXPECT_FALSE(has_passed) << "3000 lookups passed an update";
    EXPECT_FALSE(updated);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(updated);
  EXPECT_TRUE(*looked_up.back());
}

TEST(Concurrency, NeverWaitsInACircle) {
  Tables tables;
  const auto work = [&](std::mt19937_64* random) {
    const std::vector<int64_t> ids = {1};
    for (int i = 0; i < 400; ++i) {
      if ((*random)() % 2 == 0) {
        tables.Increment(ids, random, Inline());
      } else {
        tables.CheckLookup(random, Inline());
      }
    }
  };
  RunAll({work, work, work, work});
}

}  // namespace keras_sparse::concurrency_test
