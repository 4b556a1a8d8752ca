// A GPU that fails in the midst of its work, or has no room for a table.
#include "ops/core/operations/read_stats.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/hbm_stacks.h"
#include "tests/ops/core/support/snapshot_testing.h"

#ifndef __CUDACC__
namespace keras_sparse::hbm_failure_test {

constexpr int64_t kDim = 4;

// The emulated GPU's memory is that of the process.
Status ApplyTo(EmbeddingTable* table, const std::vector<int64_t>& ids) {
  const std::vector<float> grads(ids.size() * kDim, 1);
  return ApplyGradients({Request(table, ids, NoBags(ids), grads, {0.1f, 0.1f})}, Inline());
}
Status LookupIn(EmbeddingTable* table, const std::vector<int64_t>& ids) {
  std::vector<float> rows(ids.size() * kDim);
  return LookupRows({{table, ids.data(), NoBags(ids), rows.data()}}, Inline());
}

// New rows, known ones and cold ones; what goes down and comes up; a save.
Status Train(EmbeddingTable* table) {
  const bool is_dynamic = table->options().is_dynamic();
  for (const auto& ids : {Range(0, 30), Range(20, 60), Range(0, 5)}) {
    KERAS_SPARSE_RETURN_IF_ERROR(LookupIn(table, ids));
    KERAS_SPARSE_RETURN_IF_ERROR(ApplyTo(table, ids));
  }
  if (is_dynamic) KERAS_SPARSE_RETURN_IF_ERROR(EraseRows(table, {1, 2}));
  RawRows rows;
  for (int64_t cursor = 0; cursor >= 0; cursor = rows.next_cursor) {
    KERAS_SPARSE_RETURN_IF_ERROR(TableSnapshot(table).Export({}, cursor, 100, &rows));
  }
  return LookupIn(table, Range(0, 60));
}

void ExpectFailed(const Status& status) {
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "load the last checkpoint", status));
  EXPECT_NE(status.message().find("an illegal memory access"), std::string::npos);
}

// For good, whatever the GPU does from then on.
void ExpectNoMoreWork(EmbeddingTable* table) {
  ExpectFailed(ApplyTo(table, {1, 2}));
  ExpectFailed(LookupIn(table, {1, 2}));
  ExpectFailed(ImportAll(table, Range(0, 2), RandomFloats(2 * kDim, 1)));
  ExpectFailed(SetRule(table, SgdRule(), Inline()));
  const bool has_rows = NumRowsOf(*table) > 0;  // else there is nothing to do
  if (table->options().is_dynamic() && has_rows) ExpectFailed(EraseRows(table, {1}));
}

TEST(HbmFailure, IsAnErrorOfAllThatIsAskedOfItsTablesAfterwards) {
  const emulated::Options before = emulated::options();
  for (int kind = 0; kind < 3; ++kind) {
    TableOptions options = kind == 0 ? Options(60, kDim) : Dynamic(kDim);
    bool has_failed = true;
    int64_t work = 0;
    for (; has_failed; work += 7) {
      if (kind == 2) options.storage = HbmOver({"dram"}, 20 * 96, 1);
      if (kind != 2) options.storage.device = OpenDevice();
      const auto table = OpenWithRule(options, AdamRule());
      emulated::options().work_left = work;
      const Status trained = Train(table.get());
      has_failed = !trained.ok();
      emulated::options() = before;
      if (!has_failed) break;
      ExpectFailed(trained);
      ExpectNoMoreWork(table.get());
    }
    EXPECT_GT(work, 80) << kind;
  }
}

TEST(HbmFailure, IsThatOfOneGpu) {
  const emulated::Options before = emulated::options();
  const auto failed = OpenDevice();
  emulated::options().work_left = 0;
  ExpectFailed(failed->Wait());
  emulated::options() = before;
  ExpectFailed(failed->CheckWorks());
  void* memory = nullptr;
  ExpectFailed(failed->Allocate(16, &memory));
  ExpectFailed(failed->Fill(memory, 0, 16));
  ExpectFailed(failed->CopyToDevice(nullptr, 0, nullptr));
  EXPECT_TRUE(IsOk(OpenDevice()->Wait()));
}

TEST(HbmRoom, IsAskedForBeforeATableIsMade) {
  TableOptions options = Options(int64_t{1} << 24, kDim);
  options.storage.device = OpenDevice();
  std::unique_ptr<EmbeddingTable> table;
  const Status status = EmbeddingTable::Open(options, Inline(), &table);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted,
                        "must fit the GPU's memory; keep it in the CPU's", status));
  EXPECT_NE(status.message().find(" bytes more, where "), std::string::npos);
  EXPECT_NE(status.message().find(" of 67108864 bytes of the GPU are free"), std::string::npos);
  EXPECT_EQ(table, nullptr);
}

}  // namespace keras_sparse::hbm_failure_test
#endif
