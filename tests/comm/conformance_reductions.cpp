// SPDX-License-Identifier: Apache-2.0
/// Every reduce operator on every dtype that it is defined for, against a plain fold of one element after the other.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "comm/conformance_parts.hpp"
#include "comm/plain_fold.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm::conformance {
namespace {

constexpr Reduce all_operators[] = {Reduce::sum,          Reduce::product,     Reduce::maximum,     Reduce::minimum,
                                    Reduce::average,      Reduce::premul_sum,  Reduce::logical_and, Reduce::logical_or,
                                    Reduce::logical_xor,  Reduce::bit_and,     Reduce::bit_or,      Reduce::bit_xor,
                                    Reduce::max_location, Reduce::min_location};

Label const label{"test", "reductions"};

// ---- the cases ------------------------------------------------------------------------------------------------------

/// Threads on GPUs support only sums, and maximum and premul_sum of floating-point numbers.
bool reduces(Rank& rank, Reduce reduce, Dtype dtype) {
  auto const transport = rank.communicator.transport();
  bool const few = transport == Transport::local && rank.device.name() != "cpu";
  bool const floating = is_defined(Reduce::average, dtype);
  return supports(transport, reduce, dtype) &&
         (!few || reduce == Reduce::sum || ((reduce == Reduce::maximum || reduce == Reduce::premul_sum) && floating));
}

template <class T>
std::string check(Rank& rank, Reduce reduce, Dtype dtype, Operation operation, std::int64_t count) {
  auto& communicator = rank.communicator;
  int const world = communicator.world(), me = communicator.rank();
  bool const scatters = operation == Operation::reduce_scatter;
  std::int64_t const whole = scatters ? world * count : count;
  int const root = static_cast<int>(count % world);
  std::vector<T> values;
  for (std::int64_t i = 0; i < whole; ++i) {
    values.push_back(element<T>(me, i));
  }
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const input = rank.buffer(values);
  auto const output = rank.buffer(std::vector<T>(static_cast<std::size_t>(count)));
  Collective const collective{.operation = operation,
                              .input = input.data(),
                              .output = output.data(),
                              .count = count,
                              .dtype = dtype,
                              .peer = root,
                              .reduce = reduce,
                              .factor = factor_of(reduce)};
  communicator.submit(*stream, label, {&collective, 1});
  stream->synchronize();
  if (operation == Operation::reduce && me != root) {
    return {};
  }
  auto const results = output.read();
  for (std::int64_t i = 0; i < count; ++i) {
    if (!same(results[static_cast<std::size_t>(i)], expected<T>(reduce, world, (scatters ? me * count : 0) + i))) {
      return fmt::format("rank {} of {}: {} by {} of {} {}: element {} is wrong", me, world, name_of(operation),
                         name_of(reduce), count, name_of(dtype), i);
    }
  }
  return {};
}

template <class T>
std::string check_dtype(Rank& rank, Reduce reduce, Dtype dtype) {
  std::string problem;
  for (auto const operation : {Operation::all_reduce, Operation::reduce_scatter, Operation::reduce}) {
    for (std::int64_t const count : {1, 16, 1009}) {
      problem = first_of(problem, check<T>(rank, reduce, dtype, operation, count));
    }
  }
  return problem;
}

template <class T>
std::string check_or_refused(Rank& rank, Reduce reduce, Dtype dtype) {
  if (reduces(rank, reduce, dtype)) {
    return check_dtype<T>(rank, reduce, dtype);
  }
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const data = rank.buffer(std::vector<T>(2));
  Collective const collective{Operation::all_reduce, data.data(), data.data() + 1, 1, dtype, 0, reduce};
  try {
    rank.communicator.submit(*stream, label, {&collective, 1});
  } catch (ContractError const& error) {
    auto const says = fmt::format("does not reduce {} by {}", name_of(dtype), name_of(reduce));
    return std::string{error.what()}.find(says) != std::string::npos ? "" : error.what();
  }
  stream->synchronize();
  return fmt::format("{} of {} was not refused", name_of(reduce), name_of(dtype));
}

std::string check_operator(Rank& rank, Reduce reduce) {
  std::string problem = check_or_refused<float>(rank, reduce, Dtype::fp32);
  problem = first_of(problem, check_or_refused<bf16>(rank, reduce, Dtype::bf16));
  problem = first_of(problem, check_or_refused<fp16>(rank, reduce, Dtype::fp16));
  problem = first_of(problem, check_or_refused<double>(rank, reduce, Dtype::fp64));
  problem = first_of(problem, check_or_refused<std::int32_t>(rank, reduce, Dtype::int32));
  problem = first_of(problem, check_or_refused<std::int64_t>(rank, reduce, Dtype::int64));
  problem = first_of(problem, check_or_refused<std::uint8_t>(rank, reduce, Dtype::byte));
  problem = first_of(problem, check_or_refused<std::int8_t>(rank, reduce, Dtype::int8));
  problem = first_of(problem, check_or_refused<LocatedFp32>(rank, reduce, Dtype::fp32_location));
  problem = first_of(problem, check_or_refused<LocatedInt32>(rank, reduce, Dtype::int32_location));
  return first_of(problem, check_or_refused<LocatedFp64>(rank, reduce, Dtype::fp64_location));
}

/// Every rank contributes the same value, so that the location shows which one was taken.
std::string check_ties(Rank& rank) {
  if (!reduces(rank, Reduce::max_location, Dtype::fp64_location)) {
    return {};
  }
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const data = rank.buffer(std::vector<LocatedFp64>{{2.5, 100 - rank.communicator.rank()}});
  Collective const collective{Operation::all_reduce, data.data(), data.data(),         1,
                              Dtype::fp64_location,  0,           Reduce::max_location};
  rank.communicator.submit(*stream, label, {&collective, 1});
  stream->synchronize();
  auto const location = data.read()[0].location;
  return location == 100 ? "" : fmt::format("of equals the one at {} was taken", location);
}

/// premul_sum refuses a factor that no fp32 number is near to, and all other reductions refuse any factor but 1.
std::string check_factors(Rank& rank) {
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const data = rank.buffer(std::vector<float>(1));
  auto const refused = [&](Reduce reduce, double wrong, std::string const& words) -> std::string {
    Collective const collective{.operation = Operation::all_reduce,
                                .input = data.data(),
                                .output = data.data(),
                                .count = 1,
                                .reduce = reduce,
                                .factor = wrong};
    try {
      rank.communicator.submit(*stream, label, {&collective, 1});
    } catch (ContractError const& error) {
      return std::string{error.what()}.find(words) != std::string::npos ? "" : error.what();
    }
    return "not refused: " + words;
  };
  return first_of(first_of(refused(Reduce::sum, 0.5, "factor is 0.5, but reduce is sum, which has none: leave it at 1"),
                           refused(Reduce::premul_sum, std::numeric_limits<double>::quiet_NaN(),
                                   "factor is nan; allowed are -3.4")),
                  refused(Reduce::premul_sum, 1e39, "factor is 1e+39; allowed are -3.4"));
}

/// A bool is a byte: "any" and "all" of the ranks, on every backend.
std::string check_bools(Rank& rank) {
  static_assert(sizeof(bool) == 1);
  auto& communicator = rank.communicator;
  if (!reduces(rank, Reduce::maximum, Dtype::byte)) {
    return {};
  }
  int const me = communicator.rank();
  std::vector<std::uint8_t> const mine{1, 0, static_cast<std::uint8_t>(me == 0)};
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const any = rank.buffer(mine), all = rank.buffer(mine);
  communicator.all_reduce(*stream, label, any.data(), any.data(), 3, Dtype::byte, Reduce::maximum);
  communicator.all_reduce(*stream, label, all.data(), all.data(), 3, Dtype::byte, Reduce::minimum);
  stream->synchronize();
  bool const good = any.read() == std::vector<std::uint8_t>{1, 0, 1} &&
                    all.read() == std::vector<std::uint8_t>{1, 0, static_cast<std::uint8_t>(communicator.world() == 1)};
  return good ? "" : "any or all of bools is wrong";
}

/// A reduce_scatter into fp32 sums, twice: the second one adds to the first.
template <class T>
std::string check_sums(Rank& rank, Dtype dtype, std::int64_t count) {
  auto& communicator = rank.communicator;
  int const world = communicator.world(), me = communicator.rank();
  std::vector<T> values;
  for (std::int64_t i = 0; i < world * count; ++i) {
    values.push_back(element<T>(me, i));
  }
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const input = rank.buffer(values);
  auto const sums = rank.buffer(std::vector<float>(static_cast<std::size_t>(count), 99.0F));
  for (bool const accumulate : {false, true}) {
    Collective const collective{.operation = Operation::reduce_scatter,
                                .input = input.data(),
                                .count = count,
                                .dtype = dtype,
                                .sums = sums.data(),
                                .accumulate = accumulate};
    communicator.submit(*stream, label, {&collective, 1});
  }
  stream->synchronize();
  auto const results = sums.read();
  for (std::int64_t i = 0; i < count; ++i) {
    float sum = to_float(element<T>(0, me * count + i));
    for (int n = 1; n < 2 * world; ++n) {
      sum += to_float(element<T>(n % world, me * count + i));
    }
    if (!same(results[static_cast<std::size_t>(i)], sum)) {
      return fmt::format("rank {} of {}: sums of {} {}: element {} is wrong", me, world, count, name_of(dtype), i);
    }
  }
  return {};
}

std::string check_all_sums(Rank& rank) {
  if (rank.communicator.transport() == Transport::nccl) {
    return {};
  }
  std::string problem;
  for (std::int64_t const count : {1, 16, 1009, 5003}) {
    problem = first_of(problem, check_sums<float>(rank, Dtype::fp32, count));
    problem = first_of(problem, check_sums<bf16>(rank, Dtype::bf16, count));
    problem = first_of(problem, check_sums<fp16>(rank, Dtype::fp16, count));
  }
  return problem;
}

}  // namespace

std::vector<Case> reduction_cases() {
  std::vector<Case> cases;
  for (auto const reduce : all_operators) {
    cases.push_back({fmt::format("reductions by {}", name_of(reduce)),
                     [=](Rank& rank) { return check_operator(rank, reduce); }, false, true});
  }
  cases.push_back({"a reduce_scatter adds ranks to fp32 sums", check_all_sums});
  cases.push_back({"factors that are none are refused", check_factors});
  cases.push_back({"bools reduce as bytes", check_bools});
  cases.push_back({"of equals the lowest rank's location is taken", check_ties});
  return cases;
}

}  // namespace zeroth::comm::conformance
