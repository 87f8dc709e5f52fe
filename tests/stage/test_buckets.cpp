// SPDX-License-Identifier: Apache-2.0
/// Buckets come in declared order and within their limits, in whatever order units complete.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "shard/random_model.hpp"
#include "stage/buckets.hpp"
#include "support/catch.hpp"
#include "support/ids.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::testing {
namespace {

using shard::Layout;
using stage::Buckets;
using Bucket = std::vector<std::uint32_t>;

constexpr int no_limit = std::numeric_limits<int>::max();
constexpr std::int64_t unlimited = std::int64_t{1} << 40U;

/// A layout with one unit for each of `counts` trainable elements; they complete from the last to the first.
Layout layout_of(std::vector<std::int64_t> const& counts) {
  Model model;
  for (std::size_t u = 0; u < counts.size(); ++u) {
    auto const unit = model.unit("u" + std::to_string(u));
    static_cast<void>(model.param(unit, "w" + std::to_string(u), {counts[u]}, Constant{0}));
  }
  return Layout{model.description(), 1};
}

/// Buckets, and a list of those that they returned.
struct Sender {
  Buckets buckets;
  std::vector<Bucket> sent{};

  void complete(std::uint32_t flat) {
    buckets.complete(id_at<shard::FlatId>(flat));
    for (auto bucket = buckets.next_full(); !bucket.empty(); bucket = buckets.next_full()) {
      keep(bucket);
    }
  }
  void flush() { keep(buckets.flush()); }
  void finish() { keep(buckets.finish()); }

 private:
  void keep(Buckets::Bucket bucket) {
    if (!bucket.empty()) {
      std::ranges::transform(bucket, std::back_inserter(sent.emplace_back()), index_of<shard::FlatId>);
    }
  }
};

std::int64_t count_of(Layout const& layout, Bucket const& bucket) {
  return std::accumulate(bucket.begin(), bucket.end(), std::int64_t{0}, [&](std::int64_t sum, std::uint32_t flat) {
    return sum + layout.flats()[id_at<shard::FlatId>(flat)].trainable.padded_count;
  });
}

}  // namespace

TEST_CASE("a bucket is sent once the next unit would overflow it, and when it is full") {
  auto const layout = layout_of({128, 256, 384, 512});
  Sender sender{Buckets{layout, 640, no_limit}};
  sender.complete(3);  // 512 + 384 > 640
  CHECK(sender.sent == std::vector<Bucket>{{3}});
  sender.complete(2);  // 384 + 256 = 640: room for one more
  CHECK(sender.sent == std::vector<Bucket>{{3}});
  sender.complete(1);  // 384 + 256 = 640: full
  CHECK(sender.sent == std::vector<Bucket>{{3}, {2, 1}});
  sender.complete(0);
  CHECK(sender.buckets.all_complete());
  CHECK(sender.sent.size() == 2);
  sender.finish();
  CHECK(sender.sent == std::vector<Bucket>{{3}, {2, 1}, {0}});
}

TEST_CASE("a unit larger than the limit is sent alone") {
  auto const layout = layout_of({128, 1280, 128});
  Sender sender{Buckets{layout, 256, no_limit}};
  sender.complete(2);
  sender.complete(1);
  CHECK(sender.sent == std::vector<Bucket>{{2}, {1}});
  sender.complete(0);
  sender.finish();
  CHECK(sender.sent == std::vector<Bucket>{{2}, {1}, {0}});
}

TEST_CASE("a bucket holds at most the given number of units") {
  auto const layout = layout_of({128, 128, 128, 128, 128});
  Sender sender{Buckets{layout, unlimited, 2}};
  for (std::uint32_t flat = 5; flat-- > 0;) {
    sender.complete(flat);
  }
  CHECK(sender.sent == std::vector<Bucket>{{4, 3}, {2, 1}});
  sender.finish();
  CHECK(sender.sent == std::vector<Bucket>{{4, 3}, {2, 1}, {0}});
}

TEST_CASE("a unit that completes early waits for those before it") {
  auto const layout = layout_of({128, 128, 128});
  Sender sender{Buckets{layout, 1, no_limit}};
  CHECK(sender.buckets.waits_for() == 2_flat);
  sender.complete(0);
  sender.complete(1);
  CHECK(sender.sent.empty());
  CHECK(sender.buckets.waits_for() == 2_flat);
  sender.flush();  // nothing is collected yet
  CHECK(sender.sent.empty());
  sender.complete(2);
  CHECK(sender.sent == std::vector<Bucket>{{2}, {1}, {0}});
}

