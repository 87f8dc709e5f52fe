// SPDX-License-Identifier: Apache-2.0
/// Every operation, dtype, form and size; and the bits of sums.
#include <fmt/format.h>

#include <cmath>

#include "comm/conformance_parts.hpp"
#include "comm/trial.hpp"

namespace zeroth::comm::conformance {
namespace {

constexpr Operation of_groups[] = {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                                   Operation::broadcast,  Operation::reduce,     Operation::gather,
                                   Operation::scatter,    Operation::all_to_all};
constexpr std::int64_t counts[] = {0, 1, 2, 3, 16, 127, 1009, 8191};  // mostly primes: nothing divides evenly

Label const label{"test", "operation"};

std::string run_one(Rank& rank, Communicator& communicator, device::Stream& stream, Probe const& probe,
                    Source const& source) {
  Trial const trial{*rank.memory, probe, communicator.rank(), communicator.world(), source};
  communicator.submit(stream, label, {&trial.collective(), 1});
  stream.synchronize();
  return trial.problem();
}

/// All dtypes, counts and forms, with each rank as root in turn.
std::string check_operation(Rank& rank, Operation operation) {
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  std::string problem;
  int root = 0;
  for (auto const dtype : all_dtypes) {
    for (auto const count : counts) {
      for (auto const place : {Place::out_of_place, Place::in_place}) {
        if (place == Place::in_place && operation == Operation::all_to_all) {
          continue;
        }
        root = (root + 1) % rank.communicator.world();
        auto const found =
            run_one(rank, rank.communicator, *stream, {operation, dtype, count, place, root}, small_numbers);
        problem = first_of(problem, found);  // continues: the ranks must stay together
      }
    }
  }
  return problem;
}

std::string check_rounding(Rank& rank) {
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  std::string problem;
  for (auto const operation : {Operation::all_reduce, Operation::reduce_scatter, Operation::reduce}) {
    for (auto const dtype : all_dtypes) {
      for (auto const place : {Place::out_of_place, Place::in_place}) {
        auto const found = run_one(rank, rank.communicator, *stream, {operation, dtype, 4999, place, 0}, rough_numbers);
        problem = first_of(problem, found);
      }
    }
  }
  return problem;
}

/// A sum of negative zeros is a negative zero, which shows that nothing else was added.
std::string check_negative_zero(Rank& rank) {
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const data = rank.buffer(std::vector<float>(33, -0.0F));
  rank.communicator.all_reduce(*stream, label, data.data(), data.data(), data.count(), Dtype::fp32);
  stream->synchronize();
  for (float const value : data.read()) {
    if (value != 0 || !std::signbit(value)) {
      return fmt::format("the sum of -0 is {}", value);
    }
  }
  return {};
}

/// Longer than a backend stages at a time, or keeps in its caches.
std::string check_long_operations(Rank& rank) {
  constexpr std::int64_t count = 2'200'013;  // in fp32: a little more than 8 MiB
  int const world = rank.communicator.world();
  Part part{rank.communicator, 0, rank.communicator.rank(), "long", count};
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  Probe const whole{Operation::all_reduce, Dtype::fp32, count, Place::in_place, 0};
  Probe const blocks{Operation::reduce_scatter, Dtype::fp32, count / world, Place::in_place, 0};
  Probe const from_one{Operation::broadcast, Dtype::fp32, count, Place::out_of_place, world - 1};
  Probe const from_all{Operation::all_gather, Dtype::fp32, count / world, Place::out_of_place, 0};
  std::string problem;
  for (auto const& each : {whole, blocks, from_one, from_all}) {
    auto const found = run_one(rank, part.communicator(), *stream, each, small_numbers);
    problem = first_of(problem, found);
  }
  return problem;
}

}  // namespace

std::vector<Case> operation_cases() {
  std::vector<Case> cases;
  for (auto const operation : of_groups) {
    cases.push_back({std::string{name_of(operation)}, [=](Rank& rank) { return check_operation(rank, operation); }});
  }
  cases.push_back({"sums are in rank order and are rounded once", check_rounding, false, true});
  cases.push_back({"nothing but the inputs is summed", check_negative_zero});
  cases.push_back({"operations on more than staging memory and caches hold", check_long_operations});
  return cases;
}

}  // namespace zeroth::comm::conformance
