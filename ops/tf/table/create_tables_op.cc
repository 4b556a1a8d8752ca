// KerasSparseCreateTables: options -> the handles of new tables.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/tf/binding/initializer_attributes.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_device.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

// Names and paths are not attributes: TensorFlow reuses an earlier eager op if their beginnings and
// all other attributes are equal, and a table would use the folder of another one.
REGISTER_OP("KerasSparseCreateTables")
    .Input("names: string")
    .Input("storage_paths: string")
    .Attr("N: int >= 1")
    .Attr("input_dims: list(int)")
    .Attr("output_dims: list(int)")
    .Attr("initializers: list(string)")
    .Attr("initializer_args: list(float)")
    .Attr("seeds: list(int)")
    .Attr("initializer_parts: list(int)")
    .Attr("out_of_range: list(string)")
    // Whether each table's first tier is the memory of the op's GPU. Empty: none.
    .Attr("are_on_gpu: list(bool) = []")
    // Three entries per table, empty strings for fewer lower tiers; four sizes, including the first
    // tier's.
    .Attr("lower_tiers: list(string)")
    .Attr("storage_sizes: list(int)")
    .Attr("cache_strategies: list(string)")
    .Attr("keeps_gradient_steps: list(bool)")
    // Whether gradient steps are seconds of the wall clock, and whether frequencies are kept.
    // Empty: none.
    .Attr("ages_in_seconds: list(bool) = []")
    .Attr("keeps_frequencies: list(bool) = []")
    // The types of stored rows and slots; whether updates round to them at random. Empty: float32,
    // and all at random.
    .Attr("row_types: list({float, half, bfloat16}) = []")
    .Attr("slot_types: list({float, half, bfloat16}) = []")
    .Attr("round_randomly: list(bool) = []")
    // shard and num_shards of TableOptions for each table. Empty: none.
    .Attr("shards: list(int) = []")
    .Output("handles: N * resource")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Scalar());
      return absl::OkStatus();
    });

constexpr size_t kMostLowerTiers = 3;

