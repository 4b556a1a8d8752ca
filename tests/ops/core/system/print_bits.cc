// Prints digests of what the core computes: of every rule's records, initial rows, weighted sums,
// floats of all types. Builds for different processors print the same.
#include <cstdio>
#include <memory>
#include <random>

#include "ops/core/math/dot.h"
#include "ops/core/math/float_type.h"
#include "ops/core/math/powers.h"
#include "ops/core/math/vector_functions.h"
#include "ops/core/math/vector_math.h"
#include "ops/core/record/initializer.h"
#include "ops/core/record/packed_record.h"
#include "tests/ops/core/support/all_rule_cases.h"

namespace keras_sparse {
namespace {

constexpr int64_t kWidths[] = {1, 9, 16, 33, 100};

// FNV-1a over 64 bits.
class Digest {
 public:
  template <typename T>
  void Add(const T* values, int64_t n) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(values);
    for (size_t i = 0; i < static_cast<size_t>(n) * sizeof(T); ++i) {
      hash_ = (hash_ ^ bytes[i]) * 0x100000001B3;
    }
  }
  void Add(const std::vector<float>& values) {
    Add(values.data(), static_cast<int64_t>(values.size()));
  }
  void Print(const std::string& name) const {
    std::printf("%s %016llx\n", name.c_str(), static_cast<unsigned long long>(hash_));
  }

 private:
  uint64_t hash_ = 0xCBF29CE484222325;
};

// Of sizes from 1e-6 to one, and now and then zero.
std::vector<float> RandomFloats(int64_t n, std::mt19937* random) {
  constexpr float kSizes[] = {1, 1, 1e-2f, 1e-6f, 0};
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) {
    const float size = kSizes[(*random)() % 5];
    value = size * (static_cast<float>((*random)() >> 8) * 0x1p-23f - 1);
  }
  return values;
}

// Records of a rule, of which the first have a gradient in nearly every step, the last in hardly
// any.
class Training {
 public:
  Training(const RuleCase& rule_case, int64_t dim, const RecordTypes& types) : case_(rule_case) {
    RuleOptions options = rule_case.options;
    options.dim = dim;
    options.types = types;
    const Status status = UpdateRule::Create(options, &rule_);
    if (!status.ok()) std::printf("%s\n", status.message().c_str());
    floats_.resize(static_cast<size_t>(rule_->float_layout().record_words()));
    for (int64_t i = 0; i < kNumRecords; ++i) {
      records_.emplace_back(static_cast<size_t>(rule_->layout().record_words()));
      const std::vector<float> row = RandomFloats(dim, &random_);
      PackRow(rule_->layout(), row.data(), records_.back().data());
      rule_->layout().InitializeSlots(records_.back().data(), 0);
    }
  }

  void Run(Digest* digest) {
    for (int64_t number = 1; number <= 60; ++number) {
      Step({number, 0.01 * static_cast<double>(number % 20 + 1)}, /*has_gradients=*/true);
      if (number % 13 == 0) Read(digest);
    }
    // Beyond what two digits of `Powers` count.
    for (int64_t i = 0; i < 70000; ++i) Step({60, 1e-4}, /*has_gradients=*/false);
    Read(digest);
    for (size_t i = 0; i < kNumRecords; ++i) {
      CatchUp(i);
      Store(i);
      digest->Add(records_[i]);
    }
  }

 private:
  static constexpr int64_t kNumRecords = 12;

  void Step(const ReferenceStep& step, bool has_gradients) {
    rule_->BeginStep(case_.Numbers(step));
    for (uint32_t i = 0; has_gradients && i < kNumRecords; ++i) {
      if (random_() % (i + 1) != 0) continue;
      CatchUp(i);
      const std::vector<float> gradient = RandomFloats(rule_->layout().dim(), &random_);
      const float* gradients = gradient.data();
      float* record = floats_.data();
      rule_->Update(&record, &gradients, 1);
      Store(i);
    }
    rule_->FinishStep();
  }

  // Reads a record as floats, with its missed steps applied.
  void CatchUp(size_t i) {
    UnpackRecord(rule_->layout(), records_[i].data(), floats_.data());
    rule_->CatchUp(floats_.data());
  }
  // Stores these floats as the record.
  void Store(size_t i) {
    const Rounding rounding = {true, static_cast<uint64_t>(rule_->step()), {{{5, 6}}, 3, 1, 0}};
    PackRecord(rule_->layout(), floats_.data(), rounding, static_cast<int64_t>(i),
               records_[i].data());
  }

