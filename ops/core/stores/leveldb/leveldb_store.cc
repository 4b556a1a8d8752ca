#include "ops/core/stores/leveldb/leveldb_store.h"

#include <leveldb/env.h>
#include <leveldb/write_batch.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "ops/core/base/hash.h"
#include "ops/core/base/io_pool.h"
#include "ops/core/stores/leveldb/leveldb_env.h"

namespace keras_sparse {
namespace {

// Larger than LevelDB's own 4 and 2 MB, for tables of many gigabytes: fewer files and compactions.
constexpr size_t kWriteBufferBytes = size_t{32} << 20;
constexpr size_t kFileBytes = size_t{32} << 20;
constexpr int kFilterBitsPerKey = 10;
// Bytes written, and held in memory, at once.
constexpr int64_t kBatchBytes = int64_t{4} << 20;

const bool kRegistered = RowStore::Register("leveldb", LevelDbStore::Open);

leveldb::Slice SliceOf(const int64_t& key) {
  return leveldb::Slice(reinterpret_cast<const char*>(&key), sizeof(key));
}

}  // namespace

Status LevelDbStore::Open(const StoreOptions& options, std::unique_ptr<RowStore>* store) {
  std::unique_ptr<LevelDbStore> made(new LevelDbStore(options));
  const MutexLock lock(made->mutex_);
  KERAS_SPARSE_RETURN_IF_ERROR(made->OpenDatabase(options.folder, &made->database_));
  *store = std::move(made);
  return Status::Ok();
}

LevelDbStore::LevelDbStore(const StoreOptions& options)
    : options_(options),
      filter_(leveldb::NewBloomFilterPolicy(kFilterBitsPerKey)),
      folder_(options.folder) {}

LevelDbStore::~LevelDbStore() {
  const MutexLock lock(mutex_);
  database_.reset();
  old_folders_.push_back(folder_);
  (void)RemoveOldDatabases();
}

Status LevelDbStore::OpenDatabase(const std::string& folder,
                                  std::unique_ptr<leveldb::DB>* database) const {
  leveldb::Options options;
  options.env = LevelDbEnv();
  options.create_if_missing = true;
  options.error_if_exists = true;
  options.paranoid_checks = true;  // else a compaction would checksum damaged rows
  options.write_buffer_size = kWriteBufferBytes;
  options.max_file_size = kFileBytes;
  options.filter_policy = filter_.get();
  options.compression = leveldb::kNoCompression;  // trained floats hardly compress
  leveldb::DB* opened = nullptr;
  KERAS_SPARSE_RETURN_IF_ERROR(ToStatus(leveldb::DB::Open(options, folder, &opened)));
  database->reset(opened);
  return Status::Ok();
}

Status LevelDbStore::ToStatus(const leveldb::Status& status) const {
  if (status.ok()) return Status::Ok();
  const std::string message = "LevelDB in '" + folder_ + "': " + status.ToString();
  if (status.IsCorruption()) return Status(StatusCode::kDataLoss, message);
  for (const int error : {ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE}) {
    // LevelDB passes on only the text of an error.
    if (message.find(std::strerror(error)) != std::string::npos) return ResourceExhausted(message);
  }
  return FailedPrecondition(message);
}

int64_t LevelDbStore::num_rows() const {
  const SharedLock lock(mutex_);
  return keys_.size();
}

int64_t LevelDbStore::bytes() const {
  const SharedLock lock(mutex_);
  return BytesOfFiles();
}

int64_t LevelDbStore::BytesOfFiles() const {
  leveldb::Env* env = leveldb::Env::Default();
  std::vector<std::string> names;
  if (!env->GetChildren(folder_, &names).ok()) return 0;
  int64_t bytes = 0;
  for (const std::string& name : names) {
    uint64_t size = 0;
    // The file may be removed meanwhile.
    if (env->GetFileSize(folder_ + "/" + name, &size).ok()) {
      bytes += static_cast<int64_t>(size);
    }
  }
  return bytes;
}

int64_t LevelDbStore::memory_bytes() const {
  const SharedLock lock(mutex_);
  std::string used;
  (void)database_->GetProperty("leveldb.approximate-memory-usage", &used);
  return keys_.bytes() + (used.empty() ? 0 : std::stoll(used));
}

void LevelDbStore::Contains(const int64_t* keys, int64_t n, bool* found) const {
  const SharedLock lock(mutex_);
  keys_.Contains(keys, n, found);
}

Status LevelDbStore::GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const {
  std::vector<int64_t> held;  // positions in `keys`
  leveldb::ReadOptions options;
  options.verify_checksums = true;
  const SharedLock lock(mutex_);
  keys_.Contains(keys, n, found);
  for (int64_t i = 0; i < n; ++i) {
    if (found[i]) held.push_back(i);
  }
  if (held.empty()) return Status::Ok();
  options.snapshot = database_->GetSnapshot();
  // In the order of the database, so that one block serves all keys in it.
  std::sort(held.begin(), held.end(), [keys](int64_t a, int64_t b) {
    return SliceOf(keys[a]).compare(SliceOf(keys[b])) < 0;
  });
  const auto read = [&](size_t i) REQUIRES_SHARED(mutex_) {
    return Read(options, keys[held[i]], to[held[i]]);
  };
  const Status status = IoPool::Shared()->Run(held.size(), read);
  database_->ReleaseSnapshot(options.snapshot);
  return status;
}

Status LevelDbStore::Read(const leveldb::ReadOptions& options, int64_t key, char* record) const {
  static thread_local std::string value;
  KERAS_SPARSE_RETURN_IF_ERROR(ToStatus(database_->Get(options, SliceOf(key), &value)));
  if (value.size() != static_cast<size_t>(options_.record_bytes)) {
    return Status(StatusCode::kDataLoss, "LevelDB in '" + folder_ + "' must hold records of " +
                                             std::to_string(options_.record_bytes) +
                                             " bytes. Received: " + std::to_string(value.size()));
  }
  std::memcpy(record, value.data(), value.size());
  return Status::Ok();
}

Status LevelDbStore::Put(const int64_t* keys, int64_t n, const char* records) {
  const int64_t record_bytes = options_.record_bytes;
  const int64_t chunk = std::max<int64_t>(1, kBatchBytes / record_bytes);
  const MutexLock lock(mutex_);
  KERAS_SPARSE_RETURN_IF_ERROR(MakeRoom(n));
  for (int64_t begin = 0; begin < n; begin += chunk) {
    const int64_t end = std::min(n, begin + chunk);
    leveldb::WriteBatch batch;
    for (int64_t i = begin; i < end; ++i) {
      batch.Put(SliceOf(keys[i]),
                leveldb::Slice(records + i * record_bytes, static_cast<size_t>(record_bytes)));
    }
    KERAS_SPARSE_RETURN_IF_ERROR(Write(&batch));
    most_bytes_ += static_cast<int64_t>(batch.ApproximateSize());
    for (int64_t i = begin; i < end; ++i) {
      const uint32_t replaced = keys_.Exchange(HashKey(keys[i]), keys[i], 0);
      may_have_dead_ = may_have_dead_ || replaced != HashIndex::kNoRow;
    }
  }
  return Status::Ok();
}

Status LevelDbStore::Write(leveldb::WriteBatch* batch) {
  const Status status = ToStatus(database_->Write(leveldb::WriteOptions(), batch));
  if (status.ok()) return status;
  may_have_dead_ = true;
  if (status.code() != StatusCode::kResourceExhausted) return status;
  // Once its background work has found the disk full, a database rejects all writes, without a way
  // to ask whether it does.
  const Status room = CheckRoomForCopy();
  if (!room.ok()) return ResourceExhausted(status.message() + "; to go on, " + room.message());
  KERAS_SPARSE_RETURN_IF_ERROR(CopyDatabase());
  const Status again = ToStatus(database_->Write(leveldb::WriteOptions(), batch));
  may_have_dead_ = may_have_dead_ || !again.ok();  // part of the batch may be in the new log
  return again;
}

Status LevelDbStore::CheckRoomForCopy() const {
  const int64_t needed = keys_.size() * (options_.record_bytes + int64_t{sizeof(int64_t)}) +
                         2 * static_cast<int64_t>(kWriteBufferBytes);
  std::error_code error;
  const auto room = std::filesystem::space(folder_, error);
  if (!error && room.available >= static_cast<uintmax_t>(needed)) return Status::Ok();
  return ResourceExhausted(
      "the disk must have " + std::to_string(needed) + " bytes for a new database beside '" +
      folder_ + "'. Received: " + (error ? error.message() : std::to_string(room.available)));
}

Status LevelDbStore::CopyDatabase() {
  const std::string folder = options_.folder + "-copy-" + std::to_string(num_copies_++);
  std::unique_ptr<leveldb::DB> copy;
  Status status = OpenDatabase(folder, &copy);
  if (status.ok()) status = CopyInto(copy.get());
  old_folders_.push_back(status.ok() ? folder_ : folder);
  if (status.ok()) {
    database_.swap(copy);
    folder_ = folder;
    may_have_dead_ = false;
  }
  copy.reset();
  (void)RemoveOldDatabases();
  most_bytes_ = BytesOfFiles();
  return status;
}

// In the order of the database, so that its files are read sequentially and the new one sorts
// nothing.
Status LevelDbStore::CopyInto(leveldb::DB* copy) const {
  leveldb::ReadOptions options;
  options.verify_checksums = true;  // otherwise damaged rows would get new, valid checksums
  options.fill_cache = false;
  const std::unique_ptr<leveldb::Iterator> entry(database_->NewIterator(options));
  int64_t num_copied = 0;
  leveldb::WriteBatch batch;
  for (entry->SeekToFirst(); entry->Valid(); entry->Next()) {
    int64_t key = 0;
    std::memcpy(&key, entry->key().data(), sizeof(key));
    // A record that could not be erased is not a row.
    if (keys_.Find(HashKey(key), key) == HashIndex::kNoRow) continue;
    batch.Put(entry->key(), entry->value());
    ++num_copied;
    if (static_cast<int64_t>(batch.ApproximateSize()) < kBatchBytes) continue;
    KERAS_SPARSE_RETURN_IF_ERROR(ToStatus(copy->Write(leveldb::WriteOptions(), &batch)));
    batch.Clear();
  }
  KERAS_SPARSE_RETURN_IF_ERROR(ToStatus(entry->status()));
  if (num_copied != keys_.size()) {
    return Status(StatusCode::kDataLoss, "LevelDB in '" + folder_ + "' must hold " +
                                             std::to_string(keys_.size()) +
                                             " rows. Received: " + std::to_string(num_copied));
  }
  return ToStatus(copy->Write(leveldb::WriteOptions(), &batch));
}

Status LevelDbStore::RemoveOldDatabases() {
  Status status;
  std::vector<std::string> left;
  for (const std::string& folder : old_folders_) {
    const Status removed = ToStatus(leveldb::DestroyDB(folder, leveldb::Options()));
    if (!removed.ok()) left.push_back(folder);
    if (status.ok()) status = removed;
  }
  old_folders_ = std::move(left);
  return status;
}

Status LevelDbStore::Compact() {
  const MutexLock lock(mutex_);
  if (may_have_dead_) {
    KERAS_SPARSE_RETURN_IF_ERROR(CheckRoomForCopy());
    KERAS_SPARSE_RETURN_IF_ERROR(CopyDatabase());
  }
  return RemoveOldDatabases();
}

Status LevelDbStore::MakeRoom(int64_t num_records) {
  const int64_t added = num_records * (options_.record_bytes + int64_t{sizeof(int64_t)});
  const auto fits = [&]() REQUIRES(mutex_) { return most_bytes_ + added <= options_.capacity; };
  if (fits()) return Status::Ok();
  most_bytes_ = BytesOfFiles();
  if (fits()) return Status::Ok();
  // Replaced and erased records still use space.
  database_->CompactRange(nullptr, nullptr);
  most_bytes_ = BytesOfFiles();
  if (fits()) return Status::Ok();
  return TierIsFull(options_.folder, options_.capacity, most_bytes_ + added);
}

Status LevelDbStore::Erase(const int64_t* keys, int64_t n) {
  const MutexLock lock(mutex_);
  EraseLocked(keys, n);
  return Status::Ok();
}

void LevelDbStore::EraseLocked(const int64_t* keys, int64_t n) {
  leveldb::WriteBatch batch;
  for (int64_t i = 0; i < n; ++i) {
    if (keys_.Erase(HashKey(keys[i]), keys[i]) == HashIndex::kNoRow) continue;
    batch.Delete(SliceOf(keys[i]));
    may_have_dead_ = true;
  }
  // keys_ decides which rows exist: a record that the database fails to erase only uses space.
  if (database_->Write(leveldb::WriteOptions(), &batch).ok()) {
    most_bytes_ += static_cast<int64_t>(batch.ApproximateSize());
  }
}

Status LevelDbStore::Clear() {
  const MutexLock lock(mutex_);
  std::vector<int64_t> keys;
  std::vector<uint32_t> unused;
  for (int64_t at = 0; at >= 0;) at = keys_.AppendSegment(at, &keys, &unused);
  EraseLocked(keys.data(), static_cast<int64_t>(keys.size()));
  database_->CompactRange(nullptr, nullptr);
  return Status::Ok();
}

Status LevelDbStore::Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                          std::vector<char>* records, int64_t* next) const {
  std::vector<int64_t> walked;
  {
    const SharedLock lock(mutex_);
    std::vector<uint32_t> unused;
    *next = keys_.AppendSegments(cursor, max_rows, &walked, &unused);
  }
  return AppendRecords(walked, keys, records);
}

}  // namespace keras_sparse
