#include "ops/core/index/vocabulary.h"

#include <map>
#include <utility>

#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::vocabulary_test {

using Tokens = std::vector<int64_t>;

Tokens Add(Vocabulary* vocabulary, const std::vector<int64_t>& keys) {
  Tokens tokens(keys.size());
  vocabulary->Add(keys.data(), static_cast<int64_t>(keys.size()), true, tokens.data());
  return tokens;
}

Tokens Find(const Vocabulary& vocabulary, const std::vector<int64_t>& keys) {
  Tokens tokens(keys.size());
  vocabulary.Find(keys.data(), static_cast<int64_t>(keys.size()), tokens.data());
  return tokens;
}

TEST(Vocabulary, FindingAddsNothing) {
  Vocabulary vocabulary(10);
  EXPECT_EQ(Find(vocabulary, {5, 6}), (Tokens{0, 0}));
  Add(&vocabulary, {6});
  EXPECT_EQ(Find(vocabulary, {5, 6}), (Tokens{0, 1}));
  EXPECT_EQ(vocabulary.size(), 1);
}

TEST(Vocabulary, TakesAnyKey) {
  const std::vector<int64_t> keys{std::numeric_limits<int64_t>::min(), -3, -2, -1, 0,
                                  std::numeric_limits<int64_t>::max()};
  Vocabulary vocabulary(10);
  EXPECT_EQ(Add(&vocabulary, keys), (Tokens{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Find(vocabulary, keys), (Tokens{1, 2, 3, 4, 5, 6}));
}

TEST(Vocabulary, CountsEachTokenAndTheKeysThatHaveNone) {
  Vocabulary vocabulary(2);
  Add(&vocabulary, {8, 9, 8, 10, 11, 8});
  std::vector<int64_t> keys;
  std::vector<int64_t> counts;
  vocabulary.Export(&keys, &counts);
  EXPECT_EQ(keys, (std::vector<int64_t>{8, 9}));
  EXPECT_EQ(counts, (std::vector<int64_t>{2, 3, 1}));
}

TEST(Vocabulary, AddsWithoutCounting) {
  Vocabulary vocabulary(2);
  const std::vector<int64_t> added{8, 9};
  Tokens tokens(2);
  vocabulary.Add(added.data(), 2, /*counts=*/false, tokens.data());
  EXPECT_EQ(tokens, (Tokens{1, 2}));
  std::vector<int64_t> keys;
  std::vector<int64_t> counts;
  vocabulary.Export(&keys, &counts);
  EXPECT_EQ(keys, added);
  EXPECT_EQ(counts, (std::vector<int64_t>{0, 0, 0}));
}

TEST(Vocabulary, ImportReplacesEverything) {
  Vocabulary vocabulary(3);
  Add(&vocabulary, {1, 2});
  const std::vector<int64_t> keys{5, 1};
  const std::vector<int64_t> counts{0, 4, 2};
  ASSERT_TRUE(IsOk(vocabulary.Import(keys.data(), 2, counts.data())));
  EXPECT_EQ(Add(&vocabulary, {1, 2, 5, 6}), (Tokens{2, 3, 1, 0}));
}

TEST(Vocabulary, ImportRefusesWhatIsNoVocabularyAndChangesNothing) {
  Vocabulary vocabulary(2);
  Add(&vocabulary, {1});
  const std::vector<int64_t> keys{5, 6, 5};
  const std::vector<int64_t> counts{0, 1, 1, 1};
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "3 keys for max_tokens=2",
                        vocabulary.Import(keys.data(), 3, counts.data())));
  const std::vector<int64_t> repeated{5, 5};
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "key 5 again at 1",
                        vocabulary.Import(repeated.data(), 2, counts.data())));
  const std::vector<int64_t> negative{0, -1};
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "-1 at 1",
                        vocabulary.Import(keys.data(), 1, negative.data())));
  EXPECT_EQ(Find(vocabulary, {1, 5}), (Tokens{1, 0}));
}

// Tokens in the order in which keys first appear; 0 for those beyond the most.
TEST(Vocabulary, AgreesWithAMapOverManyRandomKeys) {
  std::mt19937_64 random(1);
  std::geometric_distribution<int64_t> distribution(0.001);
  Vocabulary vocabulary(3000);
  std::map<int64_t, int64_t> expected;
  for (int batch = 0; batch < 50; ++batch) {
    std::vector<int64_t> keys(997);
    for (int64_t& key : keys) key = distribution(random) * 0x9E3779B97F4A7C15;
    Tokens tokens(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (expected.size() < 3000) expected.emplace(keys[i], expected.size() + 1);
      const auto found = expected.find(keys[i]);
      tokens[i] = found == expected.end() ? 0 : found->second;
    }
    ASSERT_EQ(Add(&vocabulary, keys), tokens);
    ASSERT_EQ(vocabulary.size(), static_cast<int64_t>(expected.size()));
  }
  EXPECT_EQ(vocabulary.size(), 3000);
}

TEST(VocabularyConcurrency, ThreadsNeverGiveAKeyTwoTokens) {
  constexpr int64_t kKeys = 4000;
  Vocabulary vocabulary(kKeys);
  std::vector<std::vector<std::pair<int64_t, int64_t>>> seen(4);
  InThreads(seen.size(), [&](size_t t) {
    std::mt19937_64 random(t);
    for (int batch = 0; batch < 100; ++batch) {
      std::vector<int64_t> keys(200);
      for (int64_t& key : keys) key = static_cast<int64_t>(random() % kKeys);
      const Tokens tokens = t % 2 == 0 ? Add(&vocabulary, keys) : Find(vocabulary, keys);
      for (size_t i = 0; i < keys.size(); ++i) {
        if (tokens[i] != 0) seen[t].emplace_back(keys[i], tokens[i]);
      }
    }
  });
  std::vector<int64_t> keys;
  std::vector<int64_t> counts;
  vocabulary.Export(&keys, &counts);
  EXPECT_EQ(vocabulary.size(), static_cast<int64_t>(keys.size()));
  for (const auto& of_thread : seen) {
    for (const auto& [key, token] : of_thread) ASSERT_EQ(keys[static_cast<size_t>(token) - 1], key);
  }
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  EXPECT_EQ(total, 2 * 100 * 200);
}

}  // namespace keras_sparse::vocabulary_test
