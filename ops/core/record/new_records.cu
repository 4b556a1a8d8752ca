#include <vector>

#include "ops/core/device/device_array.h"
#include "ops/core/device/device_code.h"
#include "ops/core/device/device_floats.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/record/new_records.h"

namespace keras_sparse::cuda_impl {
namespace {

// Words of a record per lane: one block of random numbers, or two for 16-bit rows.
constexpr int64_t kLaneWords = 4;

struct NewRecords {
  RecordsView records;
  int64_t n;
  int64_t row_words;
  int64_t words;        // of a record
  const float* behind;  // (words - row_words) the words after the row, the same in every record

  __device__ int64_t lanes() const { return (words + kLaneWords - 1) / kLaneWords; }

  // Fills the words of one lane, starting with word `begin`.
  //   fill_row(begin, n, to)  writes words of the row
  template <typename FillRow>
  __device__ void Fill(int64_t begin, float* record, const FillRow& fill_row) const {
    const int64_t end = begin + kLaneWords < words ? begin + kLaneWords : words;
    const int64_t row_end = end < row_words ? end : row_words;
    if (begin < row_end) fill_row(begin, row_end - begin, record + begin);
    for (int64_t word = begin < row_words ? row_words : begin; word < end; ++word) {
      record[word] = behind[word - row_words];
    }
  }
};

// Writes words [begin, begin + n) of a key's initial row of 16-bit floats.
__device__ void FillHalves(const InitialRows& initial_rows, int64_t key, FloatType type,
                           int64_t dim, int64_t begin, int64_t n, float* to) {
  float columns[2 * kLaneWords] = {};
  const int64_t first = 2 * begin;
  const int64_t end = 2 * (begin + n) < dim ? 2 * (begin + n) : dim;
  initial_rows.Fill(key, first, end - first, columns);
  auto* halves = reinterpret_cast<uint16_t*>(to);
  for (int64_t i = 0; i < 2 * n; ++i) {
    const bool is_padding = first + i >= dim;
    halves[i] = is_padding ? 0 : EncodeHalf(type, columns[i]);
  }
}

__global__ void InitializeKernel(NewRecords all, const int64_t* keys, const uint32_t* rows,
                                 InitialRows initial_rows, FloatType type, int64_t dim) {
  for (int64_t i = LaneOfKernel(); i < all.n * all.lanes(); i += LanesOfKernel()) {
    const int64_t which = i / all.lanes();
    const auto row = rows == nullptr ? static_cast<uint32_t>(which) : rows[which];
    const int64_t key = keys == nullptr ? which : keys[which];
    all.Fill(i % all.lanes() * kLaneWords, all.records.Record(row),
             [&](int64_t begin, int64_t n, float* to) {
               if (type == FloatType::kFloat32) return initial_rows.Fill(key, begin, n, to);
               FillHalves(initial_rows, key, type, dim, begin, n, to);
             });
  }
}

//   num_kept    words at the end of a record that are copied
//   kept_words  their position in the old records
__global__ void LayOutKernel(NewRecords all, RecordsView from, int64_t num_kept,
                             int64_t kept_words) {
  for (int64_t i = LaneOfKernel(); i < all.n * all.lanes(); i += LanesOfKernel()) {
    const auto row = static_cast<uint32_t>(i / all.lanes());
    const int64_t first = i % all.lanes() * kLaneWords;
    const float* old = from.Record(row);
    float* record = all.records.Record(row);
    all.Fill(first, record, [&](int64_t begin, int64_t n, float* to) {
      for (int64_t j = 0; j < n; ++j) to[j] = old[begin + j];
    });
    for (int64_t j = 0; j < num_kept; ++j) {
      const int64_t word = all.words - num_kept + j;
      if (word < first || word >= first + kLaneWords) continue;  // belongs to another lane
      // These words are not floats.
      reinterpret_cast<uint32_t*>(record)[word] =
          reinterpret_cast<const uint32_t*>(old)[kept_words + j];
    }
  }
}

// Prepares new records of a layout, with the words after the rows in `behind`.
Status Prepare(const RecordsView& records, int64_t n, const RecordLayout& layout, int64_t step,
               Device* device, DeviceArray<float>* behind, NewRecords* all) {
  std::vector<float> record(static_cast<size_t>(layout.record_words()));
  layout.InitializeSlots(record.data(), step);
  record.erase(record.begin(), record.begin() + static_cast<std::ptrdiff_t>(layout.row_words()));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<float>::Copy(device, record, behind));
  *all = {records, n, layout.row_words(), layout.record_words(), behind->data()};
  return Status::Ok();
}

int64_t NumLanes(const RecordLayout& layout, int64_t n) {
  return n * ((layout.record_words() + kLaneWords - 1) / kLaneWords);
}

}  // namespace

Status InitializeRecords(const RecordsView& records, const int64_t* keys, const uint32_t* rows,
                         int64_t n, const InitialRows& initial_rows, const RecordLayout& layout,
                         int64_t step, Device* device) {
  DeviceArray<float> behind;
  NewRecords all;
  KERAS_SPARSE_RETURN_IF_ERROR(Prepare(records, n, layout, step, device, &behind, &all));
  Launch(InitializeKernel, BlocksFor(*device, NumLanes(layout, n)), kBlock, device->stream(), all,
         keys, rows, initial_rows, layout.types().row, layout.dim());
  return Status::Ok();
}

Status LayOutRecords(const RecordsView& from, const RecordLayout& from_layout,
                     const RecordsView& records, int64_t n, const RecordLayout& layout,
                     int64_t step, Device* device) {
  DeviceArray<float> behind;
  NewRecords all;
  KERAS_SPARSE_RETURN_IF_ERROR(Prepare(records, n, layout, step, device, &behind, &all));
  Launch(LayOutKernel, BlocksFor(*device, NumLanes(layout, n)), kBlock, device->stream(), all, from,
         layout.num_kept_words(), from_layout.kept_word());
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