TEST_CASE("flush sends the collected units once") {
  auto const layout = layout_of({128, 128, 128});
  Sender sender{Buckets{layout, unlimited, no_limit}};
  sender.complete(2);
  sender.flush();
  sender.flush();
  CHECK(sender.sent == std::vector<Bucket>{{2}});
  CHECK(sender.buckets.waits_for() == 1_flat);
  sender.complete(1);
  sender.complete(0);
  sender.finish();
  CHECK(sender.sent == std::vector<Bucket>{{2}, {1, 0}});
}

TEST_CASE("finish requires all units, and starts again") {
  auto const layout = layout_of({128, 128});
  Sender sender{Buckets{layout, unlimited, no_limit}};
  sender.complete(1);
  CHECK_THAT(thrown<ContractError>([&] { sender.finish(); }),
             Catch::Contains("buckets are finished before all gradients are complete"));
  sender.complete(0);
  sender.finish();
  CHECK_FALSE(sender.buckets.all_complete());
  sender.complete(1);
  sender.complete(0);
  sender.finish();
  CHECK(sender.sent == std::vector<Bucket>{{1, 0}, {1, 0}});
}

TEST_CASE("reset discards units that were not sent") {
  auto const layout = layout_of({128, 128});
  Sender sender{Buckets{layout, unlimited, no_limit}};
  sender.complete(1);
  sender.buckets.reset();
  CHECK(sender.buckets.waits_for() == 1_flat);
  sender.flush();
  CHECK(sender.sent.empty());
}

TEST_CASE("after a reset, a flush or the end a bucket has room for all that its limit allows") {
  auto const layout = layout_of({128, 128});
  auto const begin_again = GENERATE(0, 1, 2);
  Sender sender{Buckets{layout, 256, no_limit}};
  if (begin_again == 0) {
    sender.complete(1);
    sender.buckets.reset();
  } else if (begin_again == 1) {
    sender.flush();
  } else {
    sender.complete(1);
    sender.flush();
    sender.complete(0);
    sender.finish();
  }
  sender.sent.clear();
  sender.complete(1);
  CHECK(sender.sent.empty());
  sender.complete(0);
  CHECK(sender.sent == std::vector<Bucket>{{1, 0}});  // exactly full
}

TEST_CASE("a model without trainable parameters sends nothing") {
  Model model;
  auto const unit = model.unit("u");
  static_cast<void>(model.param(unit, "w", {10}, Constant{0}, {.trainable = false}));
  Layout const layout{model.description(), 2};
  Sender sender{Buckets{layout, 1, 1}};
  CHECK(sender.buckets.all_complete());
  sender.finish();
  CHECK(sender.sent.empty());
  CHECK(Buckets::largest_count(layout, 100) == 0);
}

TEST_CASE("buckets are the same for any order of completion: in declared order, greedy and within limits") {
  std::mt19937 random{11};
  for (unsigned seed = 0; seed < 60; ++seed) {
    auto const model = random_model(seed);
    Layout const layout{model.description(), 3};
    std::int64_t const limit_count = std::array<std::int64_t, 4>{1, 1500, 8000, unlimited}[random() % 4];
    int const limit_units = std::array{1, 2, 3, no_limit}[random() % 4];
    std::vector<Bucket> first;
    for (int trial = 0; trial < 5; ++trial) {
      Bucket order;
      std::ranges::transform(layout.completion_order(), std::back_inserter(order), index_of<shard::FlatId>);
      if (trial > 0) {
        std::ranges::shuffle(order, random);
      }
      Sender sender{Buckets{layout, limit_count, limit_units}};
      for (auto const flat : order) {
        sender.complete(flat);
      }
      sender.finish();
      if (trial == 0) {
        first = sender.sent;
      }
      CHECK(sender.sent == first);
    }
    Bucket all;
    for (std::size_t b = 0; b < first.size(); ++b) {
      auto const& bucket = first[b];
      REQUIRE_FALSE(bucket.empty());
      CHECK((bucket.size() == 1 || count_of(layout, bucket) <= limit_count));
      CHECK(bucket.size() <= static_cast<std::size_t>(limit_units));
      CHECK(count_of(layout, bucket) <= Buckets::largest_count(layout, limit_count));
      if (b + 1 < first.size()) {  // the next unit would not have fit
        auto const next = layout.flats()[id_at<shard::FlatId>(first[b + 1].front())].trainable.padded_count;
        CHECK(
            (count_of(layout, bucket) + next > limit_count || bucket.size() == static_cast<std::size_t>(limit_units)));
      }
      all.insert(all.end(), bucket.begin(), bucket.end());
    }
    CHECK(std::ranges::equal(all, layout.completion_order(), {}, {}, index_of<shard::FlatId>));
  }
}

}  // namespace zeroth::testing