  void Read(Digest* digest) {
    std::vector<float> row(static_cast<size_t>(rule_->layout().dim()));
    for (const std::vector<float>& record : records_) {
      UnpackRecord(rule_->layout(), record.data(), floats_.data());
      rule_->Read(floats_.data(), row.data());
      digest->Add(row);
    }
  }

  const RuleCase& case_;
  std::unique_ptr<UpdateRule> rule_;
  std::mt19937 random_{1};
  std::vector<std::vector<float>> records_;
  std::vector<float> floats_;  // a float record
};

void PrintRule(const RuleCase& rule_case) {
  Digest digest;
  for (const int64_t dim : kWidths) Training(rule_case, dim, {}).Run(&digest);
  digest.Print(rule_case.name);
  Digest packed;
  Training(rule_case, 33, {FloatType::kBFloat16, FloatType::kBFloat16}).Run(&packed);
  Training(rule_case, 9, {FloatType::kFloat16, FloatType::kFloat32}).Run(&packed);
  packed.Print(rule_case.name + ", packed");
}

void PrintInitialRows(const std::string& kind) {
  std::unique_ptr<Initializer> initializer;
  if (!Initializer::Create({kind, 0.1f, 0.7f, 5}, &initializer).ok()) return;
  Digest digest;
  std::vector<float> row(64);
  for (int64_t key = 0; key < 20000; ++key) {
    initializer->Fill(key, 64, row.data());
    digest.Add(row);
  }
  digest.Print("initial rows: " + kind);
}

// What a lookup does with rows, and the gradient of its weights.
void PrintSums() {
  std::mt19937 random(2);
  Digest digest;
  for (const int64_t dim : kWidths) {
    const std::vector<float> data = RandomFloats(7 * dim, &random);
    const std::vector<float> weights = RandomFloats(7, &random);
    std::vector<const float*> rows;
    for (int64_t i = 0; i < 7; ++i) rows.push_back(data.data() + i * dim);
    std::vector<float> sum(static_cast<size_t>(dim));
    SumRows(rows.data(), weights.data(), 7, dim, {nullptr, sum.data(), 0.3f});
    AddScaled(0.7f, rows[1], dim, sum.data());
    digest.Add(sum);
    const float dot = Dot(rows[2], sum.data(), dim);
    digest.Add(&dot, 1);
    for (const FloatType type : {FloatType::kFloat16, FloatType::kBFloat16}) {
      std::vector<uint16_t> halves(sum.size());
      WriteFloats(type, sum.data(), dim, halves.data());
      digest.Add(halves.data(), dim);
      AddScaled(type, 0.7f, halves.data(), dim, sum.data());
      digest.Add(sum);
      for (const uint32_t first : {0u, 48u, 5u}) {
        WriteFloatsRandomly(type, sum.data(), dim, RandomBits::Of(1, 2, 3), first, halves.data());
        digest.Add(halves.data(), dim);
      }
    }
  }
  digest.Print("sums");
}

void PrintFunctions() {
  std::mt19937 random(3);
  const Powers powers(0.9999);
  Digest digest;
  for (int64_t i = 0; i < 20000; ++i) {
    const double x = static_cast<double>(random()) * 1e-7;  // up to 430
    const double values[] = {Log(x),   Exp(x),         Expm1(-x),
                             Log1p(x), powers(i * 97), Log2(static_cast<float>(x))};
    digest.Add(values, 6);
    const float power = Pow(static_cast<float>(x), 0.3f);
    digest.Add(&power, 1);
  }
  digest.Print("functions");
}

}  // namespace
}  // namespace keras_sparse

int main() {
  for (const auto& rule_case : keras_sparse::AllRuleCases()) keras_sparse::PrintRule(rule_case);
  for (const char* kind : {"constant", "uniform", "normal", "truncated_normal"}) {
    keras_sparse::PrintInitialRows(kind);
  }
  keras_sparse::PrintSums();
  keras_sparse::PrintFunctions();
  return 0;
}
