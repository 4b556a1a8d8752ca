// TableOptions: the options of an EmbeddingTable.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_TABLE_OPTIONS_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_TABLE_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/device/device.h"
#include "ops/core/ids/owned_keys.h"
#include "ops/core/record/initializer.h"
#include "ops/core/record/record_layout.h"
#include "ops/core/table/wall_clock.h"

namespace keras_sparse {

// The tiers of a dynamic table.
struct StorageOptions {
  // Tiers below the first, from fastest to slowest; see RowStore::Open. Empty for the first tier
  // alone.
  std::vector<std::string> lower_tiers;
  // Bytes per tier, starting with the first. A table of one tier may leave this empty, or pass
  // INT64_MAX for no limit.
  std::vector<int64_t> sizes;
  std::string path;  // folder for the files of lower tiers
  std::string cache_strategy = "LRU";
  // The GPU whose memory is the first tier; null for a first tier in host memory.
  std::shared_ptr<Device> device = nullptr;
};

struct TableOptions {
  std::string name;        // the user's name for the table, used in messages
  int64_t input_dim = -1;  // rows of a static table, 0 allowed; -1 makes a dynamic table
  int64_t output_dim = 0;
  InitializerOptions initializer;
  // If true, a static table reads an id outside [0, input_dim) as zeros and counts it. If false, it
  // rejects such ids.
  bool out_of_range_is_zero = false;
  StorageOptions storage;
  // The types of stored rows and slots, and whether updates round to them at random rather than to
  // the nearest.
  RecordTypes types = {};
  bool rounds_randomly = true;
  // Words that a dynamic table keeps about each row's gradients, 4 bytes each.
  KeptWords keeps = {};
  // If true, rows are marked with the time of `clock` at a gradient; else with the table's step.
  bool ages_in_seconds = false;
  WallClock::Source clock = WallClock::SystemSeconds;
  // For a dynamic table: this shard holds the rows of keys with key % num_shards == shard.
  int64_t shard = 0;
  int64_t num_shards = 1;

  bool is_dynamic() const { return input_dim < 0; }
  bool outside_is_zero() const { return !is_dynamic() && out_of_range_is_zero; }
  OwnedKeys owned_keys() const {
    return is_dynamic() ? OwnedKeys{-1, shard, num_shards} : OwnedKeys{input_dim};
  }
  bool has_lower_tiers() const { return !storage.lower_tiers.empty(); }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_TABLE_OPTIONS_H_
