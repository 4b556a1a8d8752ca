// StoreStack: the lower tiers of a table as one store.
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
  std::unique_ptr<RowStore> store;                 // null if there are no lower tiers
  std::vector<InstrumentedStore*> counted_stores;  // each tier inside `store`

  // Opens these tiers, from fastest to slowest. A full tier moves rows to the next one, and all
  // tiers are written in the background. Returns Unimplemented if a tier above another does not
  // know its oldest rows.
  static Status Open(const std::vector<StoreOptions>& options, StoreStack* stack);
};

// Writes all rows of a store into another one in a new layout, as RecordLayout::LayOut does for a
// rule at `step`. Returns when they are written.
Status LayOutStore(const RowStore& store, const RecordLayout& from, const RecordLayout& to,
                   int64_t step, RowStore* laid_out);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_STORE_STACK_H_
