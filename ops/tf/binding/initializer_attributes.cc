#include "ops/tf/binding/initializer_attributes.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ops/tf/binding/binding.h"

namespace keras_sparse {

absl::Status ReadInitializers(tensorflow::OpKernelConstruction* ctx,
                              std::vector<InitializerOptions>* initializers) {
  int n = 0;
  std::vector<std::string> kinds;
  std::vector<float> args;
  std::vector<int64_t> seeds;
  std::vector<int64_t> parts;
  TF_RETURN_IF_ERROR(ctx->GetAttr("N", &n));
  TF_RETURN_IF_ERROR(ctx->GetAttr("initializers", &kinds));
  TF_RETURN_IF_ERROR(ctx->GetAttr("initializer_args", &args));
  TF_RETURN_IF_ERROR(ctx->GetAttr("seeds", &seeds));
  TF_RETURN_IF_ERROR(ctx->GetAttr("initializer_parts", &parts));
  const auto size = static_cast<size_t>(n);
  if (kinds.size() != size || args.size() != 2 * size || seeds.size() != size ||
      parts.size() != 3 * size) {
    return InvalidInput(
        absl::StrCat("`initializers` and `seeds` must have one entry a table, `initializer_args` "
                     "two, `initializer_parts` three. Received: N=",
                     n));
  }
  for (size_t i = 0; i < size; ++i) {
    initializers->push_back({kinds[i], args[2 * i], args[2 * i + 1], seeds[i], parts[3 * i],
                             parts[3 * i + 1], parts[3 * i + 2]});
  }
  return absl::OkStatus();
}

}  // namespace keras_sparse
