// TieredStore: two lower tiers as one; rows that exceed the upper tier move to the lower one.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_TIERED_STORE_H_
#define KERAS_SPARSE_OPS_CORE_STORES_TIERED_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/stores/row_store.h"

namespace keras_sparse {

// Rows are put into the upper tier. If it is full, it moves its oldest rows (those put first) to
// the lower tier, as many as the new rows need. If a batch is larger than the tier, its first rows
// are put into the lower tier directly. A record that replaces another stays in that record's tier.
// Get asks the upper tier, then the lower one.
//
// A key is in one tier. After a failed erase it may be in both for a while: the upper one counts,
// and the lower copy is never seen. If the lower tier rejects rows, Put fails, and the rows stay
// where they are.
//
// Rows are copied down before they are erased above, so that readers, which look from top to
// bottom, find each row. Changes are serialized; readers never wait for a change.
class TieredStore : public RowStore {
 public:
  // Returns Unimplemented if the upper store does not know its oldest rows.
  static Status Open(std::unique_ptr<RowStore> upper, std::unique_ptr<RowStore> lower,
                     std::unique_ptr<RowStore>* store);

  // Both names, such as "pmem_ssdhash".
  const char* tier() const override { return tier_.c_str(); }
  int64_t record_bytes() const override { return upper_->record_bytes(); }
  // Counts a row twice while it is being moved down.
  int64_t num_rows() const override { return upper_->num_rows() + lower_->num_rows(); }
  int64_t bytes() const override { return upper_->bytes() + lower_->bytes(); }
  int64_t memory_bytes() const override { return upper_->memory_bytes() + lower_->memory_bytes(); }
  void Contains(const int64_t* keys, int64_t n, bool* found) const override;
  Status GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const override;
  Status Put(const int64_t* keys, int64_t n, const char* records) override;
  Status Erase(const int64_t* keys, int64_t n) override;
  Status Clear() override;
  Status Compact() override;
  // Walks the lower tier first, so that a store filled in this order keeps the same rows above.
  Status Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
              std::vector<char>* records, int64_t* next) const override {
    return WalkBoth(&RowStore::Walk, cursor, max_rows, keys, records, next);
  }
  Status LinkFiles(const std::string& path_prefix, std::vector<LinkedFile>* files) override;
  Status WalkUnlinked(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                      std::vector<char>* records, int64_t* next) const override {
    return WalkBoth(&RowStore::WalkUnlinked, cursor, max_rows, keys, records, next);
  }
  bool links_all() const override { return upper_->links_all() && lower_->links_all(); }

 private:
  using WalkMethod = Status (RowStore::*)(int64_t, int64_t, std::vector<int64_t>*,
                                          std::vector<char>*, int64_t*) const;

  TieredStore(std::unique_ptr<RowStore> upper, std::unique_ptr<RowStore> lower)
      : upper_(std::move(upper)),
        lower_(std::move(lower)),
        tier_(std::string(upper_->tier()) + "_" + lower_->tier()) {}

  Status WalkBoth(WalkMethod walk, int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                  std::vector<char>* records, int64_t* next) const;
  // Moves rows down until the upper tier has room for `num_rows` new ones, or has none left to
  // move.
  Status MakeRoom(int64_t num_rows) REQUIRES(write_mutex_);

  const std::unique_ptr<RowStore> upper_;
  const std::unique_ptr<RowStore> lower_;
  const std::string tier_;
  Mutex write_mutex_;  // serializes changes
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_TIERED_STORE_H_
