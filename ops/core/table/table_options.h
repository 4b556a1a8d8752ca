// What an EmbeddingTable is made from.
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
  // Below the first, from the fastest to the slowest; see RowStore::Open. None for the first alone.
  std::vector<std::string> lower_tiers;
  // Bytes a tier, from the first on. It alone may have none, or INT64_MAX: no limit.
  std::vector<int64_t> sizes;
  std::string path;  // a folder for the lower tiers' files
  std::string cache_strategy = "LRU";
  // The GPU whose memory is the first tier; null if that is the CPU's.
  std::shared_ptr<Device> device = nullptr;
};

struct TableOptions {
  std::string name;        // as the user knows it, for messages
  int64_t input_dim = -1;  // rows of a static table, perhaps none; -1 makes a dynamic one
  int64_t output_dim = 0;
  InitializerOptions initializer;
  // A static table reads an id outside [0, input_dim) as zeros and counts it, instead of refusing.
  bool out_of_range_is_zero = false;
  StorageOptions storage;
  // What a dynamic table remembers of each row's gradients, in 4 bytes a row each.
  KeptWords keeps = {};
  // Whether a gradient's step is the time by `clock`, rather than the step of the table.
  bool ages_in_seconds = false;
  WallClock::Source clock = WallClock::SystemSeconds;
  // Of a dynamic table: the rows of the keys with key % num_shards == shard are here.
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
