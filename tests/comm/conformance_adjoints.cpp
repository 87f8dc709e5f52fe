// SPDX-License-Identifier: Apache-2.0
/// Checks <A x, y> == <x, A* y> in whole numbers, where A is an operation from all ranks' inputs to all ranks' outputs
/// and A* is its adjoint_of(). Backward passes through collectives rely on that.
#include <fmt/format.h>

#include <functional>

#include "comm/conformance_parts.hpp"
#include "comm/elements.hpp"
#include "zeroth/comm/uneven.hpp"

namespace zeroth::comm::conformance {
namespace {

using Values = std::vector<std::int64_t>;

Label const label{"test", "adjoints"};
constexpr std::int64_t count = 13;

std::int64_t whole_number(int rank, std::int64_t index, std::uint64_t salt) {
  return static_cast<std::int64_t>(
             scramble(scramble(salt + static_cast<std::uint64_t>(rank)) + static_cast<std::uint64_t>(index)) % 2001) -
         1000;
}

Values numbers(int rank, std::int64_t size, std::uint64_t salt) {
  Values values;
  for (std::int64_t i = 0; i < size; ++i) {
    values.push_back(whole_number(rank, i, salt));
  }
  return values;
}

std::int64_t product(Values const& a, Values const& b) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

/// Elements of this rank's input. Operations with a root have input or output only there.
std::int64_t input_count(Operation operation, bool is_root, int world) {
  switch (operation) {
    case Operation::broadcast: return is_root ? count : 0;
    case Operation::scatter: return is_root ? world * count : 0;
    case Operation::reduce_scatter:
    case Operation::all_to_all: return world * count;
    default: return count;
  }
}

/// A on this rank: its output for the `input` of all ranks.
using Map = std::function<Values(Values const& input, std::int64_t output_count)>;

/// Compares the products over all ranks, which every rank sums.
std::string compare(Rank& rank, std::string const& what, Values const& x, Values const& y, Map const& map,
                    Map const& adjoint) {
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  Values const forward = map(x, std::ssize(y)), backward = adjoint(y, std::ssize(x));
  auto const products = rank.buffer(Values{product(forward, y), product(x, backward)});
  rank.communicator.all_reduce(*stream, label, products.data(), products.data(), 2, Dtype::int64);
  stream->synchronize();
  auto const sums = products.read();
  bool const empty = sums[0] == 0 && sums[1] == 0;
  return sums[0] == sums[1] && !empty ? ""
                                      : fmt::format("{}: <A x, y> is {} and <x, A* y> is {}", what, sums[0], sums[1]);
}

std::string check_adjoint(Rank& rank, Operation operation) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), world = communicator.world();
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  std::string problem;
  for (int root = 0; root < world; ++root) {
    auto const map = [&](Operation of) -> Map {
      return [&, of](Values const& input, std::int64_t output_count) {
        auto const from = rank.buffer(input);
        auto const to = rank.buffer(Values(static_cast<std::size_t>(output_count)));
        Collective const one{of, from.data(), to.data(), count, Dtype::int64, root};
        communicator.submit(*stream, label, {&one, 1});
        stream->synchronize();
        return to.read();
      };
    };
    auto const adjoint = adjoint_of(operation);
    auto const x = numbers(me, input_count(operation, me == root, world), 1);
    auto const y = numbers(me, input_count(adjoint, me == root, world), 2);
    problem = first_of(problem, compare(rank, fmt::format("{}, root {}", name_of(operation), root), x, y,
                                        map(operation), map(adjoint)));
  }
  return problem;
}

/// Elements from one rank to another, for some pairs 0.
std::int64_t elements_between(int from, int to) { return (3 * from + 5 * to) % 7; }

std::string check_uneven(Rank& rank) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), world = communicator.world();
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  std::vector<std::int64_t> sent, received;
  std::int64_t sent_in_all = 1, received_in_all = 1;  // one that is not moved, so that no list is empty
  Values expected;
  for (int other = 0; other < world; ++other) {
    sent.push_back(elements_between(me, other));
    received.push_back(elements_between(other, me));
    std::int64_t first = 0;
    for (int before = 0; before < me; ++before) {
      first += elements_between(other, before);
    }
    for (std::int64_t i = 0; i < received.back(); ++i) {
      expected.push_back(whole_number(other, first + i, 1));
    }
    sent_in_all += sent.back();
    received_in_all += received.back();
  }
  expected.push_back(0);
  auto const map = [&](std::vector<std::int64_t> const& to, std::vector<std::int64_t> const& from) -> Map {
    return [&](Values const& input, std::int64_t output_count) {
      auto const source = rank.buffer(input);
      auto const target = rank.buffer(Values(static_cast<std::size_t>(output_count)));
      communicator.submit(*stream, label,
                          all_to_all_v(communicator, source.data(), to, target.data(), from, Dtype::int64));
      stream->synchronize();
      return target.read();
    };
  };
  auto const x = numbers(me, sent_in_all, 1), y = numbers(me, received_in_all, 2);
  auto const problem = map(sent, received)(x, received_in_all) == expected ? "" : "blocks are wrong";
  return world == 1 ? problem
                    : first_of(problem, compare(rank, "all_to_all_v", x, y, map(sent, received), map(received, sent)));
}

}  // namespace

std::vector<Case> adjoint_cases() {
  std::vector<Case> cases{{"all_to_all_v moves blocks that differ, and is its own adjoint", check_uneven}};
  for (auto const operation :
       {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter, Operation::broadcast,
        Operation::reduce, Operation::gather, Operation::scatter, Operation::all_to_all}) {
    auto& added = cases.emplace_back();
    added.name = fmt::format("{} and {} are adjoints", name_of(operation), name_of(adjoint_of(operation)));
    added.run = [=](Rank& rank) { return check_adjoint(rank, operation); };
  }
  return cases;
}

}  // namespace zeroth::comm::conformance
