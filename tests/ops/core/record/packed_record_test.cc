#include "ops/core/record/packed_record.h"

#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::packed_record_test {

const Slot kWide = {"momentum", false, 0.3f};
const Slot kNarrow = {"accumulator", true, 0.1f};

RecordLayout LayoutOf(int64_t dim, const RecordTypes& types) {
  return {RecordLayout(dim, {kWide, kNarrow, kWide}, true), KeptWords{true, true}, types};
}

// A row and two slots of halves, which end at whole words; a slot of one float, and three words.
TEST(PackedRecord, TakesHalfTheBytesOfItsHalves) {
  constexpr FloatType kFloat = FloatType::kFloat32;
  constexpr FloatType kHalf = FloatType::kBFloat16;
  struct Case {
    int64_t dim;
    RecordTypes types;
    int64_t words;
  };
  for (const Case& each : std::vector<Case>{{8, {kFloat, kFloat}, 24 + 4},
                                            {8, {kHalf, kFloat}, 4 + 16 + 4},
                                            {8, {kFloat, kHalf}, 8 + 8 + 4},
                                            {8, {kHalf, kHalf}, 12 + 4},
                                            {7, {kHalf, kHalf}, 12 + 4},
                                            {7, {kHalf, kFloat}, 4 + 14 + 4},
                                            {1, {kHalf, kHalf}, 3 + 4}}) {
    const RecordLayout layout = LayoutOf(each.dim, each.types);
    EXPECT_EQ(layout.record_words(), each.words);
    EXPECT_EQ(layout.record_bytes(), 4 * each.words);
    EXPECT_EQ(layout.record_floats(), 3 * each.dim + 1) << "as the floats of any type";
    EXPECT_EQ(layout.Unpacked().record_words(), 3 * each.dim + 4);
  }
}

TEST(PackedRecord, KeepsWhatFitsAndAllWordsBehind) {
  for (const RecordTypes& types : kPackedTypes) {
    for (const int64_t dim : {1, 2, 7, 33}) {
      const RecordLayout layout = LayoutOf(dim, types);
      const RecordLayout float_layout = layout.Unpacked();
      std::vector<float> floats = RandomFloats(float_layout.record_words(), 1);
      RoundRecord(layout, floats.data());
      float_layout.SetLastStep(floats.data(), 0xffc01234);  // the words may look like NaNs
      float_layout.SetGradientStep(floats.data(), 0x7fc00001);
      float_layout.SetFrequency(floats.data(), 3);
      for (const bool is_random : {false, true}) {
        std::vector<float> record(static_cast<size_t>(layout.record_words()), -1);
        PackRecord(layout, floats.data(), {is_random, 5, {}}, 9, record.data());
        EXPECT_EQ(layout.LastStep(record.data()), 0xffc01234);
        EXPECT_EQ(layout.GradientStep(record.data()), 0x7fc00001u);
        EXPECT_EQ(layout.Frequency(record.data()), 3u);
        std::vector<float> back(floats.size());
        UnpackRecord(layout, record.data(), back.data());
        EXPECT_EQ(Bits(back), Bits(floats)) << NameOf(types) << ", dim " << dim;
      }
    }
  }
}

// Other rules than the table's start with slots of their own.
TEST(PackedRecord, IsLaidOutAnewWithItsRow) {
  for (const RecordTypes& types : kPackedTypes) {
    constexpr int64_t kDim = 5;
    const RecordLayout from = LayoutOf(kDim, types);
    const RecordLayout to(RecordLayout(kDim, {kNarrow, kWide}, true), {true, true}, types);
    std::vector<float> old(static_cast<size_t>(from.record_words()));
    const std::vector<float> row = RandomFloats(kDim, 1);
    PackRow(from, row.data(), old.data());
    from.InitializeSlots(old.data(), 1);
    from.CountGradient(old.data(), 12);
    std::vector<float> record(static_cast<size_t>(to.record_words()), -1);
    to.LayOut(from, old.data(), 77, record.data());
    std::vector<float> floats(static_cast<size_t>(to.Unpacked().record_words()));
    UnpackRecord(to, record.data(), floats.data());
    std::vector<float> expected = row;
    expected.push_back(kNarrow.initial_value);
    expected.insert(expected.end(), kDim, kWide.initial_value);
    expected.resize(floats.size());
    RoundRecord(to, expected.data());
    to.Unpacked().SetLastStep(expected.data(), 77);
    to.Unpacked().SetGradientStep(expected.data(), 12);
    to.Unpacked().SetFrequency(expected.data(), 1);
    EXPECT_EQ(Bits(floats), Bits(expected)) << NameOf(types);
    EXPECT_EQ(floats[kDim], kNarrow.initial_value) << "a slot of one float is float32";
  }
}

// A key of a part is that of the whole table, modulo 2^64.
TEST(Rounding, IsThatOfTheWholeTable) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t key : {int64_t{0}, int64_t{-1}, int64_t{7}, kMost, -kMost}) {
    const Rounding part = {true, 4, {{{1, 2}}, 3, 5, 6}};
    const Rounding whole = {true, 4, {{{1, 2}}, 1, 0, 0}};
    const auto key_there = static_cast<int64_t>(static_cast<uint64_t>(key) * 3 + 5);
    const RandomBits bits = part.Of(key);
    EXPECT_EQ(bits.start, whole.Of(key_there).start);
    EXPECT_EQ(bits.mask, whole.Of(key_there).mask);
    EXPECT_EQ(part.FirstElement(2), whole.FirstElement(2) + 6);
  }
}

}  // namespace keras_sparse::packed_record_test
