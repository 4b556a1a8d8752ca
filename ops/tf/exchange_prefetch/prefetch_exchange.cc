#include "ops/tf/exchange_prefetch/prefetch_exchange.h"

#include "ops/core/operations/lookup.h"

namespace keras_sparse {

absl::Status LookupStepVariant::Read(tf::OpKernelContext* ctx, std::shared_ptr<LookupStep>* step) {
  const tf::Tensor* tensor = nullptr;
  TF_RETURN_IF_ERROR(ctx->input("step", &tensor));
  const bool is_scalar = tf::TensorShapeUtils::IsScalar(tensor->shape());
  const auto* value =
      is_scalar ? tensor->scalar<tf::Variant>()().get<LookupStepVariant>() : nullptr;
  if (value == nullptr) return InvalidInput("`step` must be what KerasSparseBeginLookup gave");
  *step = value->step;
  return absl::OkStatus();
}

tf::Tensor LookupStepVariant::ToTensor() const {
  tf::Tensor tensor(tf::DT_VARIANT, {});
  tensor.scalar<tf::Variant>()() = *this;
  return tensor;
}

Preparation PrefetchExchange::header() const {
  Preparation header;
  header.staleness = reads_rows ? 1 : 0;
  return header;
}

int64_t PrefetchExchange::max_staleness() const {
  const std::shared_ptr<LookupPrefetcher> owner = stage.lock();
  return owner == nullptr ? 0 : owner->max_staleness();
}

Fingerprint FingerprintOf(const ExchangeLayout& layout, const std::vector<RequestInput>& inputs) {
  Fingerprint result{layout.checksum, inputs.size()};
  for (const RequestInput& input : inputs) {
    result = FingerprintOf(input.table, input.ids, input.bags, result);
  }
  return result;
}

void SeeTables(const LocalSlices& parts, std::vector<int64_t>* versions,
               std::vector<uint32_t>* num_updates) {
  versions->resize(parts.tables.size());
  num_updates->resize(parts.tables.size());
  std::vector<LookupRequest> requests;
  for (size_t p = 0; p < parts.tables.size(); ++p) {
    requests.push_back(
        {parts.tables[p], nullptr, Bags(), nullptr, &(*versions)[p], &(*num_updates)[p]});
  }
  ReadVersions(requests);
}

}  // namespace keras_sparse
