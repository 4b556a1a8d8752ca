// CacheStrategy: decides which rows of a first tier are the coldest.
#ifndef KERAS_SPARSE_OPS_CORE_FIRST_TIER_CACHE_STRATEGY_H_
#define KERAS_SPARSE_OPS_CORE_FIRST_TIER_CACHE_STRATEGY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "ops/core/base/status.h"

namespace keras_sparse {

// Covers the rows of one key shard, by number. Time is counted in updates of the table: all rows of
// an update are used at the same time, whatever the order of its ids.
//
// Thread safety: const methods may overlap; any other call needs exclusive access to the object.
class CacheStrategy {
 public:
  // `strategy` is "LRU" or "LFU". Returns InvalidArgument for any other.
  static Status Create(const std::string& strategy, std::unique_ptr<CacheStrategy>* order);

  virtual ~CacheStrategy() = default;

  // Makes room for rows 0 to num_rows - 1.
  virtual void Resize(int64_t num_rows) = 0;
  // Adds a row, which counts as used.
  virtual void Start(uint32_t row, uint32_t now) = 0;
  virtual void Use(uint32_t row, uint32_t now) = 0;
  // Copies the uses of row `from` in `order` to row `to` here.
  //   order  of the same strategy; may be this object
  virtual void Take(const CacheStrategy& order, uint32_t from, uint32_t to) = 0;
  // The row with the lowest score is demoted first.
  virtual uint64_t Score(uint32_t row, uint32_t now) const = 0;
  virtual int64_t bytes() const = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_FIRST_TIER_CACHE_STRATEGY_H_
