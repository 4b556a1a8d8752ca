// KerasSparseLinkFiles: second names for the files of a table's lower tiers.
#include <algorithm>
#include <string>

#include "ops/core/operations/table_snapshot.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

// The path is no attribute: TensorFlow takes an eager op for one that it has made before if their
// beginnings are the same, and files would be linked where those of another checkpoint are.
REGISTER_OP("KerasSparseLinkFiles")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("path_prefix: string")
    .Output("paths: string")
    .Output("num_entries: int64")
    .Output("alive: uint8")  // of all files one after the other, each from a whole byte on
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      for (int i = 0; i < 3; ++i) c->set_output(i, c->Vector(c->UnknownDim()));
      return absl::OkStatus();
    });

class LinkFilesOp : public tf::OpKernel {
 public:
  explicit LinkFilesOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    const tf::Tensor* path_prefix = nullptr;
    OP_REQUIRES_OK(ctx, ctx->input("path_prefix", &path_prefix));
    OP_REQUIRES(ctx, path_prefix->NumElements() == 1,
                InvalidInput("`path_prefix` must be one path"));
    const std::string prefix = path_prefix->flat<tf::tstring>()(0);
    std::vector<LinkedFile> files;
    for (size_t i = 0; i < tables.size(); ++i) {
      OP_REQUIRES_OK(ctx, ToTf(TableSnapshot(tables[i]).LinkFiles(prefix, &files)));
    }
    int64_t alive_bytes = 0;
    for (const LinkedFile& file : files) alive_bytes += static_cast<int64_t>(file.alive.size());
    const auto n = static_cast<int64_t>(files.size());
    tf::Tensor* paths = nullptr;
    tf::Tensor* num_entries = nullptr;
    tf::Tensor* alive = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {n}, &paths));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, {n}, &num_entries));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2, {alive_bytes}, &alive));
    uint8_t* to = alive->flat<uint8_t>().data();
    for (int64_t i = 0; i < n; ++i) {
      const LinkedFile& file = files[static_cast<size_t>(i)];
      paths->flat<tf::tstring>()(i) = file.path;
      num_entries->flat<int64_t>()(i) = file.num_entries;
      to = std::copy(file.alive.begin(), file.alive.end(), to);
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseLinkFiles").Device(tf::DEVICE_CPU), LinkFilesOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseLinkFiles")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("handles")
                            .HostMemory("path_prefix")
                            .HostMemory("paths")
                            .HostMemory("num_entries")
                            .HostMemory("alive"),
                        LinkFilesOp);

}  // namespace keras_sparse
