#include "ops/core/operations/find_rows.h"

#include "tests/ops/core/device/table_on_device.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::find_rows_test {

constexpr int64_t kRows = 40;

TEST(FindRows, NamesTheFirstIdThatItRefuses) {
  const auto table = Open(Options(kRows, 8));
  std::vector<int64_t> ids = RandomIds(1000, 0, kRows - 1, 1);
  for (const size_t place : {900, 333, 334}) ids[place] = -static_cast<int64_t>(place);
  InAnyOrder([&] {
    const auto device = OpenDevice();
    const TableOnDevice on_device(device.get(), *table);
    const BagsOnDevice lists(device.get(), ids, NoBags(ids));
    const RowsOnDevice found(device.get(), on_device.view(), lists.ids(), 1000);
    EXPECT_TRUE(found.any_refused());
    EXPECT_TRUE(on_device.Checks().refuses());
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                          "id must be in [0, 40) for table 'items'; out_of_range=\"zero\" reads "
                          "others as zeros. Received: ids[333] = -333",
                          on_device.Checks().ToStatus("items", OwnedKeys{kRows})));
  });
}

}  // namespace keras_sparse::find_rows_test
