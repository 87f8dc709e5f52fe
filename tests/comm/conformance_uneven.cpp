// SPDX-License-Identifier: Apache-2.0
/// Collectives whose blocks differ in length. Block r has 0 to 6 elements.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "comm/conformance_parts.hpp"
#include "zeroth/comm/uneven.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm::conformance {
namespace {

using Values = std::vector<std::int64_t>;
using Counts = std::vector<std::int64_t>;

Label const label{"test", "uneven"};
constexpr std::int64_t untouched = -7;

Counts counts_of(int world) {
  Counts counts;
  for (int rank = 0; rank < world; ++rank) {
    counts.push_back((3 + 5 * rank) % 7);
  }
  return counts;
}

/// Element `i` of what `rank` has for block `block`.
std::int64_t element(int rank, int block, std::int64_t i) { return 1000 * rank + 100 * block + i; }

/// One rank's elements of each block.
std::vector<Values> blocks_of(int rank, Counts const& counts) {
  std::vector<Values> blocks;
  for (int block = 0; block < static_cast<int>(counts.size()); ++block) {
    auto& values = blocks.emplace_back();
    for (std::int64_t i = 0; i < counts[static_cast<std::size_t>(block)]; ++i) {
      values.push_back(element(rank, block, i));
    }
  }
  return blocks;
}

Values joined(std::vector<Values> const& blocks) {
  Values all;
  for (auto const& block : blocks) {
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

/// One rank in a case: memory for all blocks, with one element before them and one after them that must not change.
class Side {
 public:
  explicit Side(Rank& rank)
      : rank_{rank},
        counts_{counts_of(rank.communicator.world())},
        me_{rank.communicator.rank()},
        stream_{rank.device.make_stream("test", device::Overlap::on)} {}

  [[nodiscard]] Counts const& counts() const noexcept { return counts_; }
  [[nodiscard]] int me() const noexcept { return me_; }
  [[nodiscard]] int world() const noexcept { return static_cast<int>(counts_.size()); }
  [[nodiscard]] Values blank() const { return Values(joined(blocks_of(0, counts_)).size(), untouched); }
  /// The offset of block `block`.
  [[nodiscard]] std::size_t offset(int block) const {
    std::int64_t sum = 0;
    for (int before = 0; before < block; ++before) {
      sum += counts_[static_cast<std::size_t>(before)];
    }
    return static_cast<std::size_t>(sum);
  }
  [[nodiscard]] Buffer<std::int64_t> buffer(Values values) const {
    values.insert(values.begin(), untouched);
    values.push_back(untouched);
    return rank_.buffer(values);
  }
  [[nodiscard]] static std::int64_t* data(Buffer<std::int64_t> const& of) { return of.data() + 1; }
  void run(std::vector<Collective> const& list) const {
    rank_.communicator.submit(*stream_, label, list);
    stream_->synchronize();
  }
  [[nodiscard]] std::string compare(std::string const& what, Buffer<std::int64_t> const& got, Values expected) const {
    expected.insert(expected.begin(), untouched);
    expected.push_back(untouched);
    return got.read() == expected ? "" : fmt::format("{}: elements are wrong", what);
  }

 private:
  Rank& rank_;
  Counts counts_;
  int me_;
  std::unique_ptr<device::Stream> stream_;
};

/// `values` with this rank's block at its offset.
Values with_own_block(Side const& side, Values values) {
  auto const own = blocks_of(side.me(), side.counts())[static_cast<std::size_t>(side.me())];
  std::ranges::copy(own, values.begin() + static_cast<std::ptrdiff_t>(side.offset(side.me())));
  return values;
}

/// Block r of rank r, for each r.
Values of_all_ranks(Side const& side) {
  Values all;
  for (int rank = 0; rank < side.world(); ++rank) {
    auto const own = blocks_of(rank, side.counts())[static_cast<std::size_t>(rank)];
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

std::string check_all_gather(Rank& rank) {
  Side const side{rank};
  auto const own = side.buffer(blocks_of(side.me(), side.counts())[static_cast<std::size_t>(side.me())]);
  auto const apart = side.buffer(side.blank());
  side.run(all_gather_v(rank.communicator, Side::data(own), Side::data(apart), side.counts(), Dtype::int64));
  auto const same = side.buffer(with_own_block(side, side.blank()));
  side.run(all_gather_v(rank.communicator, Side::data(same) + side.offset(side.me()), Side::data(same), side.counts(),
                        Dtype::int64));
  return first_of(side.compare("apart", apart, of_all_ranks(side)), side.compare("in place", same, of_all_ranks(side)));
}

std::string check_gather(Rank& rank) {
  Side const side{rank};
  std::string problem;
  auto const own = side.buffer(blocks_of(side.me(), side.counts())[static_cast<std::size_t>(side.me())]);
  for (int root = 0; root < side.world(); ++root) {
    bool const is_root = root == side.me();
    auto const apart = side.buffer(side.blank());
    side.run(gather_v(rank.communicator, Side::data(own), is_root ? Side::data(apart) : nullptr, side.counts(),
                      Dtype::int64, root));
    auto const same = side.buffer(with_own_block(side, side.blank()));
    side.run(gather_v(rank.communicator, Side::data(same) + side.offset(side.me()),
                      is_root ? Side::data(same) : nullptr, side.counts(), Dtype::int64, root));
    problem = first_of(
        problem, side.compare(fmt::format("apart, root {}", root), apart, is_root ? of_all_ranks(side) : side.blank()));
    problem = first_of(problem, side.compare(fmt::format("in place, root {}", root), same,
                                             is_root ? of_all_ranks(side) : with_own_block(side, side.blank())));
  }
  return problem;
}

std::string check_scatter(Rank& rank) {
  Side const side{rank};
  std::string problem;
  for (int root = 0; root < side.world(); ++root) {
    bool const is_root = root == side.me();
    auto const blocks = blocks_of(root, side.counts());
    auto const own = blocks[static_cast<std::size_t>(side.me())];
    auto const all = side.buffer(joined(blocks));
    auto const apart = side.buffer(Values(own.size(), untouched));
    side.run(scatter_v(rank.communicator, is_root ? Side::data(all) : nullptr, Side::data(apart), side.counts(),
                       Dtype::int64, root));
    problem = first_of(problem, side.compare(fmt::format("apart, root {}", root), apart, own));
    if (is_root) {
      side.run(scatter_v(rank.communicator, Side::data(all), Side::data(all) + side.offset(side.me()), side.counts(),
                         Dtype::int64, root));
    } else {
      side.run(scatter_v(rank.communicator, nullptr, Side::data(apart), side.counts(), Dtype::int64, root));
    }
    problem = first_of(problem, side.compare(fmt::format("input, root {}", root), all, joined(blocks)));
    problem = first_of(problem, side.compare(fmt::format("in place, root {}", root), apart, own));
  }
  return problem;
}

std::string check_reduce_scatter(Rank& rank) {
  Side const side{rank};
  auto const all = side.buffer(joined(blocks_of(side.me(), side.counts())));
  auto const count = side.counts()[static_cast<std::size_t>(side.me())];
  auto const apart = side.buffer(Values(static_cast<std::size_t>(count), untouched));
  side.run(reduce_scatter_v(rank.communicator, Side::data(all), Side::data(apart), side.counts(), Dtype::int64));
  Values expected;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t sum = 0;
    for (int other = 0; other < side.world(); ++other) {
      sum += element(other, side.me(), i);
    }
    expected.push_back(sum);
  }
  side.run(reduce_scatter_v(rank.communicator, Side::data(all), Side::data(all) + side.offset(side.me()), side.counts(),
                            Dtype::int64));
  auto in_place = joined(blocks_of(side.me(), side.counts()));
  std::ranges::copy(expected, in_place.begin() + static_cast<std::ptrdiff_t>(side.offset(side.me())));
  return first_of(side.compare("apart", apart, expected), side.compare("in place", all, in_place));
}

/// The operators of verbs that reduce, by maxima of fp32, which every backend supports.
std::string check_operators(Rank& rank) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), world = communicator.world(), root = world - 1;
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  std::vector<float> hundreds;
  for (int other = 0; other < world; ++other) {
    hundreds.push_back(static_cast<float>(100 * me + other));
  }
  auto const wide = rank.buffer(hundreds);
  auto const one = [&rank](int value) { return rank.buffer(std::vector{static_cast<float>(value)}); };
  auto const largest = one(me), block = one(0), uneven = one(0), here = one(world - me), at_root = one(-1);
  communicator.all_reduce(*stream, label, largest.data(), largest.data(), 1, Dtype::fp32, Reduce::maximum);
  communicator.reduce_scatter(*stream, label, wide.data(), block.data(), 1, Dtype::fp32, Reduce::maximum);
  communicator.reduce(*stream, label, here.data(), at_root.data(), 1, Dtype::fp32, root, Reduce::maximum);
  communicator.submit(*stream, label,
                      reduce_scatter_v(communicator, wide.data(), uneven.data(),
                                       Counts(static_cast<std::size_t>(world), 1), Dtype::fp32, Reduce::maximum));
  stream->synchronize();
  auto const is = [](Buffer<float> const& got, int expected) {
    return got.read() == std::vector{static_cast<float>(expected)};
  };
  bool const good = is(largest, root) && is(block, 100 * root + me) && is(uneven, 100 * root + me) &&
                    is(at_root, me == root ? world : -1);
  return good ? "" : "a maximum is wrong";
}

/// The verbs that other cases reach by submit() alone.
std::string check_verbs(Rank& rank) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), world = communicator.world(), root = world - 1;
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  Values ranks, row, column;
  for (int other = 0; other < world; ++other) {
    ranks.push_back(other);
    row.push_back(100 * me + other);
    column.push_back(100 * other + me);
  }
  auto const wide = rank.buffer(row), across = rank.buffer(Values(static_cast<std::size_t>(world)));
  communicator.all_to_all(*stream, label, wide.data(), across.data(), 1, Dtype::int64);
  auto const given = rank.buffer(ranks), taken = rank.buffer(Values{-1}), passed = rank.buffer(Values{-1});
  communicator.scatter(*stream, label, given.data(), taken.data(), 1, Dtype::int64, root);
  if (me > 0) {  // along a chain, since the verbs of a stream run one after another
    communicator.receive(*stream, label, passed.data(), 1, Dtype::int64, me - 1);
  }
  if (me + 1 < world) {
    communicator.send(*stream, label, taken.data(), 1, Dtype::int64, me + 1);
  }
  stream->synchronize();
  bool const good = across.read() == column && taken.read() == Values{me} && passed.read() == Values{me - 1};
  return good ? "" : "a verb's result is wrong";
}

