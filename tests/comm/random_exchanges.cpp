// SPDX-License-Identifier: Apache-2.0
#include "comm/random_exchanges.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "comm/plain_fold.hpp"
#include "device/fold_arithmetic.hpp"
#include "zeroth/comm/collectives.hpp"
#include "zeroth/comm/uneven.hpp"

namespace zeroth::comm::conformance {
namespace {

using Counts = std::vector<std::int64_t>;

enum class Verb : std::uint8_t {
  all_reduce,
  reduce,
  reduce_scatter,
  reduce_scatter_v,
  all_gather_v,
  gather_v,
  scatter_v,
  all_to_all_v
};
constexpr int verb_count = 8;
constexpr char const* verb_names[verb_count] = {"all_reduce",   "reduce",   "reduce_scatter", "reduce_scatter_v",
                                                "all_gather_v", "gather_v", "scatter_v",      "all_to_all_v"};

/// One collective, the same on all ranks.
struct Drawn {
  Verb verb = Verb::all_reduce;
  Dtype dtype = Dtype::fp32;
  Reduce reduce = Reduce::sum;
  std::vector<Counts> counts;  // one list, or for all_to_all_v one for each sender
  int root = 0;
  bool in_place = false;  // all_reduce and all_gather_v
  std::int64_t base = 0;  // first index of its elements

  [[nodiscard]] std::string describe() const {
    return fmt::format("{} of {} by {}, counts {}, root {}{}", verb_names[static_cast<int>(verb)], name_of(dtype),
                       name_of(reduce), counts, root, in_place ? ", in place" : "");
  }
};

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_{seed} {}
  [[nodiscard]] std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(end));
  }
  [[nodiscard]] bool one_in(int n) { return below(n) == 0; }

 private:
  std::mt19937_64 random_;  // the standard defines its numbers
};

Counts draw_counts(Dice& dice, int world) {
  std::int64_t const most = dice.one_in(8) ? 20'000 : dice.one_in(2) ? 700 : 9;
  Counts counts;
  for (int rank = 0; rank < world; ++rank) {
    counts.push_back(dice.one_in(5) ? 0 : dice.below(most));
  }
  return counts;
}

bool reduces(Verb verb) { return verb <= Verb::reduce_scatter_v; }

Drawn draw(Dice& dice, int world) {
  Drawn drawn;
  drawn.verb = static_cast<Verb>(dice.below(verb_count));
  drawn.dtype = static_cast<Dtype>(dice.below(static_cast<int>(Dtype::int8) + 1));
  if (reduces(drawn.verb)) {
    do {
      drawn.reduce = static_cast<Reduce>(dice.below(static_cast<int>(Reduce::min_location) + 1));
    } while (!is_defined(drawn.reduce, drawn.dtype));
  }
  int const lists = drawn.verb == Verb::all_to_all_v ? world : 1;
  for (int list = 0; list < lists; ++list) {
    drawn.counts.push_back(draw_counts(dice, world));
  }
  drawn.root = static_cast<int>(dice.below(world));
  drawn.in_place = dice.one_in(2);
  drawn.base = dice.below(1 << 30);
  return drawn;
}

std::int64_t sum(std::span<std::int64_t const> counts) { return std::reduce(counts.begin(), counts.end()); }
std::int64_t offset(Counts const& counts, int block) {
  return sum(std::span{counts}.first(static_cast<std::size_t>(block)));
}
std::int64_t at(Counts const& counts, int rank) { return counts[static_cast<std::size_t>(rank)]; }

/// One rank's side of a collective.
class Side {
 public:
  virtual ~Side() = default;
  /// The collectives to start, in this object's memory.
  [[nodiscard]] virtual std::vector<Collective> list(Communicator const& of) = 0;
  /// Call after the wait.
  [[nodiscard]] virtual std::string problem() const = 0;
};

template <class T>
class SideOf final : public Side {
 public:
  SideOf(Drawn const& drawn, int me, int world) : drawn_{drawn}, me_{me}, world_{world} {
    auto const& counts = drawn.counts[0];
    std::int64_t const mine = at(counts, me), all = sum(counts), first = counts[0];
    bool const is_root = me == drawn.root;
    switch (drawn.verb) {
      case Verb::all_reduce: fill(own(0, first)), expect(folded(0, first)); break;
      case Verb::reduce: fill(own(0, first)), expect(is_root ? folded(0, first) : Values{}); break;
      case Verb::reduce_scatter: fill(own(0, world * first)), expect(folded(me * first, first)); break;
      case Verb::reduce_scatter_v: fill(own(0, all)), expect(folded(offset(counts, me), mine)); break;
      case Verb::all_gather_v: fill(own(offset(counts, me), mine)), expect(of_all_ranks()); break;
      case Verb::gather_v: fill(own(offset(counts, me), mine)), expect(is_root ? of_all_ranks() : Values{}); break;
      case Verb::scatter_v:
        fill(is_root ? own(0, all) : Values{}), expect(of(drawn.root, offset(counts, me), mine));
        break;
      case Verb::all_to_all_v:
        fill(own(0, sum(drawn.counts[static_cast<std::size_t>(me)]))), expect(sent_here());
        break;
    }
  }

