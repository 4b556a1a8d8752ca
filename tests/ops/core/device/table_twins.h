// A table on the CPU and on a GPU, which take the same steps.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_DEVICE_TABLE_TWINS_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_DEVICE_TABLE_TWINS_H_

#include "ops/core/operations/apply.h"
#include "ops/core/operations/update_rows.h"
#include "ops/core/optimizer/catch_up.h"
#include "ops/core/optimizer/history_on_device.h"
#include "tests/ops/core/device/table_on_device.h"
#include "tests/ops/core/support/reference.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse {

class TableTwins {
 public:
  TableTwins(Device* device, const TableOptions& options, RuleOptions rule)
      : device_(device), table_(OpenWithRule(options, rule)), on_device_(device, *table_) {
    rule.dim = options.output_dim;
    rule.types = options.types;
    EXPECT_TRUE(IsOk(UpdateRule::Create(rule, &rule_)));
    std::unique_ptr<Initializer> initializer;
    EXPECT_TRUE(IsOk(Initializer::Create(options.initializer, &initializer)));
    rounding_ = {options.rounds_randomly, 0, initializer->rows().part};
  }

  // One step of both is to have this gradient, as `type` and with `gap` floats between its rows.
  // Ids and bags must stay until it has been finished.
  void Begin(const std::vector<int64_t>& ids, const Bags& bags, const std::vector<float>& grads,
             const std::vector<float>& numbers = {0.1f}, FloatType type = FloatType::kFloat32,
             int64_t gap = 0) {
    const int64_t dim = table_->dim();
    const int64_t stride = dim + gap;
    host_grads_ = Placed(type, grads, dim, 0, stride);
    device_grads_ = OnDevice(device_, host_grads_);
    lists_ = std::make_unique<BagsOnDevice>(device_, ids, bags);
    found_ =
        std::make_unique<RowsOnDevice>(device_, on_device_.view(), lists_->ids(), bags.num_ids);
    cpu_ = {table_.get(),
            {{ids.data(), bags, GradientRows(host_grads_.data(), stride, type), dim}},
            RuleGenerationOf(*table_),
            numbers};
    rounding_.step = static_cast<uint64_t>(rule_->step());
    rule_->BeginStep(numbers);
    ++num_steps_;
  }
  cuda_impl::UpdateRequest Request() {
    const GradientRows grads(device_grads_.data(), cpu_.gradients[0].grads.stride,
                             cpu_.gradients[0].grads.type);
    return {on_device_.view(),
            rule_.get(),
            &history_,
            num_steps_,
            {{{lists_->ids(), lists_->bags(), grads, table_->dim()}, found_->rows()}},
            {rounding_}};
  }
  // Whether the table refuses an id of the gradient.
  bool any_refused() const { return found_->any_refused(); }
  // The CPU's step; the GPU's has been done.
  void Finish() {
    ASSERT_TRUE(IsOk(ApplyGradients({cpu_}, Inline())));
    rule_->FinishStep();
    ASSERT_TRUE(on_device_.Records() == RecordsOf(*table_));  // bytes that nobody would read
  }

  // Rows as they read now, of the GPU's.
  std::vector<float> Read(const std::vector<int64_t>& ids) {
    const DeviceArray<uint32_t> rows =
        OnDevice(device_, std::vector<uint32_t>(ids.begin(), ids.end()));
    const auto n = static_cast<int64_t>(ids.size());
    const FloatType type = on_device_.view().row_type;
    DeviceArray<char> moved;
    EXPECT_TRUE(
        IsOk(DeviceArray<char>::Allocate(device_, n * table_->dim() * FloatBytes(type), &moved)));
    EXPECT_TRUE(IsOk(cuda_impl::ReadMovedRows(*rule_, &history_, on_device_.view().records,
                                              rows.data(), n, moved.data(), device_)));
    std::vector<float> values(static_cast<size_t>(n * table_->dim()));
    ReadFloats(type, Values(moved).data(), n * table_->dim(), values.data());
    return values;
  }

  const TableOnDevice& on_device() const { return on_device_; }
  EmbeddingTable* table() { return table_.get(); }

 private:
  Device* device_;
  std::unique_ptr<EmbeddingTable> table_;
  TableOnDevice on_device_;
  std::unique_ptr<UpdateRule> rule_;
  Rounding rounding_;
  cuda_impl::HistoryOnDevice history_;
  uint32_t num_steps_ = 0;
  std::vector<char> host_grads_;
  DeviceArray<char> device_grads_;
  std::unique_ptr<BagsOnDevice> lists_;
  std::unique_ptr<RowsOnDevice> found_;
  ApplyRequest cpu_;
};

// UpdateRows, of which FindRows has refused something or not.
inline Status Update(const std::vector<cuda_impl::UpdateRequest>& requests, Device* device,
                     uint32_t refused = 0) {
  const auto any_refused = OnDevice<uint32_t>(device, {refused});
  return cuda_impl::UpdateRows(requests, any_refused.data(), device);
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_DEVICE_TABLE_TWINS_H_
