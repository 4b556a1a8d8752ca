#include "ops/core/base/arena.h"

#include <mutex>

#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::arena_test {

struct Piece {
  char* data;
  int64_t bytes;
};

void ExpectApart(std::vector<Piece> pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.data < b.data; });
  for (size_t i = 0; i + 1 < pieces.size(); ++i) {
    ASSERT_LE(pieces[i].data + pieces[i].bytes, pieces[i + 1].data);
  }
}

TEST(Arena, GivesZeroedPiecesOnCacheLinesOfTheirOwn) {
  Arena arena;
  std::vector<Piece> pieces;
  for (const int64_t bytes : {1, 64, 65, 100000, 3, 1 << 20, 5 << 20, 7}) {
    char* data = nullptr;
    ASSERT_TRUE(IsOk(arena.Allocate(bytes, &data)));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    EXPECT_TRUE(std::all_of(data, data + bytes, [](char byte) { return byte == 0; }));
    std::fill_n(data, bytes, char{1});
    pieces.push_back({data, bytes});
  }
  ExpectApart(pieces);
}

TEST(Arena, CountsTheBytesItHandedOut) {
  Arena arena;
  EXPECT_EQ(arena.bytes(), 0);
  char* data = nullptr;
  ASSERT_TRUE(IsOk(arena.Allocate(1, &data)));
  ASSERT_TRUE(IsOk(arena.Allocate(65, &data)));
  EXPECT_EQ(arena.bytes(), 64 + 128);
}

TEST(Arena, ServesManyThreadsAtOnce) {
  Arena arena;
  ThreadExecutor executor(4);
  std::mutex mutex;
  std::vector<Piece> pieces;
  executor.ParallelFor(400, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      char* data = nullptr;
      ASSERT_TRUE(IsOk(arena.Allocate(1000 + i, &data)));
      std::fill_n(data, 1000 + i, static_cast<char>(i));
      std::lock_guard<std::mutex> lock(mutex);
      pieces.push_back({data, 1000 + i});
    }
  });
  EXPECT_EQ(pieces.size(), 400u);
  for (const Piece& piece : pieces) {
    const char value = static_cast<char>(piece.bytes - 1000);
    EXPECT_TRUE(std::all_of(piece.data, piece.data + piece.bytes,
                            [value](char byte) { return byte == value; }));
  }
  ExpectApart(pieces);
}

TEST(Arena, PassesOnThatMemoryRanOut) {
  Arena arena;
  char* data = nullptr;
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "must fit the machine",
                        arena.Allocate(int64_t{1} << 60, &data)));
  EXPECT_EQ(arena.bytes(), 0);
  EXPECT_TRUE(IsOk(arena.Allocate(64, &data)));
}

}  // namespace keras_sparse::arena_test
