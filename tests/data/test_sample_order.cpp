// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/data/sample_order.hpp"

using namespace zeroth;
using Catch::Contains;
using zeroth::testing::thrown;

namespace {

using Samples = std::vector<std::int64_t>;

Samples samples_of(SampleOrder const& order, std::int64_t first, std::int64_t count) {
  Samples samples;
  for (auto i = first; i < first + count; ++i) {
    samples.push_back(order[i]);
  }
  return samples;
}

/// 0 to count - 1.
Samples counted_up(std::int64_t count) {
  Samples samples(static_cast<std::size_t>(count));
  std::iota(samples.begin(), samples.end(), std::int64_t{0});
  return samples;
}

Samples sorted(Samples samples) {
  std::ranges::sort(samples);
  return samples;
}

}  // namespace

TEST_CASE("the order of a seed never changes, because saved runs depend on it") {
  CHECK(samples_of(SampleOrder{10, {.seed = 7}}, 0, 20) ==
        Samples{1, 6, 5, 4, 8, 7, 0, 2, 3, 9, 3, 4, 0, 2, 6, 9, 8, 5, 7, 1});
  CHECK(samples_of(SampleOrder{1000, {.seed = 1}}, 0, 10) == Samples{479, 689, 556, 138, 543, 916, 856, 285, 629, 307});
  auto const size = std::int64_t{1} << 40;
  SampleOrder const large{size, {.seed = 42}};
  CHECK(large[0] == 507295458828);
  CHECK(large[size - 1] == 588078498153);
  CHECK(large[size] == 1078535613844);
  CHECK(large[5 * size + 123456789] == 588798357578);
}

TEST_CASE("every epoch has every sample once, at small sizes and near powers of four") {
  auto const size = GENERATE(range<std::int64_t>(1, 70), values<std::int64_t>({255, 256, 257, 1023, 1024, 1025, 4097}));
  auto const seed = GENERATE(values<std::uint64_t>({0, 1, 0xffffffffffffffff}));
  SampleOrder const order{size, {.seed = seed}};
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    CHECK(sorted(samples_of(order, epoch * size, size)) == counted_up(size));
    CHECK(order.epoch(epoch * size) == epoch);
    CHECK(order.epoch(epoch * size + size - 1) == epoch);
  }
}

TEST_CASE("every epoch has every sample once, however ranks and batches divide the positions") {
  auto const random_seed = std::random_device{}();
  INFO("std::mt19937_64 random{" << random_seed << "}");
  std::mt19937_64 random{random_seed};
  auto const number = [&random](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
  };
  for (int trial = 0; trial < 50; ++trial) {
    auto const size = number(1, 3000), world = number(1, 9), batch = number(1, 40);
    SampleOrder const order{size, {.seed = random(), .shuffled = number(0, 3) > 0}};
    INFO(size << " samples, " << world << " ranks, batches of " << batch << ", seed " << order.seed() << ", shuffled "
              << order.shuffled());
    std::vector<std::int64_t> times(static_cast<std::size_t>(3 * size));  // occurrences of each sample in each epoch
    bool inside = true;
    for (std::int64_t rank = 0; rank < world; ++rank) {
      for (auto first = rank * batch; first < 3 * size; first += world * batch) {
        for (auto i = first; i < std::min(first + batch, 3 * size); ++i) {
          auto const sample = order[i];
          inside = inside && sample >= 0 && sample < size;
          ++times[static_cast<std::size_t>(order.epoch(i) * size + (inside ? sample : 0))];
        }
      }
    }
    REQUIRE(inside);
    REQUIRE(std::ranges::all_of(times, [](std::int64_t count) { return count == 1; }));
  }
}

TEST_CASE("a data set of any size needs no memory, and far positions have their sample") {
  auto const size = GENERATE((std::int64_t{1} << 40) - 1, std::int64_t{1} << 40, (std::int64_t{1} << 40) + 1,
                             std::numeric_limits<std::int64_t>::max());
  SampleOrder const order{size, {.seed = 3}};
  auto const first = size - 5000;
  auto const samples = samples_of(order, first, 5000);
  std::set<std::int64_t> const seen{samples.begin(), samples.end()};
  CHECK(std::ssize(seen) == 5000);
  CHECK(*seen.begin() >= 0);
  CHECK(*seen.rbegin() < size);
  CHECK(order.epoch(std::numeric_limits<std::int64_t>::max()) == std::numeric_limits<std::int64_t>::max() / size);
}

TEST_CASE("without shuffling every epoch has the order of the data set") {
  SampleOrder const order{5, {.seed = 7, .shuffled = false}};
  CHECK(samples_of(order, 0, 12) == Samples{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1});
}

TEST_CASE("a shuffled order depends on epoch and seed, and is well mixed") {
  constexpr std::int64_t size = 1000;
  auto const epoch = [](std::int64_t number, std::uint64_t seed) {
    return samples_of(SampleOrder{size, {.seed = seed}}, number * size, size);
  };
  auto const first = epoch(0, 1);
  CHECK(first == epoch(0, 1));

  // Two random orders of a thousand samples are expected to agree at one position, and practically never at more than
  // ten.
  auto const agreements = [](Samples const& a, Samples const& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0, std::plus{}, std::equal_to{});
  };
  CHECK(agreements(first, counted_up(size)) < 10);
  CHECK(agreements(first, epoch(1, 1)) < 10);
  CHECK(agreements(first, epoch(0, 2)) < 10);
  CHECK(agreements(epoch(1, 1), epoch(0, 2)) < 10);

  // Correlation of position and sample: for a random order of standard deviation 1 / sqrt(999).
  double sum = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    sum += (static_cast<double>(i) - 499.5) * (static_cast<double>(first[i]) - 499.5);
  }
  CHECK(std::abs(sum / (1000 * (1000.0 * 1000 - 1) / 12)) < 5 / std::sqrt(999.0));
}

TEST_CASE("two orders are equal if they give the same samples") {
  SampleOrder const order{10, {.seed = 7}};
  CHECK(order.size() == 10);
  CHECK(order.seed() == 7);
  CHECK(order.shuffled());
  CHECK(order == SampleOrder{10, {.seed = 7, .shuffled = true}});
  CHECK_FALSE(order == SampleOrder{11, {.seed = 7}});
  CHECK_FALSE(order == SampleOrder{10, {.seed = 8}});
  CHECK_FALSE(order == SampleOrder{10, {.seed = 7, .shuffled = false}});
  CHECK(SampleOrder{10, {.seed = 7, .shuffled = false}} == SampleOrder{10, {.seed = 8, .shuffled = false}});
}

TEST_CASE("empty data sets and negative positions are rejected") {
  for (std::int64_t const size : {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
    CHECK_THAT(thrown<ContractError>([size] { return SampleOrder{size}; }),
               Contains("SampleOrder: the data set has " + std::to_string(size) + " samples; allowed: 1 or more"));
  }
  for (bool const shuffled : {false, true}) {
    SampleOrder const order{10, {.seed = 0, .shuffled = shuffled}};
    auto const refused = Contains("SampleOrder: the position is -1; allowed: 0 or more");
    CHECK_THAT(thrown<ContractError>([&] { return order[-1]; }), refused);
    CHECK_THAT(thrown<ContractError>([&] { return order.epoch(-1); }), refused);
  }
}
