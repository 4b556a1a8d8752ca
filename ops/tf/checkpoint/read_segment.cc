// keras_sparse_read_segment: reads records of a linked segment. A function and not an op, so that
// checking files starts none of TensorFlow's threads, which a forked child would lack.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "ops/core/files/file_system.h"
#include "ops/core/stores/ssd/ssd_segment.h"
#include "ops/tf/binding/error_prefix.h"

// Reads the live entries among `first` to `first + n`, and returns their number. If it fails,
// returns -1 minus the number of a StatusCode and writes the error into `message`.
//   is_alive, keys  (n)
//   records         (n, record_words), in units of four bytes, including step words
//   message         (message_bytes), terminated by a zero
// REQUIRES: record_words > 0, first >= 0
extern "C" __attribute__((visibility("default"))) int64_t keras_sparse_read_segment(
    const char* path, int64_t record_words, int64_t first, const bool* is_alive, int64_t n,
    int64_t* keys, float* records, char* message, int64_t message_bytes) {
  using namespace keras_sparse;
  std::vector<int64_t> read_keys;
  std::vector<char> read_records;
  const Status status = ReadSegment(FileSystem::Posix(), path, 4 * record_words, first, is_alive, n,
                                    &read_keys, &read_records);
  if (!status.ok()) {
    const std::string words = WithErrorPrefix(status.message());
    const size_t length = std::min(words.size(), static_cast<size_t>(message_bytes - 1));
    std::memcpy(message, words.data(), length);
    message[length] = '\0';
    return -1 - static_cast<int64_t>(status.code());
  }
  std::copy(read_keys.begin(), read_keys.end(), keys);
  if (!read_records.empty()) std::memcpy(records, read_records.data(), read_records.size());
  return static_cast<int64_t>(read_keys.size());
}
