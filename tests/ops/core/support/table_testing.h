// Tables in one line, and their ops on vectors.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_TABLE_TESTING_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_TABLE_TESTING_H_

#include <limits>
#include <map>

#include "ops/core/base/executor.h"
#include "ops/core/ids/bags.h"
#include "ops/core/operations/apply.h"
#include "ops/core/operations/export_rows.h"
#include "ops/core/operations/import_rows.h"
#include "ops/core/operations/lookup.h"
#include "ops/core/operations/read_stats.h"
#include "ops/core/operations/set_rule.h"
#include "ops/core/table/embedding_table.h"
#include "tests/ops/core/support/testing.h"

#ifdef KERAS_SPARSE_DEVICE_TESTS
#include "tests/ops/core/device/device_lookups.h"
#endif

namespace keras_sparse {

inline Executor* Inline() {
  static InlineExecutor executor;
  return &executor;
}

// Rows uniform in [-1, 1).
inline TableOptions Options(int64_t input_dim, int64_t output_dim, int64_t seed = 1) {
  TableOptions options;
  options.name = "items";
  options.input_dim = input_dim;
  options.output_dim = output_dim;
  options.initializer = {"uniform", -1, 1, seed};
  return options;
}
inline TableOptions Dynamic(int64_t output_dim, int64_t seed = 1) {
  return Options(-1, output_dim, seed);
}

// Every pair of types that packs records.
constexpr RecordTypes kPackedTypes[] = {{FloatType::kBFloat16, FloatType::kBFloat16},
                                        {FloatType::kBFloat16, FloatType::kFloat32},
                                        {FloatType::kFloat16, FloatType::kBFloat16},
                                        {FloatType::kFloat16, FloatType::kFloat32},
                                        {FloatType::kFloat32, FloatType::kBFloat16}};

// Such as "float16_bfloat16".
inline std::string NameOf(const RecordTypes& types) {
  const auto name = [](FloatType type) {
    if (type == FloatType::kFloat32) return "float32";
    return type == FloatType::kFloat16 ? "float16" : "bfloat16";
  };
  return std::string(name(types.row)) + "_" + name(types.slots);
}

inline TableOptions Packed(TableOptions options, const RecordTypes& types,
                           bool rounds_randomly = true) {
  options.types = types;
  options.rounds_randomly = rounds_randomly;
  return options;
}

inline std::unique_ptr<EmbeddingTable> Open(const TableOptions& options,
                                            Executor* executor = Inline()) {
  std::unique_ptr<EmbeddingTable> table;
  EXPECT_TRUE(IsOk(EmbeddingTable::Open(options, executor, &table)));
  return table;
}

inline RuleOptions SgdRule() { return {"sgd", 1, {}}; }
inline RuleOptions AdagradRule(double initial_accumulator, double epsilon = 1e-7) {
  return {"adagrad", 1, {{"initial_accumulator", initial_accumulator}, {"epsilon", epsilon}}};
}
// "adam", or another rule with its constants.
inline RuleOptions AdamRule(const std::string& rule = "adam", double beta_1 = 0.9,
                            double beta_2 = 0.999) {
  return {rule, 1, {{"beta_1", beta_1}, {"beta_2", beta_2}, {"epsilon", 1e-7}}};
}

inline std::unique_ptr<EmbeddingTable> OpenWithRule(const TableOptions& options,
                                                    const RuleOptions& rule) {
  auto table = Open(options);
  EXPECT_TRUE(IsOk(SetRule(table.get(), rule, Inline())));
  return table;
}

// The initial row of a key of a table with these options.
inline std::vector<float> InitialRow(const TableOptions& options, int64_t key) {
  std::unique_ptr<Initializer> initializer;
  EXPECT_TRUE(IsOk(Initializer::Create(options.initializer, &initializer)));
  std::vector<float> row(static_cast<size_t>(options.output_dim));
  initializer->Fill(key, options.output_dim, row.data());
  return row;
}

inline Bags NoBags(const std::vector<int64_t>& ids) {
  Bags bags;
  bags.num_ids = bags.num_bags = static_cast<int64_t>(ids.size());
  return bags;
}

inline Bags BagsOf(Combiner combiner, const std::vector<int64_t>& splits,
                   const std::vector<float>& weights = {}) {
  Bags bags;
  bags.combiner = combiner;
  bags.num_ids = splits.back();
  bags.num_bags = static_cast<int64_t>(splits.size()) - 1;
  bags.row_splits = splits.data();
  bags.weights = weights.empty() ? nullptr : weights.data();
  return bags;
}

#ifndef KERAS_SPARSE_DEVICE_TESTS
// No table of these programs is in a device's memory.
inline Status LookupOnDevice(EmbeddingTable* /*table*/, const std::vector<int64_t>& /*ids*/,
                             const Bags& /*bags*/, std::vector<float>* /*rows*/,
                             Executor* /*executor*/) {
  return Status(StatusCode::kFailedPrecondition, "There is no device");
}
constexpr auto ApplyOnDevice = ApplyGradients;
#endif

inline std::vector<float> Pool(EmbeddingTable* table, const std::vector<int64_t>& ids,
                               const Bags& bags, Executor* executor = Inline()) {
  // NaN, so that a value nobody wrote is found.
  std::vector<float> rows(static_cast<size_t>(bags.num_bags * table->dim()),
                          std::numeric_limits<float>::quiet_NaN());
  const bool is_on_device = table->options().storage.device != nullptr;
  EXPECT_TRUE(IsOk(is_on_device ? LookupOnDevice(table, ids, bags, &rows, executor)
                                : LookupRows({{table, ids.data(), bags, rows.data()}}, executor)));
  return rows;
}

inline std::vector<float> Lookup(EmbeddingTable* table, const std::vector<int64_t>& ids,
                                 Executor* executor = Inline()) {
  return Pool(table, ids, NoBags(ids), executor);
}

inline ApplyRequest Request(EmbeddingTable* table, const std::vector<int64_t>& ids,
                            const Bags& bags, const std::vector<float>& grads,
                            const std::vector<float>& numbers = {1}) {
  EXPECT_EQ(bags.num_bags * table->dim(), static_cast<int64_t>(grads.size()));
  return {
      table, {{ids.data(), bags, grads.data(), table->dim()}}, RuleGenerationOf(*table), numbers};
}

// One step.
//   numbers  the learning rate, then what else the rule takes
inline Status Apply(EmbeddingTable* table, const std::vector<float>& numbers,
                    const std::vector<int64_t>& ids, const std::vector<float>& grads,
                    Executor* executor = Inline()) {
  const ApplyRequest request = Request(table, ids, NoBags(ids), grads, numbers);
  const bool is_on_device = table->options().storage.device != nullptr;
  return (is_on_device ? ApplyOnDevice : ApplyGradients)({request}, executor);
}

// Rows of these keys, or their whole records.
inline Status ImportAll(EmbeddingTable* table, const std::vector<int64_t>& keys,
                        const std::vector<float>& records, Executor* executor = Inline()) {
  const auto n = static_cast<int64_t>(keys.size());
  const int64_t width = static_cast<int64_t>(records.size()) / n;
  return ImportRows(table, keys.data(), n, records.data(), width, executor);
}

// The same in tables that are to stay alike.
inline Status ApplyToEach(const std::vector<EmbeddingTable*>& tables,
                          const std::vector<float>& numbers, const std::vector<int64_t>& ids,
                          const std::vector<float>& grads, Executor* executor = Inline()) {
  for (EmbeddingTable* table : tables) {
    KERAS_SPARSE_RETURN_IF_ERROR(Apply(table, numbers, ids, grads, executor));
  }
  return Status::Ok();
}
inline Status ImportToEach(const std::vector<EmbeddingTable*>& tables,
                           const std::vector<int64_t>& keys, const std::vector<float>& records,
                           Executor* executor = Inline()) {
  for (EmbeddingTable* table : tables) {
    KERAS_SPARSE_RETURN_IF_ERROR(ImportAll(table, keys, records, executor));
  }
  return Status::Ok();
}

// Steps without a gradient.
inline void PassSteps(EmbeddingTable* table, const std::vector<float>& numbers, int64_t n) {
  for (int64_t i = 0; i < n; ++i) ASSERT_TRUE(IsOk(Apply(table, numbers, {}, {})));
}

// A learning rate of 1: a row minus the sum of its gradients.
inline Status Subtract(EmbeddingTable* table, const std::vector<int64_t>& ids,
                       const std::vector<float>& grads, Executor* executor = Inline()) {
  return Apply(table, {1}, ids, grads, executor);
}

struct ExportedRow {
  std::vector<float> record;
  bool operator==(const ExportedRow& other) const { return Bits(record) == Bits(other.record); }
};
using Exported = std::map<int64_t, ExportedRow>;

// Calls use(i, piece) for each row `i` of each piece of a table, of about max_rows.
template <typename Use>
void ForEachRow(const EmbeddingTable& table, int64_t max_rows, const Use& use) {
  ExportedRows piece;
  for (int64_t cursor = 0; cursor >= 0; cursor = piece.next_cursor) {
    const Status status = ExportRows(table, cursor, max_rows, &piece);
    EXPECT_TRUE(IsOk(status));
    if (!status.ok()) break;
    for (size_t i = 0; i < piece.keys.size(); ++i) use(i, piece);
    if (!piece.keys.empty()) continue;
    EXPECT_EQ(piece.records.size() + piece.ages.size() + piece.frequencies.size(), 0u);
  }
}

// The whole table by key.
inline Exported ExportAll(const EmbeddingTable& table, int64_t max_rows = 1000) {
  Exported all;
  const auto width = static_cast<std::ptrdiff_t>(RecordFloatsOf(table));
  ForEachRow(table, max_rows, [&](size_t i, const ExportedRows& piece) {
    ASSERT_EQ(piece.records.size(), piece.keys.size() * static_cast<size_t>(width));
    const auto begin = piece.records.begin() + static_cast<std::ptrdiff_t>(i) * width;
    EXPECT_TRUE(all.emplace(piece.keys[i], ExportedRow{{begin, begin + width}}).second)
        << "key " << piece.keys[i] << " came twice";
  });
  return all;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_TABLE_TESTING_H_
