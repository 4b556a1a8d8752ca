// The tiers that there are below a GPU's memory, and reads of tables in it while they change.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_HBM_STACKS_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_HBM_STACKS_H_

#include <atomic>
#include <thread>

#include "ops/core/stores/row_store.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/temp_folder.h"

namespace keras_sparse {

using Tiers = std::vector<std::string>;

inline std::vector<Tiers> HbmStacks() {
  return {{"dram"},
          {"dram", "pmem"},
          {"dram", "leveldb"},
          {"dram", "ssdhash"},
          {"dram", "pmem", "leveldb"},
          {"dram", "pmem", "ssdhash"}};
}

// Such as "dram_pmem".
inline std::string NameOf(const Tiers& tiers) {
  std::string name;
  for (const std::string& tier : tiers) name += (name.empty() ? "" : "_") + tier;
  return name;
}

// LevelDB and persistent memory may be left out of the build.
inline bool AreInThisBuild(const Tiers& tiers) {
  const TempFolder folder;
  for (const std::string& tier : tiers) {
    std::unique_ptr<RowStore> store;
    if (!RowStore::Open({tier, folder / tier, 4, 1 << 20}, &store).ok()) return false;
  }
  return true;
}

// Of a GPU over these tiers: so many bytes of its memory and of those between, and a last one that
// holds all.
inline StorageOptions HbmOver(const Tiers& tiers, int64_t hbm_bytes, int64_t middle_bytes,
                              const std::string& path = "", const std::string& strategy = "LRU") {
  StorageOptions storage;
  storage.device = OpenDevice();
  storage.lower_tiers = tiers;
  storage.sizes.assign(tiers.size(), middle_bytes);
  storage.sizes[0] = hbm_bytes;
  storage.sizes.push_back(int64_t{1} << 30);
  storage.path = path;
  storage.cache_strategy = strategy;
  return storage;
}

// Calls update() while threads look up ids of which it moves all rows alike: each lookup sees all
// of an update, or nothing of it.
inline void ReadEqualRowsWhile(EmbeddingTable* table, const std::vector<int64_t>& ids,
                               const std::function<void()>& update) {
  std::atomic<bool> is_over{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!is_over) {
        const std::vector<float> rows = Lookup(table, ids);
        for (const float each : rows) ASSERT_EQ(each, rows[0]);
      }
    });
  }
  update();
  is_over = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_HBM_STACKS_H_
