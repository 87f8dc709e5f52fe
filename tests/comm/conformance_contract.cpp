// SPDX-License-Identifier: Apache-2.0
/// Wrong shapes are rejected at submission, on the rank that submits them, without further effects.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

#include "comm/conformance_parts.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm::conformance {
namespace {

struct Wrong {
  Collective collective;
  std::string says;  ///< The message must contain it.
};

std::vector<Wrong> wrong_collectives(float* data, int rank, int world) {
  float* const other = data + 512;
  constexpr auto fp32 = Dtype::fp32;
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  return {
      {{Operation::all_reduce, data, data, -1, fp32, 0}, "count is -1"},
      {{Operation::all_gather, data, other, most / 4, Dtype::fp64, 0}, "allowed are 0 to"},
      {{Operation::all_reduce, nullptr, data, 8, fp32, 0}, "input is null"},
      {{Operation::all_reduce, data, nullptr, 8, fp32, 0}, "output is null"},
      {{Operation::send, nullptr, nullptr, 8, fp32, 0}, "input is null"},
      {{Operation::receive, nullptr, nullptr, 8, fp32, 0}, "output is null"},
      {{Operation::broadcast, data, data, 8, fp32, world}, fmt::format("peer is {}", world)},
      {{Operation::reduce, data, other, 8, fp32, -1}, "peer is -1"},
      {{Operation::send, data, nullptr, 8, fp32, world}, fmt::format("allowed are 0 to {}", world - 1)},
      {{Operation::send, data, nullptr, 8, fp32, rank}, "1 more sends"},
      {{Operation::receive, nullptr, data, 8, fp32, rank}, "1 more receives"},
      {{Operation::barrier, nullptr, nullptr, 8, fp32, 0}, "allowed for a barrier: 0"},
      {{Operation::all_reduce, data, data + 1, 8, fp32, 0}, "overlap"},
      {{Operation::all_to_all, data, data, 8, fp32, 0}, "never in place"},
      {{Operation::all_gather, data + rank * 8 + 1, data, 8, fp32, 0}, "overlap"},
      {{Operation::reduce_scatter, data, data + rank * 8 + 4, 8, fp32, 0}, "overlap"},
      {{Operation::gather, data + rank * 8 + 1, data, 8, fp32, rank}, "in place means output =="},
      {{Operation::scatter, data, data + rank * 8 + 1, 8, fp32, rank}, "in place means output =="},
      {{Operation::all_reduce, reinterpret_cast<std::byte*>(data) + 1, other, 8, fp32, 0}, "is not aligned"},
      {{Operation::all_reduce, data, other, 8, static_cast<Dtype>(99), 0}, "unknown dtype 99"},
      {{static_cast<Operation>(99), data, other, 8, fp32, 0}, "unknown operation 99"},
      {{Operation::all_reduce, data, other, 8, fp32, 0, static_cast<Reduce>(14)}, "unknown reduce operator 14"},
      {{Operation::all_reduce, data, other, 8, fp32, 0, Reduce::bit_xor},
       "does not reduce fp32 by bit_xor; allowed are sum"},
      {{Operation::reduce, data, other, 8, Dtype::int32, 0, Reduce::average}, "does not reduce int32 by average"},
      {{Operation::reduce_scatter, data, other, 1, Dtype::fp32_location, 0}, "does not reduce fp32_location by sum"},
      {{Operation::all_gather, data, other, 8, fp32, 0, Reduce::maximum},
       "reduce is maximum, but this operation reduces nothing"},
      {{.operation = Operation::all_reduce, .input = data, .count = 8, .sums = other},
       "sums is given; it is for reduce_scatter by sum of fp32, bf16 or fp16"},
      {{.operation = Operation::reduce_scatter, .input = data, .count = 8, .reduce = Reduce::maximum, .sums = other},
       "sums is given; it is for reduce_scatter by sum"},
      {{.operation = Operation::reduce_scatter, .input = data, .count = 4, .dtype = Dtype::fp64, .sums = other},
       "sums is given; it is for reduce_scatter by sum"},
      {{.operation = Operation::all_reduce, .input = data, .output = other, .count = 8, .accumulate = true},
       "accumulate without sums"},
  };
}

/// Cases in which sums of a reduce_scatter are not allowed.
std::vector<Wrong> wrong_sums(float* data) {
  float* const other = data + 512;
  return {
      {{.operation = Operation::reduce_scatter, .input = data, .output = other, .count = 8, .sums = other},
       "sums and output are both given"},
      {{.operation = Operation::reduce_scatter, .input = data, .count = 8, .sums = data + 7}, "overlap"},
      {{.operation = Operation::reduce_scatter,
        .input = data,
        .count = 8,
        .sums = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(other) + 2)},
       "is not aligned to its 4 bytes"},
  };
}

std::string check_wrong_shapes(Rank& rank) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank(), world = communicator.world();
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  auto const memory = rank.buffer(std::vector<float>(1024, 1));
  std::string problem;
  auto all = wrong_collectives(memory.data(), me, world);
  if (communicator.transport() != Transport::nccl) {
    std::ranges::move(wrong_sums(memory.data()), std::back_inserter(all));
  }
  for (auto const& wrong : all) {
    std::string says = "nothing was thrown";
    try {
      communicator.submit(*stream, {"testing", "shapes"}, {&wrong.collective, 1});
    } catch (ContractError const& error) {
      says = error.what();
    }
    bool const good = says.find(wrong.says) != std::string::npos && says.find(communicator.name()) != std::string::npos;
    problem = first_of(problem, good ? "" : fmt::format("'{}' was expected and came: {}", wrong.says, says));
  }
  // Each rank may have had other shapes rejected: nothing of them was enqueued.
  communicator.all_reduce(*stream, {"testing", "shapes"}, memory.data(), memory.data(), memory.count(), Dtype::fp32);
  stream->synchronize();
  return first_of(problem,
                  memory.read()[1023] == static_cast<float>(world) ? "" : "the collective after refused ones is wrong");
}

std::string check_names(Rank& rank) {
  std::string problem;
  for (auto const& [name, allowed] :
       {std::pair{"", "allowed are 1 to 15"}, std::pair{"sixteen_letters_", "allowed are 1 to 15"},
        std::pair{"a\x1b[2J\n", R"('a\x1b[2J\x0a' appears in messages; allowed: UTF-8)"}}) {
    std::string says = "nothing was thrown";
    try {
      auto const part = rank.communicator.split(0, 0, name);
    } catch (ContractError const& error) {
      says = error.what();
    }
    problem = first_of(problem, says.find(allowed) != std::string::npos ? "" : says);
  }
  return problem;
}

std::string check_identity(Rank& rank) {
  auto& communicator = rank.communicator;
  bool const good =
      communicator.rank() >= 0 && communicator.rank() < communicator.world() && !communicator.name().empty();
  return good ? "" : fmt::format("rank {} of {}", communicator.rank(), communicator.world());
}

}  // namespace

std::vector<Case> contract_cases() {
  return {{"rank, world and name", check_identity},
          {"wrong shapes are refused", check_wrong_shapes},
          {"wrong names are refused", check_names}};
}

}  // namespace zeroth::comm::conformance
