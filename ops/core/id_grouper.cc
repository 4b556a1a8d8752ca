#include "ops/core/id_grouper.h"

#include <algorithm>

#include "ops/core/hash.h"

namespace keras_sparse {

void IdGrouper::Group(const int64_t* ids, const uint32_t* positions, int64_t n) {
  const auto size = static_cast<size_t>(n);
  size_t num_slots = 16;
  while (num_slots < 2 * size) num_slots *= 2;
  slots_.assign(num_slots, 0);
  unique_ids_.clear();
  unique_of_.resize(size);
  offsets_.clear();
  order_.resize(size);

  // offsets_ counts the occurrences of a unique id first.
  const size_t mask = num_slots - 1;
  for (size_t i = 0; i < size; ++i) {
    size_t slot = HashKey(ids[i]) & mask;
    while (slots_[slot] != 0 && unique_ids_[slots_[slot] - 1] != ids[i]) slot = (slot + 1) & mask;
    if (slots_[slot] == 0) {
      unique_ids_.push_back(ids[i]);
      offsets_.push_back(0);
      slots_[slot] = static_cast<uint32_t>(unique_ids_.size());
    }
    unique_of_[i] = slots_[slot] - 1;
    ++offsets_[unique_of_[i]];
  }

  uint32_t place = 0;
  for (uint32_t& offset : offsets_) {
    const uint32_t count = offset;
    offset = place;
    place += count;
  }
  for (size_t i = 0; i < size; ++i) {
    order_[offsets_[unique_of_[i]]++] =
        positions == nullptr ? static_cast<uint32_t>(i) : positions[i];
  }
  // Each offset has moved to the start of the next id.
  offsets_.insert(offsets_.begin(), 0);
}

}  // namespace keras_sparse
