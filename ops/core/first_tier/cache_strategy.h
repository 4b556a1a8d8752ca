// Which rows of a first tier are the coldest.
#ifndef KERAS_SPARSE_OPS_CORE_FIRST_TIER_CACHE_STRATEGY_H_
#define KERAS_SPARSE_OPS_CORE_FIRST_TIER_CACHE_STRATEGY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "ops/core/base/status.h"

namespace keras_sparse {

// Of the rows of one key shard, by their number. Time is counted in updates of the table: what one
// update uses is used at one time, whatever the order of its ids.
//
// Thread safety: const methods may overlap; any other call needs the order alone.
class CacheStrategy {
 public:
  // `strategy` is "LRU" or "LFU". InvalidArgument for another.
  static Status Create(const std::string& strategy, std::unique_ptr<CacheStrategy>* order);

  virtual ~CacheStrategy() = default;

  // Makes room for rows 0 to num_rows - 1.
  virtual void Resize(int64_t num_rows) = 0;
  // A row comes in, and is used.
  virtual void Start(uint32_t row, uint32_t now) = 0;
  virtual void Use(uint32_t row, uint32_t now) = 0;
  // A row that `order` knows by the number `from` is `to` here.
  //   order  of the same strategy; this one too
  virtual void Take(const CacheStrategy& order, uint32_t from, uint32_t to) = 0;
  // The row with the lowest score leaves first.
  virtual uint64_t Score(uint32_t row, uint32_t now) const = 0;
  virtual int64_t bytes() const = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_FIRST_TIER_CACHE_STRATEGY_H_
