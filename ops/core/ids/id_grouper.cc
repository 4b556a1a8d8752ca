#include "ops/core/ids/id_grouper.h"

#include <utility>

#include "ops/core/base/hash.h"
#include "ops/core/base/secret_hash.h"

namespace keras_sparse {

void IdGrouper::Number(const int64_t* ids, int64_t n, int64_t num_rows) {
  const auto size = static_cast<size_t>(n);
  numbers_.resize(size);
  unique_ids_.resize(size + 1);
  if (0 < num_rows && num_rows <= kMaxRowsPerId * n) {
    NumberRows(ids, num_rows);
  } else {
    NumberHashed(ids);
  }
}

void IdGrouper::NumberRows(const int64_t* ids, int64_t num_rows) {
  constexpr size_t kWordBits = 64;
  const size_t num_words = (static_cast<size_t>(num_rows) + kWordBits - 1) / kWordBits;
  row_bits_.assign(num_words, 0);
  row_numbers_.resize(num_words);
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const auto row = static_cast<size_t>(ids[i]);
    row_bits_[row / kWordBits] |= uint64_t{1} << row % kWordBits;
  }
  uint32_t number = 0;
  for (size_t word = 0; word < num_words; ++word) {
    row_numbers_[word] = number;
    for (uint64_t bits = row_bits_[word]; bits != 0; bits &= bits - 1) {
      unique_ids_[++number] = static_cast<int64_t>(kWordBits * word) + __builtin_ctzll(bits);
    }
  }
  num_unique_ = number;
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const auto row = static_cast<size_t>(ids[i]);
    const uint64_t below = row_bits_[row / kWordBits] & ((uint64_t{1} << row % kWordBits) - 1);
    numbers_[i] =
        row_numbers_[row / kWordBits] + static_cast<uint32_t>(__builtin_popcountll(below));
  }
}

void IdGrouper::NumberHashed(const int64_t* ids) {
  const size_t size = numbers_.size();
  size_t num_slots = 16;
  while (num_slots < 4 * size) num_slots *= 2;
  slots_.assign(num_slots, 0);

  // In skewed data an id is new about half of the time, which a branch would mispredict. Instead,
  // each id is written as the next new one, and an empty slot is one that gets this position.
  const size_t mask = num_slots - 1;
  uint32_t num_unique = 0;
  for (size_t i = 0; i < size; ++i) {
    const uint32_t next = num_unique + 1;
    unique_ids_[next] = ids[i];
    size_t slot = SecretHash(HashKey(ids[i])) & mask;
    uint32_t is_new;
    uint32_t place;
    while (true) {
      is_new = slots_[slot] == 0 ? 1 : 0;
      place = slots_[slot] + (next & (0u - is_new));
      if (unique_ids_[place] == ids[i]) break;
      slot = (slot + 1) & mask;
    }
    slots_[slot] = place;
    num_unique += is_new;
    numbers_[i] = place - 1;
  }
  num_unique_ = num_unique;
}

void IdGrouper::Sort(const uint32_t* positions) {
  order_.resize(numbers_.size());
  offsets_.assign(static_cast<size_t>(num_unique_) + 1, 0);
  uint32_t* next = offsets_.data() + 1;
  for (const uint32_t number : numbers_) ++next[number];
  uint32_t place = 0;
  for (int64_t u = 0; u < num_unique_; ++u) place += std::exchange(next[u], place);
  for (size_t i = 0; i < numbers_.size(); ++i) {
    order_[next[numbers_[i]]++] = positions == nullptr ? static_cast<uint32_t>(i) : positions[i];
  }
  // Each offset has moved to where the next id's occurrences begin.
}

}  // namespace keras_sparse
