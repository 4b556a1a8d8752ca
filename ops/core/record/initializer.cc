#include "ops/core/record/initializer.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/record/packed_record.h"

namespace keras_sparse {
namespace {

PhiloxKey SeedKey(int64_t seed) {
  const auto bits = static_cast<uint64_t>(seed);
  return {{static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)}};
}

bool ParseKind(const std::string& name, InitialKind* kind) {
  for (const auto& [known, value] :
       {std::pair{"constant", InitialKind::kConstant}, std::pair{"uniform", InitialKind::kUniform},
        std::pair{"normal", InitialKind::kNormal},
        std::pair{"truncated_normal", InitialKind::kTruncatedNormal}}) {
    if (name != known) continue;
    *kind = value;
    return true;
  }
  return false;
}

Status CheckPart(const InitializerOptions& options) {
  constexpr int64_t kMaxFirstColumn = std::numeric_limits<uint32_t>::max();
  if (options.first_column < 0 || options.first_column > kMaxFirstColumn) {
    return InvalidArgument("`first_column` must be in [0, " + std::to_string(kMaxFirstColumn) +
                           "]. Received: first_column=" + std::to_string(options.first_column));
  }
  if (options.key_stride < 1) {
    return InvalidArgument("`key_stride` must be above 0. Received: key_stride=" +
                           std::to_string(options.key_stride));
  }
  return Status::Ok();
}

}  // namespace

Status Initializer::Create(const InitializerOptions& options,
                           std::unique_ptr<Initializer>* initializer) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckPart(options));
  InitialRows rows;
  if (!ParseKind(options.kind, &rows.kind)) {
    return InvalidArgument(
        "`initializer` must be one of ('constant', 'uniform', 'normal', 'truncated_normal'). "
        "Received: initializer='" +
        options.kind + "'");
  }
  rows.part = {SeedKey(options.seed), static_cast<uint64_t>(options.key_stride),
               static_cast<uint64_t>(options.key_offset), options.first_column};
  rows.a = options.a;
  rows.b = options.b;
  rows.last = std::nextafter(options.b, options.a);
  initializer->reset(new Initializer(rows));
  return Status::Ok();
}

void Initializer::FillRecord(const RecordLayout& layout, int64_t key, float* record) const {
  if (layout.types().row == FloatType::kFloat32) return Fill(key, layout.dim(), record);
  static thread_local std::vector<float> row;
  row.resize(static_cast<size_t>(layout.dim()));
  Fill(key, layout.dim(), row.data());
  PackRow(layout, row.data(), record);
}

}  // namespace keras_sparse
