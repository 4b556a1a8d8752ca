#include "ops/core/math/philox.h"

#include <array>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::philox_test {

using Words = std::array<uint32_t, 4>;

Words Random(PhiloxWords counter, PhiloxKey key) {
  const auto [words] = Philox(counter, key);
  return {words[0], words[1], words[2], words[3]};
}

// The known answers of Random123's kat_vectors for philox4x32-10.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(Random({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Random({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Random({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

}  // namespace keras_sparse::philox_test
