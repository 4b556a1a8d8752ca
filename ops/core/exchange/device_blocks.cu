#include "ops/core/device/device_array.h"
#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/exchange/device_blocks.h"

namespace keras_sparse::cuda_impl {
namespace {

struct Header {
  Word words[kHeaderWords];
};

__global__ void WriteHeadersKernel(Header header, Word* const* blocks, int64_t num_blocks) {
  for (int64_t i = LaneOfKernel(); i < num_blocks * kHeaderWords; i += LanesOfKernel()) {
    blocks[i / kHeaderWords][i % kHeaderWords] = header.words[i % kHeaderWords];
  }
}

//   words  (num_blocks, kHeaderWords)
__global__ void ReadHeadersKernel(const Word* const* blocks, int64_t num_blocks, Word* words) {
  for (int64_t i = LaneOfKernel(); i < num_blocks * kHeaderWords; i += LanesOfKernel()) {
    words[i] = blocks[i / kHeaderWords][i % kHeaderWords];
  }
}

}  // namespace

Status WriteHeaders(const ExchangeLayout& layout, const std::vector<Word*>& blocks,
                    Device* device) {
  Header header;
  WriteStatus(Status::Ok(), layout.checksum, header.words);
  DeviceArray<Word*> places;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<Word*>::Copy(device, blocks, &places));
  Launch(WriteHeadersKernel, BlocksFor(*device, places.size() * kHeaderWords), kBlock,
         device->stream(), header, static_cast<Word* const*>(places.data()), places.size());
  return Status::Ok();
}

Status WriteErrors(const ExchangeLayout& layout, const Status& error,
                   const std::vector<Word*>& blocks, Device* device) {
  std::vector<Word> words(static_cast<size_t>(StatusWords(error)));
  WriteStatus(error, layout.checksum, words.data());
  const int64_t bytes = static_cast<int64_t>(sizeof(Word)) * StatusWords(error);
  for (Word* block : blocks) {
    KERAS_SPARSE_RETURN_IF_ERROR(device->CopyToDevice(words.data(), bytes, block));
  }
  return Status::Ok();
}

Status CheckBlocks(const ExchangeLayout& layout, const std::vector<Block>& blocks, Device* device) {
  std::vector<const Word*> places;  // of blocks that have a header
  for (const Block& each : blocks) {
    if (each.num_words >= kHeaderWords) places.push_back(each.words);
  }
  DeviceArray<const Word*> from;
  DeviceArray<Word> to;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<const Word*>::Copy(device, places, &from));
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<Word>::Allocate(device, from.size() * kHeaderWords, &to));
  Launch(ReadHeadersKernel, BlocksFor(*device, to.size()), kBlock, device->stream(),
         static_cast<const Word* const*>(from.data()), from.size(), to.data());
  std::vector<Word> headers;
  KERAS_SPARSE_RETURN_IF_ERROR(to.Read(&headers));
  std::vector<std::vector<Word>> errors(blocks.size());
  std::vector<Block> seen = blocks;
  const Word* next = headers.data();
  for (size_t r = 0; r < blocks.size(); ++r) {
    if (blocks[r].num_words < kHeaderWords) continue;
    seen[r].words = next;
    next += kHeaderWords;
    if (!IsError(seen[r])) continue;
    errors[r].resize(static_cast<size_t>(blocks[r].num_words));
    KERAS_SPARSE_RETURN_IF_ERROR(device->CopyToHost(
        blocks[r].words, static_cast<int64_t>(sizeof(Word)) * blocks[r].num_words,
        errors[r].data()));
    seen[r].words = errors[r].data();
  }
  return keras_sparse::CheckBlocks(layout, seen);
}

}  // namespace keras_sparse::cuda_impl
