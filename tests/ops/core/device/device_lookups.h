// Ops on vectors for tables in a GPU's memory, where what they read and write must be too.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_DEVICE_DEVICE_LOOKUPS_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_DEVICE_DEVICE_LOOKUPS_H_

#include <map>

#include "ops/core/base/executor.h"
#include "ops/core/base/mutex.h"
#include "ops/core/device/device_array.h"
#include "ops/core/operations/apply.h"
#include "ops/core/operations/lookup.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse {

// Ids, their bags and what else an op reads, copied to a table's device.
class DeviceCopies {
 public:
  explicit DeviceCopies(const EmbeddingTable& table)
      : device_(table.options().storage.device.get()) {}

  template <typename T>
  const T* Of(const T* values, int64_t n) {
    if (values == nullptr) return nullptr;
    DeviceArray<char> copy;
    const auto* bytes = reinterpret_cast<const char*>(values);
    EXPECT_TRUE(IsOk(DeviceArray<char>::Copy(
        device_, {bytes, bytes + n * static_cast<int64_t>(sizeof(T))}, &copy)));
    copies_.push_back(std::move(copy));
    return reinterpret_cast<const T*>(copies_.back().data());
  }
  Bags Of(Bags bags) {
    bags.row_splits = Of(bags.row_splits, bags.num_bags + 1);
    bags.weights = Of(bags.weights, bags.num_ids);
    return bags;
  }

 private:
  Device* device_;
  std::vector<DeviceArray<char>> copies_;
};

// What the last lookup of each table has copied, while the table keeps what it has found: an update
// of the same ids reads them where they are, as in a training step.
class LastLookups {
 public:
  struct Lists {
    std::vector<int64_t> ids;
    Combiner combiner;
    std::vector<int64_t> row_splits;

    static Lists Of(const int64_t* ids, const Bags& bags) {
      Lists lists{{ids, ids + bags.num_ids}, bags.combiner, {}};
      if (bags.combiner != Combiner::kNone) {
        lists.row_splits.assign(bags.row_splits, bags.row_splits + bags.num_bags + 1);
      }
      return lists;
    }
    bool operator==(const Lists& other) const {
      return ids == other.ids && combiner == other.combiner && row_splits == other.row_splits;
    }
  };
  // Where ids and row_splits are on the GPU.
  struct Copied {
    Lists lists;
    DeviceCopies copies;
    const int64_t* ids = nullptr;
    const int64_t* row_splits = nullptr;
  };

  static void Set(const EmbeddingTable* table, const std::shared_ptr<Copied>& copied) {
    const MutexLock lock(mutex());
    all()[table] = copied;
  }
  // Null if it was of others, or nothing of it is kept.
  static std::shared_ptr<const Copied> Get(const EmbeddingTable* table, const Lists& lists) {
    const MutexLock lock(mutex());
    const std::shared_ptr<const Copied> last = all()[table].lock();
    return last != nullptr && last->lists == lists ? last : nullptr;
  }

 private:
  static Mutex& mutex() {
    static Mutex mutex;
    return mutex;
  }
  static std::map<const EmbeddingTable*, std::weak_ptr<Copied>>& all() {
    static std::map<const EmbeddingTable*, std::weak_ptr<Copied>> all;
    return all;
  }
};

// LookupRows for one table.
//   rows  (bags.num_bags, dim)
inline Status LookupOnDevice(EmbeddingTable* table, const std::vector<int64_t>& ids,
                             const Bags& bags, std::vector<float>* rows, Executor* executor) {
  const auto copied = std::make_shared<LastLookups::Copied>(
      LastLookups::Copied{LastLookups::Lists::Of(ids.data(), bags), DeviceCopies(*table)});
  const Bags bags_there = copied->copies.Of(bags);
  copied->ids = copied->copies.Of(ids.data(), bags.num_ids);
  copied->row_splits = bags_there.row_splits;
  LastLookups::Set(table, copied);
  DeviceArray<float> output;
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<float>::Copy(table->options().storage.device.get(), *rows, &output));
  LookupRequest request = {table, copied->ids, bags_there, output.data()};
  request.ids_owner = copied;
  KERAS_SPARSE_RETURN_IF_ERROR(LookupRows({request}, executor));
  KERAS_SPARSE_RETURN_IF_ERROR(CheckLookups({{table, {{copied->ids, bags.num_ids}}}}));
  return output.Read(rows);
}

// ApplyGradients.
inline Status ApplyOnDevice(const std::vector<ApplyRequest>& host_requests, Executor* executor) {
  std::vector<ApplyRequest> requests = host_requests;
  std::vector<DeviceCopies> copies;
  std::vector<std::shared_ptr<const LastLookups::Copied>> held;
  for (ApplyRequest& request : requests) {
    copies.emplace_back(*request.table);
    for (OutputGradient& gradient : request.gradients) {
      const auto looked_up =
          LastLookups::Get(request.table, LastLookups::Lists::Of(gradient.ids, gradient.bags));
      held.push_back(looked_up);
      gradient.ids = looked_up != nullptr ? looked_up->ids
                                          : copies.back().Of(gradient.ids, gradient.bags.num_ids);
      const auto* grads = static_cast<const float*>(gradient.grads.data);
      gradient.grads.data = copies.back().Of(grads, gradient.bags.num_bags * gradient.dim);
      gradient.bags = copies.back().Of(gradient.bags);
      if (looked_up != nullptr) gradient.bags.row_splits = looked_up->row_splits;
    }
  }
  return ApplyGradients(requests, executor);
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_DEVICE_DEVICE_LOOKUPS_H_
