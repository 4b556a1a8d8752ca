// Which rows of a first tier have changed, while rows come and go and move.

#include "ops/core/first_tier/hash_table_tier.h"
#include "tests/ops/core/support/check_tier.h"

namespace keras_sparse::hash_table_tier_changes_test {

// A tier with a limit, and what it ought to say.
class LimitedTier {
 public:
  LimitedTier(int64_t limit_bytes, const std::string& strategy) {
    EXPECT_TRUE(
        IsOk(HashTableTier::Open(RecordLayout(8, {}, false), {limit_bytes, strategy}, &tier_)));
    tier_->TrackChanges();
  }

  void Track() {
    tier_->TrackChanges();
    changed_.clear();
  }

  // Keys may repeat.
  void Update(const std::vector<int64_t>& keys, Executor* executor) {
    const std::set<int64_t> distinct(keys.begin(), keys.end());
    tier_->BeginUpdate();
    FindOrCreateInParts(tier_.get(), {distinct.begin(), distinct.end()}, executor);
    held_.insert(distinct.begin(), distinct.end());
    changed_.insert(distinct.begin(), distinct.end());
  }

  void Erase(int64_t key) {
    ASSERT_EQ(tier_->Erase(key), held_.count(key) > 0);
    held_.erase(key);
    changed_.erase(key);
  }

  // Returns how many rows left. What leaves is called changed as long as it is there.
  int64_t Demote(Executor* executor) {
    int64_t demoted = 0;
    EXPECT_TRUE(IsOk(tier_->DemoteExcess(executor, [&](const auto& keys, const auto& /*records*/) {
      for (const int64_t key : keys) {
        EXPECT_EQ(tier_->IsChanged(key), changed_.count(key) > 0) << "key " << key;
        EXPECT_EQ(held_.erase(key), 1u);
        changed_.erase(key);
        ++demoted;
      }
      return Status::Ok();
    })));
    return demoted;
  }

  void Check() const {
    EXPECT_EQ(tier_->num_rows(), static_cast<int64_t>(held_.size()));
    ExpectChanged(*tier_, {held_.begin(), held_.end()}, changed_);
  }

 private:
  std::unique_ptr<FirstTier> tier_;
  std::set<int64_t> held_;
  std::set<int64_t> changed_;
};

class HashTableTierChanges : public ::testing::TestWithParam<std::string> {};

TEST_P(HashTableTierChanges, FollowRowsThatComeAndGoAndMove) {
  // From a tier that keeps nothing to one of several shards. Some updates are larger than the tier,
  // so that rows beyond the limit move below it.
  for (const int64_t limit_bytes : {1, 20000, 600000}) {
    LimitedTier tier(limit_bytes, GetParam());
    ThreadExecutor executor(3);
    std::mt19937_64 random(5);
    const int64_t size = limit_bytes / 50 + 20;
    int64_t demoted = 0;
    for (int step = 0; step < 40; ++step) {
      const int64_t n = step % 5 == 0 ? size : size / 10;
      const std::vector<int64_t> keys = RandomIds(n, 0, 2 * size, random());
      tier.Update(keys, &executor);
      if (step % 4 == 1) {
        for (int64_t i = 0; i < n; i += 9) tier.Erase(keys[static_cast<size_t>(i)]);
      }
      tier.Check();
      if (step % 6 == 5) {
        // Rows beyond the limit that have not changed take the numbers of some that have.
        tier.Track();
        const std::vector<int64_t> gone = RandomIds(size / 10, 0, 2 * size, random());
        tier.Update(gone, &executor);
        for (const int64_t key : std::set<int64_t>(gone.begin(), gone.end())) tier.Erase(key);
        tier.Check();
      }
      demoted += tier.Demote(&executor);
      tier.Check();
      if (step % 7 == 6) tier.Track();
    }
    EXPECT_GT(demoted, size);
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, HashTableTierChanges, ::testing::Values("LRU", "LFU"),
                         [](const auto& param) { return param.param; });

TEST(HashTableTier, DoesNotTakeARowForTheChangedOneThatHadItsNumber) {
  LimitedTier tier(20000, "LRU");
  InlineExecutor executor;
  tier.Update({1, 2, 3, 4, 5, 6, 7, 8}, &executor);
  tier.Track();
  tier.Update({1, 2}, &executor);
  tier.Check();
  tier.Erase(1);
  tier.Check();
  tier.Update({9}, &executor);
  tier.Track();
  tier.Erase(2);
  tier.Update({1}, &executor);
  tier.Check();
}

TEST(HashTableTier, KeepsWhatHasChangedIfDemotionFails) {
  std::unique_ptr<FirstTier> tier;
  ASSERT_TRUE(IsOk(HashTableTier::Open(RecordLayout(8, {}, false), {20000, "LRU"}, &tier)));
  ThreadExecutor executor(2);
  const std::vector<int64_t> keys = Range(0, 3000);
  tier->TrackChanges();
  tier->BeginUpdate();
  FindOrCreateInParts(tier.get(), keys, &executor);
  const auto fail = [](const auto&, const auto&) { return ResourceExhausted("the disk is full"); };
  EXPECT_FALSE(tier->DemoteExcess(&executor, fail).ok());
  ExpectChanged(*tier, keys, {keys.begin(), keys.end()});
}

}  // namespace keras_sparse::hash_table_tier_changes_test
