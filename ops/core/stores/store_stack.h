// The lower tiers of a table as one store.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_STORE_STACK_H_
#define KERAS_SPARSE_OPS_CORE_STORES_STORE_STACK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/record/record_layout.h"
#include "ops/core/stores/instrumented_store.h"
#include "ops/core/stores/row_store.h"

namespace keras_sparse {

struct StoreStack {
  std::unique_ptr<RowStore> store;                 // null if there are no tiers
  std::vector<InstrumentedStore*> counted_stores;  // each of the tiers, within it

  // Opens these, from the fastest to the slowest. Each gives what it has no room for to the next
  // one, and all are written in the background. Unimplemented if one above another does not know
  // its oldest rows.
  static Status Open(const std::vector<StoreOptions>& options, StoreStack* stack);
};

// Puts all rows of a store into another one, laid out anew, as RecordLayout::LayOut does it for a
// rule at `step`. Returns when they are there.
Status LayOutStore(const RowStore& store, const RecordLayout& from, const RecordLayout& to,
                   int64_t step, RowStore* laid_out);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_STORE_STACK_H_
