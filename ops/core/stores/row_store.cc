#include "ops/core/stores/row_store.h"

#include "ops/core/base/registry.h"

namespace keras_sparse {
namespace {

Registry<RowStore::Factory>& Stores() {
  static auto* stores = new Registry<RowStore::Factory>("a lower tier of this build");
  return *stores;
}

}  // namespace

bool RowStore::Register(const std::string& kind, Factory factory) {
  return Stores().Add(kind, factory);
}

Status RowStore::Open(const StoreOptions& options, std::unique_ptr<RowStore>* store) {
  Factory factory = nullptr;
  KERAS_SPARSE_RETURN_IF_ERROR(Stores().Find(options.kind, &factory));
  return factory(options, store);
}

Status RowStore::Get(const int64_t* keys, int64_t n, char* records, bool* found) const {
  std::vector<char*> to(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) to[static_cast<size_t>(i)] = records + i * record_bytes();
  return GetTo(keys, n, to.data(), found);
}

Status RowStore::GetPlaces(const std::vector<int64_t>& places, const int64_t* keys, char* const* to,
                           bool* found) const {
  if (places.empty()) return Status::Ok();
  std::vector<int64_t> keys_there;
  std::vector<char*> to_there;
  for (const int64_t place : places) {
    keys_there.push_back(keys[place]);
    to_there.push_back(to[place]);
  }
  const auto is_found = std::make_unique<bool[]>(places.size());
  KERAS_SPARSE_RETURN_IF_ERROR(GetTo(keys_there.data(), static_cast<int64_t>(places.size()),
                                     to_there.data(), is_found.get()));
  for (size_t i = 0; i < places.size(); ++i) found[places[i]] = is_found[i];
  return Status::Ok();
}

Status RowStore::AppendRecords(const std::vector<int64_t>& walked, std::vector<int64_t>* keys,
                               std::vector<char>* records) const {
  const auto bytes = static_cast<size_t>(record_bytes());
  std::vector<char> read(walked.size() * bytes);
  const auto found = std::make_unique<bool[]>(walked.size());
  KERAS_SPARSE_RETURN_IF_ERROR(
      Get(walked.data(), static_cast<int64_t>(walked.size()), read.data(), found.get()));
  for (size_t i = 0; i < walked.size(); ++i) {
    if (!found[i]) continue;
    keys->push_back(walked[i]);
    const char* record = read.data() + i * bytes;
    records->insert(records->end(), record, record + bytes);
  }
  return Status::Ok();
}

Status RowStore::Oldest(int64_t /*n*/, std::vector<int64_t>* /*keys*/,
                        std::vector<char>* /*records*/) const {
  return Status(StatusCode::kUnimplemented,
                "a tier above another lower tier must know which of its rows are the oldest, and " +
                    std::string(tier()) + " does not; make it the last one");
}

Status RowStore::TierIsFull(const std::string& folder, int64_t capacity, int64_t needed) const {
  return ResourceExhausted("the size of the " + std::string(tier()) +
                           " tier must hold all rows that do not fit above it; give it more in "
                           "`storage_size` (1 GiB where that says none), or evict rows. "
                           "Received: " +
                           std::to_string(capacity) + " bytes where " + std::to_string(needed) +
                           " are needed, in '" + folder + "'");
}

}  // namespace keras_sparse
