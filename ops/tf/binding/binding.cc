#include "ops/tf/binding/binding.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace keras_sparse {

absl::Status TableList::Read(tf::OpKernelContext* ctx) {
  tf::OpInputList handles;
  TF_RETURN_IF_ERROR(ctx->input_list("handles", &handles));
  for (const tf::Tensor& handle : handles) {
    tables_.emplace_back();
    TF_RETURN_IF_ERROR(FindOwned(ctx, handle.scalar<tf::ResourceHandle>()(), &tables_.back()));
  }
  return absl::OkStatus();
}

absl::Status TableList::ReadOfAnyDevice(tf::OpKernelContext* ctx) {
  tf::OpInputList handles;
  TF_RETURN_IF_ERROR(ctx->input_list("handles", &handles));
  for (const tf::Tensor& handle : handles) {
    TF_ASSIGN_OR_RETURN(
        const auto* resource,
        handle.scalar<tf::ResourceHandle>()().GetResource<OwnedResource<BoundTable>>());
    tables_.emplace_back();
    TF_RETURN_IF_ERROR(ToTf(resource->Find(&tables_.back())));
  }
  return absl::OkStatus();
}

absl::Status CheckRecordsShape(const tf::Tensor& records, int64_t n) {
  if (records.dims() == 2 && records.dim_size(0) == n) return absl::OkStatus();
  return InvalidInput(absl::StrCat("`records` must be (", n, ", width). Received: records.shape=",
                                   records.shape().DebugString()));
}

absl::Status ReadCombiners(tf::OpKernelConstruction* ctx, std::vector<Combiner>* combiners) {
  std::vector<std::string> names;
  TF_RETURN_IF_ERROR(ctx->GetAttr("combiners", &names));
  int n = 0;
  TF_RETURN_IF_ERROR(ctx->GetAttr("N", &n));
  if (static_cast<int>(names.size()) != n) {
    return InvalidInput(
        absl::StrCat("`combiners` must have one name a table, ", n, ". Received: ", names.size()));
  }
  for (const std::string& name : names) {
    combiners->emplace_back();
    TF_RETURN_IF_ERROR(ToTf(ParseCombiner(name, &combiners->back())));
  }
  return absl::OkStatus();
}

absl::Status ReadLookupSizes(tf::OpKernelConstruction* ctx, size_t n, std::vector<int64_t>* sizes) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("lookup_sizes", sizes));
  const bool are_positive =
      std::all_of(sizes->begin(), sizes->end(), [](int64_t size) { return size > 0; });
  const int64_t sum = std::accumulate(sizes->begin(), sizes->end(), int64_t{0});
  if (are_positive && sum == static_cast<int64_t>(n)) return absl::OkStatus();
  return InvalidInput(
      absl::StrCat("`lookup_sizes` must be above 0 and add up to N. Received: N=", n));
}

absl::Status ReadBatchNumber(tf::OpKernelContext* ctx, int64_t* batch) {
  const tf::Tensor* input = nullptr;
  TF_RETURN_IF_ERROR(ctx->input("batch", &input));
  if (!tf::TensorShapeUtils::IsScalar(input->shape())) {
    return InvalidInput(
        absl::StrCat("`batch` must be a number. Received: shape=", input->shape().DebugString()));
  }
  *batch = input->scalar<int64_t>()();
  return absl::OkStatus();
}

absl::Status BagInputs::Read(tf::OpKernelContext* ctx, const std::vector<Combiner>& combiners) {
  tf::OpInputList weights;
  TF_RETURN_IF_ERROR(ctx->input_list("ids", &ids_));
  TF_RETURN_IF_ERROR(ctx->input_list("row_splits", &row_splits_));
  TF_RETURN_IF_ERROR(ctx->input_list("weights", &weights));
  for (int i = 0; i < ids_.size(); ++i) {
    Bags bags;
    bags.combiner = combiners[i];
    bags.num_ids = ids_[i].NumElements();
    const int64_t num_splits = row_splits_[i].NumElements();
    if ((num_splits == 0) != (bags.combiner == Combiner::kNone)) {
      return InvalidInput(absl::StrCat(
          "`row_splits` must be given with a combiner, and only then. Received: ", num_splits,
          " row splits for table ", i, " of the op"));
    }
    const int64_t num_weights = weights[i].NumElements();
    if (num_weights != 0 && num_weights != bags.num_ids) {
      return InvalidInput(absl::StrCat("`weights` must have one number an id, ", bags.num_ids,
                                       ". Received: ", num_weights));
    }
    if (num_weights != 0 && bags.combiner == Combiner::kNone) {
      return InvalidInput("`weights` must come with a combiner. Received: 'none'");
    }
    bags.num_bags = num_splits == 0 ? bags.num_ids : num_splits - 1;
    if (num_splits != 0) bags.row_splits = row_splits_[i].flat<int64_t>().data();
    if (num_weights != 0) bags.weights = weights[i].flat<float>().data();
    bags_.push_back(bags);
  }
  return absl::OkStatus();
}

