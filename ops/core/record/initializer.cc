#include "ops/core/record/initializer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/core/record/initial_rows.h"

namespace keras_sparse {
namespace {

class Constant : public Initializer {
 public:
  explicit Constant(float value) : value_(value) {}
  void Fill(int64_t /*key*/, int64_t dim, float* row) const override {
    std::fill_n(row, dim, value_);
  }

 private:
  float value_;
};

PhiloxKey SeedKey(int64_t seed) {
  const auto bits = static_cast<uint64_t>(seed);
  return {{static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)}};
}

template <typename Element>
class Random : public Initializer {
 public:
  Random(const InitializerOptions& options, Element element)
      : rows_{SeedKey(options.seed), static_cast<uint64_t>(options.key_stride),
              static_cast<uint64_t>(options.key_offset), element},
        first_column_(options.first_column) {}

  void Fill(int64_t key, int64_t dim, float* row) const override {
    int64_t block = first_column_ / 4;
    int64_t done = 0;
    if (first_column_ % 4 != 0) {  // the part begins inside of a block
      done = std::min(4 - first_column_ % 4, dim);
      rows_.FillFromBlock(key, block++, first_column_ % 4, done, row);
    }
    for (; done < dim; done += 4) {
      rows_.FillFromBlock(key, block++, 0, std::min<int64_t>(4, dim - done), row + done);
    }
  }

 private:
  InitialRows<Element> rows_;
  int64_t first_column_;
};

template <typename Element>
std::unique_ptr<Initializer> MakeRandom(const InitializerOptions& options, Element element) {
  return std::make_unique<Random<Element>>(options, element);
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
  const std::string& kind = options.kind;
  const float a = options.a;
  const float b = options.b;
  if (kind == "constant") {
    *initializer = std::make_unique<Constant>(a);
  } else if (kind == "uniform") {
    *initializer = MakeRandom(options, UniformElement{a, b - a, std::nextafter(b, a)});
  } else if (kind == "normal") {
    *initializer = MakeRandom(options, NormalElement{a, b});
  } else if (kind == "truncated_normal") {
    *initializer = MakeRandom(options, TruncatedNormalElement{a, b});
  } else {
    return InvalidArgument(
        "`initializer` must be one of ('constant', 'uniform', 'normal', 'truncated_normal'). "
        "Received: initializer='" +
        kind + "'");
  }
  return Status::Ok();
}

}  // namespace keras_sparse
