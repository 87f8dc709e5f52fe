// SPDX-License-Identifier: Apache-2.0
/// Every reduce operator on every dtype that it is defined for, against a plain fold of one element after the other.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "comm/conformance_parts.hpp"
#include "comm/elements.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm::conformance {
namespace {

constexpr Reduce all_operators[] = {Reduce::sum,         Reduce::product,     Reduce::maximum,    Reduce::minimum,
                                    Reduce::average,     Reduce::logical_and, Reduce::logical_or, Reduce::logical_xor,
                                    Reduce::bit_and,     Reduce::bit_or,      Reduce::bit_xor,    Reduce::max_location,
                                    Reduce::min_location};

Label const label{"test", "reductions"};

template <class T>
constexpr bool is_located =
    std::is_same_v<T, LocatedFp32> || std::is_same_v<T, LocatedInt32> || std::is_same_v<T, LocatedFp64>;

// ---- what ranks bring -----------------------------------------------------------------------------------------------

/// Few different numbers, so that ranks often contribute equal ones; among floats zeros of both signs, infinities and
/// NaNs.
template <class T>
T number(std::uint64_t random) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (random % 64) {
      case 0: return std::numeric_limits<T>::quiet_NaN();
      case 1: return -std::numeric_limits<T>::infinity();
      case 2: return std::numeric_limits<T>::infinity();
      case 3: return -T{0};
      case 4: return T{0};
      default: return static_cast<T>(static_cast<std::int64_t>(random % 29) - 14) / T{8};
    }
  } else {
    return random % 3 == 0 ? T{0} : static_cast<T>(random >> (random % 5 == 0 ? 1U : 59U));
  }
}

template <class T>
T element(int rank, std::int64_t index) {
  std::uint64_t const random = scramble(scramble(static_cast<std::uint64_t>(index)) + static_cast<std::uint64_t>(rank));
  if constexpr (is_located<T>) {
    T located{};
    located.value = number<decltype(located.value)>(random);
    located.location = static_cast<decltype(located.location)>(1'000'000 * rank + index);
    return located;
  } else if constexpr (Element<T>) {
    return from_float<T>(number<float>(random));
  } else {
    return number<T>(random);
  }
}

// ---- what comes of it -----------------------------------------------------------------------------------------------

/// The mathematical definition, without regard for speed.
template <class W>
W fold(Reduce reduce, std::vector<W> const& values) {
  if constexpr (std::is_floating_point_v<W>) {
    bool const bounds = reduce == Reduce::maximum || reduce == Reduce::minimum;
    for (W const value : values) {
      if (bounds && std::isnan(value)) {
        return value;
      }
    }
  }
  W result = values[0];
  bool truth = values[0] != W{0};
  for (std::size_t rank = 1; rank < values.size(); ++rank) {
    W const value = values[rank];
    bool const other = value != W{0};
    if constexpr (std::is_integral_v<W>) {
      using U = std::make_unsigned_t<W>;
      auto const a = static_cast<std::uint64_t>(static_cast<U>(result)),
                 b = static_cast<std::uint64_t>(static_cast<U>(value));
      switch (reduce) {
        case Reduce::sum: result = static_cast<W>(a + b); continue;
        case Reduce::product: result = static_cast<W>(a * b); continue;
        case Reduce::bit_and: result = static_cast<W>(a & b); continue;
        case Reduce::bit_or: result = static_cast<W>(a | b); continue;
        case Reduce::bit_xor: result = static_cast<W>(a ^ b); continue;
        case Reduce::logical_and: truth = truth && other; continue;
        case Reduce::logical_or: truth = truth || other; continue;
        case Reduce::logical_xor: truth = truth != other; continue;
        default: break;
      }
    }
    switch (reduce) {
      case Reduce::sum:
      case Reduce::average: result = static_cast<W>(result + value); break;
      case Reduce::product: result = static_cast<W>(result * value); break;
      case Reduce::maximum: result = value > result ? value : result; break;
      case Reduce::minimum: result = value < result ? value : result; break;
      default: break;
    }
  }
  switch (reduce) {
    case Reduce::average: return static_cast<W>(result * (W{1} / static_cast<W>(values.size())));
    case Reduce::logical_and:
    case Reduce::logical_or:
    case Reduce::logical_xor: return truth ? W{1} : W{0};
    default: return result;
  }
}

template <class T>
T expected(Reduce reduce, int world, std::int64_t index) {
  if constexpr (is_located<T>) {
    T best = element<T>(0, index);
    for (int rank = 1; rank < world && !std::isnan(static_cast<double>(best.value)); ++rank) {
      T const each = element<T>(rank, index);
      bool const beyond = reduce == Reduce::max_location ? each.value > best.value : each.value < best.value;
      best = beyond || std::isnan(static_cast<double>(each.value)) ? each : best;
    }
    return best;
  } else if constexpr (Element<T>) {
    std::vector<float> values;
    for (int rank = 0; rank < world; ++rank) {
      values.push_back(to_float(element<T>(rank, index)));
    }
    return from_float<T>(fold(reduce, values));
  } else {
    std::vector<T> values;
    for (int rank = 0; rank < world; ++rank) {
      values.push_back(element<T>(rank, index));
    }
    return fold(reduce, values);
  }
}

/// The same bits, or both NaN (a NaN's payload depends on the device); for locations the same value and location.
template <class T>
bool same(T a, T b) {
  if constexpr (is_located<T>) {
    return same(a.value, b.value) && a.location == b.location;
  } else if constexpr (Element<T>) {
    return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(to_float(a)) && std::isnan(to_float(b)));
  } else {
    return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
  }
}

// ---- the cases ------------------------------------------------------------------------------------------------------

/// Threads on GPUs support only sums, and maxima of floating-point numbers.
bool reduces(Rank& rank, Reduce reduce, Dtype dtype) {
  auto const transport = rank.communicator.transport();
  bool const few = transport == Transport::local && rank.device.name() != "cpu";
  bool const floating = is_defined(Reduce::average, dtype);
  return supports(transport, reduce, dtype) &&
         (!few || reduce == Reduce::sum || (reduce == Reduce::maximum && floating));
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
  Collective const collective{operation, input.data(), output.data(), count, dtype, root, reduce};
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
  cases.push_back({"of equals the lowest rank's location is taken", check_ties});
  return cases;
}

}  // namespace zeroth::comm::conformance
