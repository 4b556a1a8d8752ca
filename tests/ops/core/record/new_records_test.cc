#include "ops/core/record/new_records.h"

#include "ops/core/record/hbm_records.h"
#include "ops/core/record/initializer.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::new_records_test {

using cuda_impl::InitializeRecords;
using cuda_impl::LayOutRecords;

constexpr int64_t kRows = 50;
constexpr int64_t kStep = int64_t{1} << 31;

// With and without slots and steps.
std::vector<RecordLayout> LayoutsOf(int64_t dim) {
  const Slot wide = {"momentum", false, 0.5f};
  const Slot narrow = {"accumulator", true, 0.1f};
  const RecordLayout all(dim, {wide, wide, narrow}, true);
  std::vector<RecordLayout> layouts = {
      RecordLayout(dim, {}, false),
      RecordLayout(dim, {wide}, false),
      all,
      RecordLayout(RecordLayout(dim, {wide}, true), {true, false}),
      RecordLayout(RecordLayout(dim, {}, false), {true, false}),
      RecordLayout(RecordLayout(dim, {wide}, true), {true, true}),
      RecordLayout(RecordLayout(dim, {}, false), {true, true}),
      RecordLayout(RecordLayout(dim, {}, true), {false, true}),
      RecordLayout(RecordLayout(dim, {wide}, false), {false, true})};
  for (const RecordTypes& types : kPackedTypes) {
    layouts.emplace_back(all, KeptWords{true, true}, types);
    layouts.emplace_back(RecordLayout(dim, {}, false), KeptWords{}, types);
    layouts.emplace_back(RecordLayout(dim, {narrow, wide}, false), KeptWords{true, true}, types);
  }
  return layouts;
}

std::unique_ptr<Initializer> Make(const std::string& kind, int64_t first_column) {
  std::unique_ptr<Initializer> initializer;
  EXPECT_TRUE(
      IsOk(Initializer::Create({kind, 0.25f, 0.75f, -3, first_column, 5, 2}, &initializer)));
  return initializer;
}

std::vector<uint32_t> Words(const HbmRecords& records, const RecordLayout& layout) {
  std::vector<uint32_t> words(static_cast<size_t>(kRows * layout.record_words()));
  EXPECT_TRUE(IsOk(records.Read(0, kRows, words.data())));
  return words;
}

// Those of one record; of new ones the gradient's step is not defined.
std::vector<uint32_t> WordsOf(const std::vector<uint32_t>& all, int64_t row,
                              const RecordLayout& layout, bool has_gradient_step) {
  const auto begin = all.begin() + row * layout.record_words();
  std::vector<uint32_t> words(begin, begin + layout.record_words());
  if (layout.keeps_gradient_step() && !has_gradient_step) {
    words[static_cast<size_t>(layout.kept_word())] = 0;
  }
  return words;
}

TEST(NewRecords, AreThoseOfTheCpu) {
  InAnyOrder([&] {
    const auto device = OpenDevice();
    for (const char* kind : {"constant", "uniform", "normal", "truncated_normal"}) {
      for (const int64_t dim : {1, 3, 4, 7, 33}) {
        for (const RecordLayout& layout : LayoutsOf(dim)) {
          const auto initializer = Make(kind, dim % 6);
          HbmRecords records;
          ASSERT_TRUE(IsOk(HbmRecords::Allocate(device.get(), kRows, layout, &records)));
          // Every other one, with keys of its own.
          std::vector<int64_t> keys;
          std::vector<uint32_t> rows;
          for (int64_t row = 1; row < kRows; row += 2) {
            rows.push_back(static_cast<uint32_t>(kRows - row));
            keys.push_back(row % 4 == 1 ? -row : row << 40);
          }
          const auto device_keys = OnDevice(device.get(), keys);
          const auto device_rows = OnDevice(device.get(), rows);
          ASSERT_TRUE(IsOk(InitializeRecords(records.view(), nullptr, nullptr, kRows,
                                             initializer->rows(), layout, 1, device.get())));
          ASSERT_TRUE(IsOk(InitializeRecords(records.view(), device_keys.data(), device_rows.data(),
                                             device_keys.size(), initializer->rows(), layout, kStep,
                                             device.get())));
          std::vector<int64_t> key_of(kRows);
          std::vector<int64_t> step_of(kRows, 1);
          for (int64_t row = 0; row < kRows; ++row) key_of[static_cast<size_t>(row)] = row;
          for (size_t i = 0; i < rows.size(); ++i) {
            key_of[rows[i]] = keys[i];
            step_of[rows[i]] = kStep;
          }
          const std::vector<uint32_t> words = Words(records, layout);
          for (int64_t row = 0; row < kRows; ++row) {
            std::vector<float> record(static_cast<size_t>(layout.record_words()));
            initializer->FillRecord(layout, key_of[static_cast<size_t>(row)], record.data());
            layout.InitializeSlots(record.data(), step_of[static_cast<size_t>(row)]);
            std::vector<uint32_t> expected(record.size());
            std::memcpy(expected.data(), record.data(), 4 * record.size());
            ASSERT_EQ(WordsOf(words, row, layout, false), WordsOf(expected, 0, layout, false))
                << kind << ", dim " << dim << ", row " << row;
          }
        }
      }
    }
  });
}

TEST(NewRecords, KeepTheirRowsWhenLaidOutAnew) {
  const auto device = OpenDevice();
  for (const int64_t dim : {1, 4, 7}) {
    const std::vector<RecordLayout> layouts = LayoutsOf(dim);
    for (const RecordLayout& from : layouts) {
      for (const RecordLayout& to : layouts) {
        if (from.keeps_gradient_step() != to.keeps_gradient_step()) continue;
        if (from.keeps_frequency() != to.keeps_frequency()) continue;
        if (from.types().row != to.types().row) continue;
        HbmRecords old;
        HbmRecords records;
        ASSERT_TRUE(IsOk(HbmRecords::Allocate(device.get(), kRows, from, &old)));
        ASSERT_TRUE(IsOk(HbmRecords::Allocate(device.get(), kRows, to, &records)));
        const std::vector<float> content = RandomFloats(kRows * from.record_words(), 3);
        ASSERT_TRUE(IsOk(old.Write(0, kRows, content.data())));
        ASSERT_TRUE(
            IsOk(LayOutRecords(old.view(), from, records.view(), kRows, to, kStep, device.get())));
        const std::vector<uint32_t> words = Words(records, to);
        for (int64_t row = 0; row < kRows; ++row) {
          std::vector<float> record(static_cast<size_t>(to.record_words()));
          to.LayOut(from, content.data() + row * from.record_words(), kStep, record.data());
          std::vector<uint32_t> expected(record.size());
          std::memcpy(expected.data(), record.data(), 4 * record.size());
          ASSERT_EQ(WordsOf(words, row, to, true), expected) << "dim " << dim << ", row " << row;
        }
      }
    }
  }
}

}  // namespace keras_sparse::new_records_test
