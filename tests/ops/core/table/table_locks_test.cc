#include "ops/core/table/table_locks.h"

#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::table_locks_test {

TEST(TableLocks, GiveTheStateOfTheTableInEachPlace) {
  std::vector<std::unique_ptr<EmbeddingTable>> tables;
  for (const char* name : {"a", "b", "c"}) {
    TableOptions options = Dynamic(1);
    options.name = name;
    tables.push_back(Open(options));
  }
  const std::vector<size_t> places = {2, 0, 1, 0};
  std::vector<const EmbeddingTable*> read;
  std::vector<EmbeddingTable*> written;
  for (const size_t place : places) {
    read.push_back(tables[place].get());
    written.push_back(tables[place].get());
  }
  const auto names = [&places](const auto& locks) {
    std::string all;
    for (size_t i = 0; i < places.size(); ++i) all += locks[i].options.name;
    return all;
  };
  EXPECT_EQ(names(ReadLocks(read)), "caba");
  EXPECT_EQ(names(WriteLocks(written)), "caba");
}

TEST(TableLocks, SayWhetherATableWasNamedTwice) {
  const auto first = Open(Dynamic(1));
  const auto second = Open(Dynamic(1));
  EXPECT_FALSE(WriteLocks({first.get(), second.get()}).has_repeats());
  EXPECT_TRUE(WriteLocks({first.get(), second.get(), first.get()}).has_repeats());
}

}  // namespace keras_sparse::table_locks_test