  [[nodiscard]] std::vector<Collective> list(Communicator const& communicator) override {
    auto const& counts = drawn_.counts[0];
    auto const dtype = drawn_.dtype;
    auto* const output = output_.data() + 1;
    switch (drawn_.verb) {
      case Verb::all_gather_v:
        if (drawn_.in_place) {
          std::ranges::copy(input_, output + offset(counts, me_));
          return all_gather_v(communicator, output + offset(counts, me_), output, counts, dtype);
        }
        return all_gather_v(communicator, input_.data(), output, counts, dtype);
      case Verb::gather_v: return gather_v(communicator, input_.data(), output, counts, dtype, drawn_.root);
      case Verb::scatter_v: return scatter_v(communicator, input_.data(), output, counts, dtype, drawn_.root);
      case Verb::all_to_all_v:
        return all_to_all_v(communicator, input_.data(), drawn_.counts[static_cast<std::size_t>(me_)], output,
                            received(), dtype);
      case Verb::reduce_scatter_v:
        return reduce_scatter_v(communicator, input_.data(), output, counts, dtype, drawn_.reduce,
                                factor_of(drawn_.reduce));
      default: break;
    }
    bool const in_place = drawn_.in_place && drawn_.verb == Verb::all_reduce;
    if (in_place) {
      std::ranges::copy(input_, output);
    }
    return {{.operation = drawn_.verb == Verb::all_reduce ? Operation::all_reduce
                          : drawn_.verb == Verb::reduce   ? Operation::reduce
                                                          : Operation::reduce_scatter,
             .input = in_place ? output : input_.data(),
             .output = output,
             .count = counts[0],
             .dtype = dtype,
             .peer = drawn_.verb == Verb::reduce ? drawn_.root : 0,
             .reduce = drawn_.reduce,
             .factor = factor_of(drawn_.reduce)}};
  }

  [[nodiscard]] std::string problem() const override {
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      if (!same(output_[i], expected_[i])) {
        return fmt::format("rank {} of {}: {}: element {} of {} is wrong", me_, world_, drawn_.describe(),
                           static_cast<std::int64_t>(i) - 1, expected_.size() - 2);
      }
    }
    return {};
  }

 private:
  using Values = std::vector<T>;

  [[nodiscard]] Values of(int rank, std::int64_t first, std::int64_t count) const {
    Values values;
    for (std::int64_t i = first; i < first + count; ++i) {
      values.push_back(element<T>(rank, drawn_.base + i));
    }
    return values;
  }
  [[nodiscard]] Values own(std::int64_t first, std::int64_t count) const { return of(me_, first, count); }
  [[nodiscard]] Values folded(std::int64_t first, std::int64_t count) const {
    Values values;
    for (std::int64_t i = first; i < first + count; ++i) {
      values.push_back(expected<T>(drawn_.reduce, world_, drawn_.base + i));
    }
    return values;
  }
  [[nodiscard]] Values of_all_ranks() const {
    Values all;
    for (int rank = 0; rank < world_; ++rank) {
      auto const block = of(rank, offset(drawn_.counts[0], rank), at(drawn_.counts[0], rank));
      all.insert(all.end(), block.begin(), block.end());
    }
    return all;
  }
  [[nodiscard]] Counts received() const {
    Counts counts;
    for (auto const& sent : drawn_.counts) {
      counts.push_back(at(sent, me_));
    }
    return counts;
  }
  [[nodiscard]] Values sent_here() const {
    Values all;
    for (int rank = 0; rank < world_; ++rank) {
      auto const& sent = drawn_.counts[static_cast<std::size_t>(rank)];
      auto const block = of(rank, offset(sent, me_), at(sent, me_));
      all.insert(all.end(), block.begin(), block.end());
    }
    return all;
  }
  void fill(Values values) { input_ = std::move(values); }
  /// One element before and one after it must not change.
  void expect(Values values) {
    auto const guard = element<T>(99, 7);
    expected_ = std::move(values);
    output_.assign(expected_.size() + 2, guard);
    expected_.insert(expected_.begin(), guard);
    expected_.push_back(guard);
  }

  Drawn drawn_;
  int me_, world_;
  Values input_, output_, expected_;
};

std::unique_ptr<Side> side_of(Drawn const& drawn, int me, int world) {
  std::unique_ptr<Side> side;
  device::with_dtype(drawn.dtype, [&]<Dtype which, class T>(device::Constant<which>, std::type_identity<T>) {
    side = std::make_unique<SideOf<T>>(drawn, me, world);
  });
  return side;
}

/// Waits in one of the ways that a program has. Ranks may choose differently.
void wait_for(Collectives::Work& work, std::uint64_t way) {
  switch (way % 3) {
    case 0: return work.wait();
    case 1:
      while (!work.wait_for(std::chrono::milliseconds{1})) {
      }
      return;
    default: static_cast<void>(work.wait_for(std::chrono::milliseconds{0})); return work.wait();
  }
}

}  // namespace

std::string random_exchanges(Job& job, std::uint64_t seed, int rounds) {
  Collectives beside{job, "random"};
  Dice dice{seed};
  std::string problem;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::unique_ptr<Side>> sides;
    std::vector<Collectives::Work> works;
    for (auto left = 1 + dice.below(3); left > 0; --left) {
      sides.push_back(side_of(draw(dice, job.world()), job.rank(), job.world()));
      works.push_back(beside.start(sides.back()->list(beside.communicator()), "random"));
    }
    for (std::size_t i = 0; i < works.size(); ++i) {
      wait_for(works[i], scramble(seed + static_cast<std::uint64_t>(round * job.world() + job.rank()) + i));
      auto const found = sides[i]->problem();
      problem = problem.empty() && !found.empty() ? fmt::format("round {}: {}", round, found) : problem;
    }
  }
  return problem;
}

}  // namespace zeroth::comm::conformance
