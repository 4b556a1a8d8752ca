// The size of a first tier: of memory alone it is the most there can be, over lower tiers it may be
// exceeded while an update needs the rows.
#include "ops/core/operations/evict_rows.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/temp_folder.h"

namespace keras_sparse::first_tier_size_test {

constexpr int64_t kSize = 2 << 20;

TEST(FirstTierSize, OfMemoryAloneLetsNoRowGoWhenItIsReached) {
  TableOptions options = Dynamic(64);
  options.storage.sizes = {kSize};
  const auto table = OpenWithRule(options, AdagradRule(0.1));
  const auto plain = OpenWithRule(Dynamic(64), AdagradRule(0.1));
  const std::vector<float> grads = RandomFloats(100 * 64, 7);
  Status status;
  for (int64_t step = 0; step < 100; ++step) {
    const std::vector<int64_t> ids = RandomIds(100, 0, 1 << 30, static_cast<uint64_t>(step));
    status = Apply(table.get(), {0.1f}, ids, grads);
    if (!status.ok()) break;
    ASSERT_TRUE(IsOk(Apply(plain.get(), {0.1f}, ids, grads)));
  }
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted,
                        "`storage_size` must hold all rows of table 'items', which has no lower "
                        "tier; give it more, or a lower tier by `storage_type`, or evict rows. "
                        "Received: 2097152 bytes where ",
                        status));
  // What is there is all that was trained, and reads as ever.
  EXPECT_EQ(ExportAll(*table), ExportAll(*plain));
  EXPECT_GT(FirstTierBytes(*table), kSize);
  EXPECT_LE(FirstTierBytes(*table), kSize + 120 * 600);  // a batch more
  // Nor does it take rows in another way, and not even those it has are changed.
  const std::vector<int64_t> new_id = {-1};
  const std::vector<float> row(64, 1.0f);
  EXPECT_EQ(ImportAll(table.get(), new_id, row).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ExportAll(*table), ExportAll(*plain));
  // Rows that go make room.
  const std::vector<int64_t> gone = RandomIds(100, 0, 1 << 30, 0);
  for (EmbeddingTable* each : {table.get(), plain.get()}) {
    for (uint64_t step = 0; step < 10; ++step) {
      const std::vector<int64_t> ids = RandomIds(100, 0, 1 << 30, step);
      ASSERT_TRUE(IsOk(EraseRows(each, ids.data(), 100, Inline())));
    }
    ASSERT_TRUE(IsOk(Apply(each, {0.1f}, gone, grads)));
  }
  EXPECT_EQ(ExportAll(*table), ExportAll(*plain));
}

TEST(FirstTierSize, OfAStaticTableHoldsItsRowsAndSlotsOrIsRefused) {
  TableOptions options = Options(100, 4);
  options.storage.sizes = {100 * 16 - 1};
  std::unique_ptr<EmbeddingTable> table;
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted,
                        "must hold all rows of static table 'items' with their slots; give it "
                        "more. Received: 1599 bytes for 100 rows of 16 bytes",
                        EmbeddingTable::Open(options, Inline(), &table)));
  options.storage.sizes = {100 * 32 - 1};
  ASSERT_TRUE(IsOk(EmbeddingTable::Open(options, Inline(), &table)));
  const auto before = ExportAll(*table);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "for 100 rows of 32 bytes",
                        SetRule(table.get(), AdagradRule(0.1), Inline())));
  EXPECT_EQ(ExportAll(*table), before);
  EXPECT_TRUE(IsOk(SetRule(table.get(), SgdRule(), Inline())));
  options.storage.sizes = {100 * 32};
  ASSERT_TRUE(IsOk(EmbeddingTable::Open(options, Inline(), &table)));
  EXPECT_TRUE(IsOk(SetRule(table.get(), AdagradRule(0.1), Inline())));
}

TEST(FirstTierSize, OverLowerTiersIsExceededForAnUpdateAndThatIsCounted) {
  const TempFolder folder;
  TableOptions options = Dynamic(64);
  options.storage = {{"ssdhash"}, {kSize, 1 << 30}, folder / "rows", "LRU"};
  const auto table = OpenWithRule(options, AdagradRule(0.1));
  ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f}, {1, 2, 3}, std::vector<float>(3 * 64, 1.0f))));
  EXPECT_LE(StatsOf(*table).peak_first_tier_bytes, kSize);
  const std::vector<int64_t> ids = RandomIds(20000, 0, int64_t{1} << 60, 1);
  ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f}, ids, std::vector<float>(20000 * 64, 1.0f))));
  EXPECT_LE(FirstTierBytes(*table), kSize * 105 / 100);
  EXPECT_GT(StatsOf(*table).peak_first_tier_bytes, 20000 * 64 * 8);
}

}  // namespace keras_sparse::first_tier_size_test