absl::Status ReadConstants(tf::OpKernelContext* ctx, const std::vector<std::string>& names,
                           std::map<std::string, double>* constants) {
  const tf::Tensor* given = nullptr;
  TF_RETURN_IF_ERROR(ctx->input("constants", &given));
  const auto n = static_cast<int64_t>(names.size());
  if (given->NumElements() != n) {
    return InvalidInput(absl::StrCat("`constants` must have one number a name, ", n,
                                     ". Received: ", given->NumElements()));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    (*constants)[names[i]] = given->flat<double>()(static_cast<int64_t>(i));
  }
  return absl::OkStatus();
}

absl::Status ReadOutputGradients(tf::OpKernelContext* ctx, const BagInputs& inputs,
                                 const std::vector<int64_t>& columns,
                                 const std::vector<int64_t>& dims,
                                 std::vector<OutputGradient>* gradients) {
  tf::OpInputList tensors;
  TF_RETURN_IF_ERROR(ctx->input_list("output_grads", &tensors));
  const auto num_tables = static_cast<size_t>(tensors.size());
  if ((!dims.empty() && dims.size() != num_tables) || (!columns.empty() && dims.empty())) {
    return InvalidInput("`columns` and widths must have one number a table, or none");
  }
  std::vector<RowsShape> shapes;
  for (size_t t = 0; t < num_tables; ++t) {
    shapes.push_back({inputs.bags(t).num_bags, dims.empty() ? -1 : dims[t]});
  }
  std::vector<GradientRows> grads;
  TF_RETURN_IF_ERROR(ReadOutputGradients(ctx, shapes, columns, &grads));
  for (size_t t = 0; t < num_tables; ++t) {
    const int64_t dim = dims.empty() ? grads[t].stride : dims[t];
    gradients->push_back({inputs.ids(static_cast<int>(t)), inputs.bags(t), grads[t], dim});
  }
  return absl::OkStatus();
}

absl::Status ReadOutputGradients(tf::OpKernelContext* ctx, const std::vector<RowsShape>& shapes,
                                 const std::vector<int64_t>& columns,
                                 std::vector<GradientRows>* grads) {
  tf::OpInputList tensors;
  TF_RETURN_IF_ERROR(ctx->input_list("output_grads", &tensors));
  if (!columns.empty() && columns.size() != shapes.size()) {
    return InvalidInput("`columns` must have one number an input, or none");
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    const tf::Tensor& grad = tensors[static_cast<int>(i)];
    const bool has_rows = grad.dims() == 2 && grad.dim_size(0) == shapes[i].num_rows;
    const int64_t width = has_rows ? grad.dim_size(1) : 0;
    const int64_t dim = shapes[i].dim < 0 ? width : shapes[i].dim;
    const int64_t column = columns.empty() ? 0 : columns[i];
    const bool fits = columns.empty() ? width == dim : column >= 0 && column <= width - dim;
    if (!has_rows || !fits) {
      return InvalidInput(
          absl::StrCat("`output_grads` must be of shape (", shapes[i].num_rows, ", ",
                       shapes[i].dim < 0 ? "dim" : absl::StrCat(dim), ")",
                       columns.empty() ? "" : absl::StrCat(" from column ", column, " on"),
                       ". Received: output_grads[", i, "].shape=", grad.shape().DebugString()));
    }
    const GradientRows rows{grad.data(), width, FloatTypeOf(grad.dtype())};
    grads->push_back(rows.From(column));
  }
  return absl::OkStatus();
}

std::vector<int64_t> DimsOf(const TableList& tables) {
  std::vector<int64_t> dims;
  for (size_t t = 0; t < tables.size(); ++t) dims.push_back(tables[t]->dim());
  return dims;
}

}  // namespace keras_sparse
