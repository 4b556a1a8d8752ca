#include "ops/core/id_grouper.h"

#include "ops/core/hash.h"

namespace keras_sparse {

void IdGrouper::Group(const int64_t* ids, const uint32_t* positions, int64_t n, int64_t num_rows) {
  const auto size = static_cast<size_t>(n);
  unique_ids_.resize(size + 2);
  order_.resize(size);
  if (0 < num_rows && num_rows <= kMaxRowsPerId * n) {
    GroupRows(ids, positions, size, num_rows);
  } else {
    GroupHashed(ids, positions, size);
  }
}

void IdGrouper::GroupRows(const int64_t* ids, const uint32_t* positions, size_t size,
                          int64_t num_rows) {
  row_places_.assign(static_cast<size_t>(num_rows), 0);
  offsets_.resize(size + 2);
  for (size_t i = 0; i < size; ++i) ++row_places_[static_cast<size_t>(ids[i])];

  // Counts become places. A row that does not occur is written down too, and the next one over it.
  uint32_t place = 0;
  uint32_t num_unique = 0;
  for (size_t row = 0; row < row_places_.size(); ++row) {
    const uint32_t count = row_places_[row];
    unique_ids_[num_unique + 1] = static_cast<int64_t>(row);
    offsets_[num_unique] = place;
    row_places_[row] = place;
    place += count;
    num_unique += count > 0 ? 1 : 0;
  }
  offsets_[num_unique] = place;
  num_unique_ = num_unique;
  for (size_t i = 0; i < size; ++i) {
    order_[row_places_[static_cast<size_t>(ids[i])]++] =
        positions == nullptr ? static_cast<uint32_t>(i) : positions[i];
  }
}

void IdGrouper::GroupHashed(const int64_t* ids, const uint32_t* positions, size_t size) {
  size_t num_slots = 16;
  while (num_slots < 4 * size) num_slots *= 2;
  slots_.assign(num_slots, 0);
  number_of_.resize(size);
  offsets_.assign(size + 2, 0);

  // Whether an id is new is a coin toss in skewed data, and a branch on it half of the time: each
  // id is written down as the next new one, and an empty slot is one that has this number. Offsets
  // count occurrences first.
  const size_t mask = num_slots - 1;
  uint32_t num_unique = 0;
  for (size_t i = 0; i < size; ++i) {
    const uint32_t next = num_unique + 1;
    unique_ids_[next] = ids[i];
    size_t slot = HashKey(ids[i]) & mask;
    uint32_t is_new;
    uint32_t number;
    while (true) {
      is_new = slots_[slot] == 0 ? 1 : 0;
      number = slots_[slot] + (next & (0u - is_new));
      if (unique_ids_[number] == ids[i]) break;
      slot = (slot + 1) & mask;
    }
    slots_[slot] = number;
    num_unique += is_new;
    number_of_[i] = number;
    ++offsets_[number];
  }
  num_unique_ = num_unique;

  uint32_t place = 0;
  for (uint32_t number = 1; number <= num_unique; ++number) {
    const uint32_t count = offsets_[number];
    offsets_[number] = place;
    place += count;
  }
  for (size_t i = 0; i < size; ++i) {
    order_[offsets_[number_of_[i]]++] =
        positions == nullptr ? static_cast<uint32_t>(i) : positions[i];
  }
  // Each offset has moved to the start of the next id.
}

}  // namespace keras_sparse
