#include "ops/core/first_tier/cache_strategy.h"

#include <vector>

#include "ops/core/record/row_uses.h"

namespace keras_sparse {
namespace {

// Resizes to exactly this capacity, because a tier's memory is counted.
template <typename T>
void ResizeTo(int64_t num_rows, std::vector<T>* rows) {
  rows->reserve(static_cast<size_t>(num_rows));
  rows->resize(static_cast<size_t>(num_rows));
  rows->shrink_to_fit();
}

// The row whose last use is longest ago is the coldest.
class LeastRecentlyUsed : public CacheStrategy {
 public:
  void Resize(int64_t num_rows) override { ResizeTo(num_rows, &last_); }
  void Start(uint32_t row, uint32_t now) override { last_[row] = now; }
  void Use(uint32_t row, uint32_t now) override { last_[row] = now; }
  void Take(const CacheStrategy& order, uint32_t from, uint32_t to) override {
    last_[to] = static_cast<const LeastRecentlyUsed&>(order).last_[from];
  }
  uint64_t Score(uint32_t row, uint32_t now) const override {
    return RecencyScore(last_[row], now);
  }
  int64_t bytes() const override {
    return static_cast<int64_t>(last_.capacity() * sizeof(last_[0]));
  }

 private:
  std::vector<uint32_t> last_;
};

// The row with the fewest updates since it was added is the coldest; among equals, the least
// recently used.
class LeastFrequentlyUsed : public CacheStrategy {
 public:
  void Resize(int64_t num_rows) override { ResizeTo(num_rows, &rows_); }
  void Start(uint32_t row, uint32_t now) override { rows_[row] = {1, now}; }
  void Use(uint32_t row, uint32_t now) override {
    if (rows_[row].last != now) rows_[row] = rows_[row].UsedAt(now);
  }
  void Take(const CacheStrategy& order, uint32_t from, uint32_t to) override {
    rows_[to] = static_cast<const LeastFrequentlyUsed&>(order).rows_[from];
  }
  uint64_t Score(uint32_t row, uint32_t now) const override {
    return rows_[row].FrequencyScore(now);
  }
  int64_t bytes() const override {
    return static_cast<int64_t>(rows_.capacity() * sizeof(rows_[0]));
  }

 private:
  std::vector<RowUses> rows_;
};

}  // namespace

Status CacheStrategy::Create(const std::string& strategy, std::unique_ptr<CacheStrategy>* order) {
  if (strategy == "LRU") {
    *order = std::make_unique<LeastRecentlyUsed>();
  } else if (strategy == "LFU") {
    *order = std::make_unique<LeastFrequentlyUsed>();
  } else {
    return InvalidArgument(
        "`cache_strategy` must be one of ('LRU', 'LFU'). Received: "
        "cache_strategy='" +
        strategy + "'");
  }
  return Status::Ok();
}

}  // namespace keras_sparse