std::string check_refusals(Rank& rank) {
  auto& communicator = rank.communicator;
  auto const world = static_cast<std::size_t>(communicator.world());
  std::int64_t one = 0;
  auto const refused = [&](auto const& call, std::string const& words) {
    try {
      static_cast<void>(call());
    } catch (ContractError const& error) {
      return std::string{error.what()}.find(words) != std::string::npos ? std::string{} : std::string{error.what()};
    }
    return "not refused: " + words;
  };
  Counts const more(world + 1, 1), good(world, 1);
  Counts below = good, huge = good;
  below[0] = -1;
  huge[0] = std::numeric_limits<std::int64_t>::max();
  return first_of(
      first_of(refused([&] { return all_gather_v(communicator, &one, &one, more, Dtype::int64); },
                       fmt::format("counts has {} numbers; needed are {}, one for each rank", world + 1, world)),
               refused([&] { return gather_v(communicator, &one, &one, below, Dtype::int64, 0); },
                       "counts [0] is -1; allowed are 0 to ")),
      first_of(refused([&] { return reduce_scatter_v(communicator, &one, &one, huge, Dtype::int64); },
                       "counts [0] is 9223372036854775807; allowed are 0 to 1152921504606846975"),
               refused([&] { return scatter_v(communicator, &one, &one, good, Dtype::int64, communicator.world()); },
                       fmt::format("root is {}; allowed are 0 to {}", world, world - 1))));
}

}  // namespace

std::vector<Case> uneven_cases() {
  return {{"all_gather_v gives all blocks to all ranks", check_all_gather},
          {"gather_v gives all blocks to any root", check_gather},
          {"scatter_v gives each rank its block of any root's", check_scatter},
          {"reduce_scatter_v gives each rank its block of the sum", check_reduce_scatter},
          {"verbs that reduce take an operator", check_operators},
          {"verbs submit their operations", check_verbs},
          {"wrong lists of blocks are refused", check_refusals}};
}

}  // namespace zeroth::comm::conformance
