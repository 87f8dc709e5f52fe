// SPDX-License-Identifier: Apache-2.0
/// Splits of communicators.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/conformance_parts.hpp"

namespace zeroth::comm::conformance {
namespace {

Label const label{"test", "splits"};

/// The ranks of its members in the first communicator, in order.
std::vector<std::int64_t> members_of(Rank& rank, Communicator& communicator, device::Stream& stream) {
  auto const mine = rank.buffer<std::int64_t>({rank.communicator.rank()});
  auto const all = rank.buffer(std::vector<std::int64_t>(static_cast<std::size_t>(communicator.world())));
  communicator.all_gather(stream, label, mine.data(), all.data(), 1, Dtype::int64);
  stream.synchronize();
  return all.read();
}

std::string compare(char const* what, std::vector<std::int64_t> const& got, std::vector<std::int64_t> const& expected) {
  return got == expected
             ? ""
             : fmt::format("{}: members {} instead of {}", what, fmt::join(got, " "), fmt::join(expected, " "));
}

/// Even ranks apart from odd ones, in reverse order.
std::string check_colors_and_keys(Rank& rank) {
  int const me = rank.communicator.rank(), world = rank.communicator.world();
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  Part part{rank.communicator, me % 2, -me, me % 2 == 0 ? "even" : "odd"};
  std::vector<std::int64_t> expected;
  for (int each = world - 1; each >= 0; --each) {
    if (each % 2 == me % 2) {
      expected.push_back(each);
    }
  }
  auto& communicator = part.communicator();
  if (communicator.name() != (me % 2 == 0 ? "even" : "odd")) {
    return "the name is " + communicator.name();
  }
  if (expected[static_cast<std::size_t>(communicator.rank())] != me) {
    return fmt::format("rank {} became rank {} of its part", me, communicator.rank());
  }
  return compare("even and odd", members_of(rank, communicator, *stream), expected);
}

/// Equal keys keep the order of ranks; a rank without a color gets no communicator.
std::string check_no_color(Rank& rank) {
  int const me = rank.communicator.rank(), world = rank.communicator.world();
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  Part part{rank.communicator, me == 0 ? -1 : 7, 0, "without_zero"};
  if (me == 0) {
    return part.exists() ? "a communicator for a negative color" : "";
  }
  std::vector<std::int64_t> expected;
  for (int each = 1; each < world; ++each) {
    expected.push_back(each);
  }
  return compare("without rank 0", members_of(rank, part.communicator(), *stream), expected);
}

/// Parts of parts, made, used and destroyed while the whole exists.
std::string check_nested(Rank& rank) {
  int const me = rank.communicator.rank();
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  std::string problem;
  for (int round = 0; round < 10; ++round) {
    Part half{rank.communicator, me / 2, me, "pairs"};
    Part single{half.communicator(), half.communicator().rank(), 0, "alone"};
    problem = first_of(problem, compare("alone", members_of(rank, single.communicator(), *stream), {me}));
    auto const of_half = rank.buffer<std::int64_t>({me}), of_all = rank.buffer<std::int64_t>({me});
    half.communicator().all_reduce(*stream, label, of_half.data(), of_half.data(), 1, Dtype::int64);
    rank.communicator.all_reduce(*stream, label, of_all.data(), of_all.data(), 1, Dtype::int64);
    stream->synchronize();
    auto const sum = of_half.read()[0], all = of_all.read()[0];
    int const first = me / 2 * 2, world = rank.communicator.world();
    int const expected = first + (first + 1 < world ? first + 1 : 0);
    problem = first_of(problem, sum == expected ? "" : fmt::format("a pair's sum is {} instead of {}", sum, expected));
    problem = first_of(problem, all == world * (world - 1) / 2 ? "" : fmt::format("the sum of all is {}", all));
  }
  return problem;
}

}  // namespace

std::vector<Case> split_cases() {
  return {{"split by color, ordered by key", check_colors_and_keys},
          {"split without some ranks", check_no_color},
          {"split of a split", check_nested}};
}

}  // namespace zeroth::comm::conformance
