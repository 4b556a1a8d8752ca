// OwnedKeys: which keys a table owns, and the error for other keys.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_OWNED_KEYS_H_
#define KERAS_SPARSE_OPS_CORE_IDS_OWNED_KEYS_H_

#include <cstdint>
#include <string>

#include "ops/core/base/host_device.h"
#include "ops/core/base/status.h"

namespace keras_sparse {

// A static table owns the ids in [0, input_dim). A dynamic table owns every key; if ranks share its
// rows, the keys with key % num_shards == shard.
struct OwnedKeys {
  int64_t input_dim = -1;  // negative for a dynamic table
  int64_t shard = 0;
  int64_t num_shards = 1;

  KERAS_SPARSE_HOST_DEVICE bool is_dynamic() const { return input_dim < 0; }
  KERAS_SPARSE_HOST_DEVICE bool are_all() const { return is_dynamic() && num_shards == 1; }

  KERAS_SPARSE_HOST_DEVICE bool Hold(int64_t key) const {
    if (!is_dynamic()) return key >= 0 && key < input_dim;
    return num_shards == 1 || ShardOf(key) == shard;
  }

  // As Python's %: never negative. The number of ranks is usually a power of two, which avoids a
  // slow division.
  KERAS_SPARSE_HOST_DEVICE int64_t ShardOf(int64_t key) const {
    if ((num_shards & (num_shards - 1)) == 0) return key & (num_shards - 1);
    const int64_t remainder = key % num_shards;
    return remainder < 0 ? remainder + num_shards : remainder;
  }

  // Returns the error for a key that the table does not own.
  //   list  the name of the list that contains the key
  Status Refuse(const std::string& table, const char* list, int64_t place, int64_t key) const {
    const std::string received = ". Received: " + std::string(list) + "[" + std::to_string(place) +
                                 "] = " + std::to_string(key);
    if (!is_dynamic()) {
      const bool is_lookup = std::string(list) == "ids";  // ops that write rows say `keys`
      const std::string option = is_lookup ? "; out_of_range=\"zero\" reads others as zeros" : "";
      return InvalidArgument("id must be in [0, " + std::to_string(input_dim) + ") for table '" +
                             table + "'" + option + received);
    }
    return InvalidArgument("key % " + std::to_string(num_shards) + " must be " +
                           std::to_string(shard) + " for this part of table '" + table +
                           "', whose rows ranks share. Look keys up and train them through the "
                           "layer, on all ranks" +
                           received + ", whose row rank " + std::to_string(ShardOf(key)) + " owns");
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_IDS_OWNED_KEYS_H_
