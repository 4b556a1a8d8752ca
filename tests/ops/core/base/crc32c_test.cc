#include "ops/core/base/crc32c.h"

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::crc32c_test {

TEST(Crc32c, IsThatOfTheStandard) {
  // RFC 3720, B.4.
  EXPECT_EQ(Crc32c(std::string(32, '\0').data(), 32), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF').data(), 32), 0x62A8AB43u);
  std::string rising;
  for (char byte = 0; byte < 32; ++byte) rising.push_back(byte);
  EXPECT_EQ(Crc32c(rising.data(), 32), 0x46DD794Eu);
  EXPECT_EQ(Crc32c("123456789", 9), 0xE3069283u);
  EXPECT_EQ(Crc32c(nullptr, 0), 0u);
}

TEST(Crc32c, GoesOnWhereItStopped) {
  const std::string text = "all that lies on disk has a checksum";
  const uint32_t whole = Crc32c(text.data(), text.size());
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(Crc32c(text.data() + cut, text.size() - cut, Crc32c(text.data(), cut)), whole);
  }
}

TEST(Crc32c, SeesEveryFlippedBit) {
  std::string bytes(21, 'x');
  const uint32_t before = Crc32c(bytes.data(), bytes.size());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(Crc32c(bytes.data(), bytes.size()), before) << "bit " << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  }
}

}  // namespace keras_sparse::crc32c_test