class CreateTablesOp : public tf::OpKernel {
 public:
  explicit CreateTablesOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadOptions(ctx));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TfExecutor executor(ctx);
    const auto n = static_cast<int64_t>(options_.size());
    OP_REQUIRES(ctx, ctx->input(0).NumElements() == n && ctx->input(1).NumElements() == n,
                InvalidInput(absl::StrCat(
                    "`names` and `storage_paths` must have one entry a table. Received: N=", n)));
    for (size_t i = 0; i < options_.size(); ++i) {
      const auto element = static_cast<int64_t>(i);
      TableOptions options = options_[i];
      options.name = ctx->input(0).flat<tf::tstring>()(element);
      options.storage.path = ctx->input(1).flat<tf::tstring>()(element);
      if (IsSet(are_on_gpu_, i)) {
        OP_REQUIRES_OK(ctx, OpenTfDevice(ctx, &options.storage.device));
      }
      auto bound = std::make_shared<BoundTable>();
      OP_REQUIRES_OK(ctx, ToTf(EmbeddingTable::Open(options, &executor, &bound->table)));
      SetHandle(ctx, static_cast<int>(i),
                new TableResource(absl::StrCat("table '", options.name, "'"), std::move(bound)));
    }
  }

 private:
  absl::Status ReadOptions(tf::OpKernelConstruction* ctx) {
    int n = 0;
    std::vector<std::string> out_of_range;
    std::vector<int64_t> input_dims;
    std::vector<int64_t> output_dims;
    std::vector<bool> keeps_gradient_steps;
    std::vector<bool> keeps_frequencies;
    std::vector<bool> ages_in_seconds;
    std::vector<int64_t> shards;
    TF_RETURN_IF_ERROR(ctx->GetAttr("N", &n));
    TF_RETURN_IF_ERROR(ctx->GetAttr("input_dims", &input_dims));
    TF_RETURN_IF_ERROR(ctx->GetAttr("output_dims", &output_dims));
    TF_RETURN_IF_ERROR(ctx->GetAttr("out_of_range", &out_of_range));
    TF_RETURN_IF_ERROR(ctx->GetAttr("are_on_gpu", &are_on_gpu_));
    TF_RETURN_IF_ERROR(ctx->GetAttr("keeps_gradient_steps", &keeps_gradient_steps));
    TF_RETURN_IF_ERROR(ctx->GetAttr("keeps_frequencies", &keeps_frequencies));
    TF_RETURN_IF_ERROR(ctx->GetAttr("ages_in_seconds", &ages_in_seconds));
    std::vector<tf::DataType> row_types;
    std::vector<tf::DataType> slot_types;
    std::vector<bool> round_randomly;
    TF_RETURN_IF_ERROR(ctx->GetAttr("row_types", &row_types));
    TF_RETURN_IF_ERROR(ctx->GetAttr("slot_types", &slot_types));
    TF_RETURN_IF_ERROR(ctx->GetAttr("round_randomly", &round_randomly));
    TF_RETURN_IF_ERROR(ctx->GetAttr("shards", &shards));
    std::vector<InitializerOptions> initializers;
    TF_RETURN_IF_ERROR(ReadInitializers(ctx, &initializers));
    std::vector<StorageOptions> storages;
    TF_RETURN_IF_ERROR(ReadStorages(ctx, n, &storages));
    const auto size = static_cast<size_t>(n);
    if (input_dims.size() != size || output_dims.size() != size || out_of_range.size() != size ||
        keeps_gradient_steps.size() != size) {
      return InvalidInput(
          absl::StrCat("`input_dims`, `output_dims`, `out_of_range` and "
                       "`keeps_gradient_steps` must have one entry a table. Received: N=",
                       n));
    }
    if (!shards.empty() && shards.size() != 2 * size) {
      return InvalidInput(absl::StrCat("`shards` must have two entries a table. Received: N=", n));
    }
    for (const size_t given : {row_types.size(), slot_types.size(), round_randomly.size()}) {
      if (given == 0 || given == size) continue;
      return InvalidInput(absl::StrCat(
          "`row_types`, `slot_types` and `round_randomly` must have one entry a table, "
          "or none. Received: N=",
          n));
    }
    for (size_t i = 0; i < size; ++i) {
      if (out_of_range[i] != "error" && out_of_range[i] != "zero") {
        return InvalidInput(absl::StrCat(
            "`out_of_range` must be one of ('error', 'zero'). Received: out_of_range='",
            out_of_range[i], "'"));
      }
      const KeptWords keeps = {keeps_gradient_steps[i], IsSet(keeps_frequencies, i)};
      options_.push_back({"", input_dims[i], output_dims[i], initializers[i],
                          out_of_range[i] == "zero", storages[i], RecordTypes(), true, keeps,
                          IsSet(ages_in_seconds, i)});
      if (!row_types.empty()) options_.back().types.row = FloatTypeOf(row_types[i]);
      if (!slot_types.empty()) options_.back().types.slots = FloatTypeOf(slot_types[i]);
      if (!round_randomly.empty()) options_.back().rounds_randomly = round_randomly[i];
      if (shards.empty()) continue;
      options_.back().shard = shards[2 * i];
      options_.back().num_shards = shards[2 * i + 1];
    }
    return absl::OkStatus();
  }

  // Reads a list that may be empty.
  static bool IsSet(const std::vector<bool>& flags, size_t i) {
    return i < flags.size() && flags[i];
  }

  static absl::Status ReadStorages(tf::OpKernelConstruction* ctx, int n,
                                   std::vector<StorageOptions>* storages) {
    std::vector<std::string> lower_tiers;
    std::vector<std::string> strategies;
    std::vector<int64_t> sizes;
    TF_RETURN_IF_ERROR(ctx->GetAttr("lower_tiers", &lower_tiers));
    TF_RETURN_IF_ERROR(ctx->GetAttr("storage_sizes", &sizes));
    TF_RETURN_IF_ERROR(ctx->GetAttr("cache_strategies", &strategies));
    const auto size = static_cast<size_t>(n);
    if (lower_tiers.size() != kMostLowerTiers * size ||
        sizes.size() != (1 + kMostLowerTiers) * size || strategies.size() != size) {
      return InvalidInput(absl::StrCat(
          "`cache_strategies` must have one entry a table, `lower_tiers` ", kMostLowerTiers,
          ", `storage_sizes` ", 1 + kMostLowerTiers, ". Received: N=", n));
    }
    for (size_t i = 0; i < size; ++i) {
      StorageOptions storage;
      for (size_t tier = 0; tier < kMostLowerTiers; ++tier) {
        const std::string& name = lower_tiers[kMostLowerTiers * i + tier];
        if (!name.empty()) storage.lower_tiers.push_back(name);
      }
      const auto first = sizes.begin() + static_cast<std::ptrdiff_t>((1 + kMostLowerTiers) * i);
      const auto num_tiers = static_cast<std::ptrdiff_t>(storage.lower_tiers.size()) + 1;
      storage.sizes.assign(first, first + num_tiers);
      storage.cache_strategy = strategies[i];
      storages->push_back(std::move(storage));
    }
    return absl::OkStatus();
  }

  std::vector<TableOptions> options_;
  std::vector<bool> are_on_gpu_;
};

const RegisterOnCpuAndGpu<CreateTablesOp> kCreateTables("KerasSparseCreateTables",
                                                        {"names", "storage_paths", "handles"});

}  // namespace keras_sparse
