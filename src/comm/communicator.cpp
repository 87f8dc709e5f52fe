// SPDX-License-Identifier: Apache-2.0
#include "zeroth/comm/communicator.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

#include "comm/describe.hpp"
#include "comm/operations.hpp"
#include "comm/staging.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/core/utf8.hpp"

namespace zeroth::comm {
namespace {

/// The elements that a collective reads and writes on one rank, and where they may share memory.
struct Access {
  std::int64_t input_count = 0, output_count = 0;
  bool may_be_in_place = false;
  /// The output's start relative to the input's, in elements, when in place.
  std::int64_t output_offset = 0;
};

bool has_peer(Operation operation) noexcept {
  switch (operation) {
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::gather:
    case Operation::scatter:
    case Operation::send:
    case Operation::receive: return true;
    default: return false;
  }
}

/// The table of Collective, for one rank.
Access access_of(Collective const& collective, int rank, int world) noexcept {
  std::int64_t const count = collective.count;
  std::int64_t const all = world * count;
  std::int64_t const mine = rank * count;
  bool const is_root = collective.peer == rank;
  switch (collective.operation) {
    case Operation::all_reduce: return {count, count, true, 0};
    case Operation::all_gather: return {count, all, true, -mine};
    case Operation::reduce_scatter: return {all, count, true, mine};
    case Operation::broadcast: return {is_root ? count : 0, count, true, 0};
    case Operation::reduce: return {count, is_root ? count : 0, true, 0};
    case Operation::gather: return {count, is_root ? all : 0, true, -mine};
    case Operation::scatter: return {is_root ? all : 0, count, true, mine};
    case Operation::all_to_all: return {all, all, false, 0};
    case Operation::send: return {count, 0, false, 0};
    case Operation::receive: return {0, count, false, 0};
    case Operation::barrier: return {};
  }
  return {};
}

/// Formats messages only when a check fails, because a correct program pays for the checks on every call.
class Contract {
 public:
  Contract(Communicator const& communicator, Label const& label, Collective const& collective) noexcept
      : communicator_{communicator}, label_{label}, collective_{collective} {}

  void check() const {
    check_values();
    Access const access = access_of(collective_, communicator_.rank(), communicator_.world());
    check_buffer("input", collective_.input, access.input_count);
    if (collective_.sums != nullptr) {
      return check_sums(access);
    }
    ZEROTH_EXPECTS(!collective_.accumulate, say("accumulate without sums"));
    check_buffer("output", collective_.output, access.output_count);
    check_overlap(access);
  }

 private:
  void check_values() const {
    std::int64_t const bytes = bytes_of(collective_.dtype);
    int const world = communicator_.world();
    ZEROTH_EXPECTS(bytes > 0, say(fmt::format("unknown dtype {}", static_cast<int>(collective_.dtype))));
    ZEROTH_EXPECTS(collective_.operation <= Operation::barrier,
                   say(fmt::format("unknown operation {}", static_cast<int>(collective_.operation))));
    check_reduce();
    std::int64_t const most = std::numeric_limits<std::int64_t>::max() / bytes / world;
    ZEROTH_EXPECTS(collective_.count >= 0 && collective_.count <= most,
                   say(fmt::format("count is {}; allowed are 0 to {}", collective_.count, most)));
    ZEROTH_EXPECTS(collective_.operation != Operation::barrier || collective_.count == 0,
                   say(fmt::format("count is {}; allowed for a barrier: 0", collective_.count)));
    ZEROTH_EXPECTS(!has_peer(collective_.operation) || (collective_.peer >= 0 && collective_.peer < world),
                   say(fmt::format("peer is {}; allowed are 0 to {}", collective_.peer, world - 1)));
  }

  void check_reduce() const {
    auto const reduce = collective_.reduce;
    auto const transport = communicator_.transport();
    ZEROTH_EXPECTS(reduce <= Reduce::min_location,
                   say(fmt::format("unknown reduce operator {}", static_cast<int>(reduce))));
    ZEROTH_EXPECTS(
        is_reduction(collective_.operation) || reduce == Reduce::sum,
        say(fmt::format("reduce is {}, but this operation reduces nothing: leave it at sum", name_of(reduce))));
    ZEROTH_EXPECTS(
        !is_reduction(collective_.operation) || supports(transport, reduce, collective_.dtype),
        say(fmt::format("'{}' does not reduce {} by {}; allowed are {}", name_of(transport), name_of(collective_.dtype),
                        name_of(reduce), operators_of(transport, collective_.dtype))));
    check_factor();
  }

  void check_factor() const {
    auto const factor = collective_.factor;
    if (collective_.reduce != Reduce::premul_sum) {
      return ZEROTH_EXPECTS(factor == 1,
                            say(fmt::format("factor is {}, but reduce is {}, which has none: leave it at 1", factor,
                                            name_of(collective_.reduce))));
    }
    auto const most = collective_.dtype == Dtype::fp64 ? std::numeric_limits<double>::max()
                                                       : static_cast<double>(std::numeric_limits<float>::max());
    ZEROTH_EXPECTS(std::abs(factor) <= most,
                   say(fmt::format("factor is {}; allowed are {} to {}", factor, -most, most)));
  }

  void check_sums(Access const& access) const {
    auto const dtype = collective_.dtype;
    bool const floating = dtype == Dtype::fp32 || dtype == Dtype::bf16 || dtype == Dtype::fp16;
    ZEROTH_EXPECTS(collective_.operation == Operation::reduce_scatter && collective_.reduce == Reduce::sum &&
                       floating && traits_of(communicator_.transport()).reduces_in_order,
                   say("sums is given; it is for reduce_scatter by sum of fp32, bf16 or fp16 on 'local', 'mpi' and "
                       "'tcp'"));
    ZEROTH_EXPECTS(collective_.output == nullptr,
                   say("sums and output are both given; give the one that receives the sum"));
    auto const sums = address(collective_.sums), input = address(collective_.input);
    ZEROTH_EXPECTS(sums % sizeof(float) == 0, say(fmt::format("sums {} is not aligned to its 4 bytes",
                                                              static_cast<void const*>(collective_.sums))));
    auto const sums_bytes = static_cast<std::uintptr_t>(access.output_count) * sizeof(float);
    auto const input_bytes = static_cast<std::uintptr_t>(access.input_count * bytes_of(dtype));
    ZEROTH_EXPECTS(sums + sums_bytes <= input || input + input_bytes <= sums,
                   say(fmt::format("input {} and sums {} overlap", collective_.input,
                                   static_cast<void const*>(collective_.sums))));
  }

  static std::string operators_of(Transport transport, Dtype dtype) {
    std::string names;
    for (auto reduce = Reduce::sum; reduce <= Reduce::min_location;
         reduce = static_cast<Reduce>(static_cast<int>(reduce) + 1)) {
      if (supports(transport, reduce, dtype)) {
        names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(reduce));
      }
    }
    return names.empty() ? "none" : names;
  }

  void check_buffer(char const* name, void const* data, std::int64_t count) const {
    ZEROTH_EXPECTS(count == 0 || data != nullptr, say(fmt::format("{} is null; {} elements are needed", name, count)));
    ZEROTH_EXPECTS(count == 0 || address(data) % static_cast<std::uintptr_t>(bytes_of(collective_.dtype)) == 0,
                   say(fmt::format("{} {} is not aligned to its {} bytes", name, data, bytes_of(collective_.dtype))));
  }

  /// The only overlap that is allowed is the one in the table.
  void check_overlap(Access const& access) const {
    if (access.input_count == 0 || access.output_count == 0) {
      return;
    }
    std::int64_t const bytes = bytes_of(collective_.dtype);
    auto const input = static_cast<std::int64_t>(address(collective_.input));
    auto const output = static_cast<std::int64_t>(address(collective_.output));
    bool const apart = input + access.input_count * bytes <= output || output + access.output_count * bytes <= input;
    bool const in_place = access.may_be_in_place && output - input == access.output_offset * bytes;
    ZEROTH_EXPECTS(
        apart || in_place,
        access.may_be_in_place
            ? say(fmt::format("input {} and output {} overlap; in place means output == input + {} elements here",
                              collective_.input, collective_.output, access.output_offset))
            : say(fmt::format("input {} and output {} overlap; this operation is never in place", collective_.input,
                              collective_.output)));
  }

  static std::uintptr_t address(void const* data) noexcept { return reinterpret_cast<std::uintptr_t>(data); }

  [[nodiscard]] std::string say(std::string const& what) const {
    std::vector<int> job_ranks;
    for (int rank = 0; rank < communicator_.world(); ++rank) {
      job_ranks.push_back(communicator_.job_rank(rank));
    }
    return fmt::format("{} on communicator '{}': {}", describe(label_, collective_, job_ranks), communicator_.name(),
                       what);
  }

  Communicator const& communicator_;
  Label const& label_;
  Collective const& collective_;
};

/// A message to oneself must be received in the same transaction; otherwise it never is.
void check_self_messages(Communicator const& communicator, Label const& label,
                         std::span<Collective const> collectives) {
  std::int64_t open = 0;
  for (auto const& each : collectives) {
    if (each.peer == communicator.rank()) {
      open += each.operation == Operation::send ? 1 : each.operation == Operation::receive ? -1 : 0;
    }
  }
  ZEROTH_EXPECTS(open == 0,
                 fmt::format("{} on communicator '{}': {} more {} with this rank itself than {} in one "
                             "transaction; such messages go in pairs",
                             purpose_and_unit(label.purpose, label.unit), communicator.name(), open > 0 ? open : -open,
                             open > 0 ? "sends" : "receives", open > 0 ? "receives" : "sends"));
}

}  // namespace

std::string_view name_of(Operation operation) noexcept {
  switch (operation) {
    case Operation::all_reduce: return "all_reduce";
    case Operation::all_gather: return "all_gather";
    case Operation::reduce_scatter: return "reduce_scatter";
    case Operation::broadcast: return "broadcast";
    case Operation::reduce: return "reduce";
    case Operation::gather: return "gather";
    case Operation::scatter: return "scatter";
    case Operation::all_to_all: return "all_to_all";
    case Operation::send: return "send";
    case Operation::receive: return "receive";
    case Operation::barrier: return "barrier";
  }
  return "?";
}

void check(CommOptions const& options) {
  using namespace std::chrono_literals;
  ZEROTH_EXPECTS(options.timeout > 0ms && options.timeout <= 24h * 365,
                 fmt::format("CommOptions::timeout is {} ms; allowed are 1 to {}, a year", options.timeout.count(),
                             std::chrono::milliseconds{24h * 365}.count()));
}

std::int64_t staging_bytes(Transport transport, int world, Dtype dtype, std::int64_t largest_count) {
  ZEROTH_EXPECTS(world > 0, fmt::format("staging of a world of {} ranks", world));
  ZEROTH_EXPECTS(largest_count >= 0, fmt::format("staging for {} elements", largest_count));
  return traits_of(transport).stages ? host_staging_bytes(world, dtype, largest_count) : 0;
}

void check_name(Communicator const& communicator, char const* call, std::string const& name) {
  constexpr std::size_t longest_name = sizeof(Record::communicator) - 1;
  ZEROTH_EXPECTS(!name.empty() && name.size() <= longest_name,
                 fmt::format("{} of communicator '{}': the new name '{}' has {} characters; allowed are 1 to {}", call,
                             communicator.name(), escaped(name), name.size(), longest_name));
  ZEROTH_EXPECTS(escaped(name) == name,
                 fmt::format("{} of communicator '{}': the new name '{}' appears in messages; allowed: UTF-8 without "
                             "control characters and backslashes",
                             call, communicator.name(), escaped(name)));
}

void Communicator::submit(device::Stream& stream, Label const& label, std::span<Collective const> collectives) {
  for (auto const& each : collectives) {
    Contract{*this, label, each}.check();
  }
  check_self_messages(*this, label, collectives);
  do_submit(stream, label, collectives);
}

void Communicator::all_reduce(device::Stream& stream, Label const& label, void const* input, void* output,
                              std::int64_t count, Dtype dtype, Reduce reduce, double factor) {
  Collective one{Operation::all_reduce, input, output, count, dtype, 0};
  one.reduce = reduce;
  one.factor = factor;
  submit(stream, label, {&one, 1});
}

void Communicator::all_gather(device::Stream& stream, Label const& label, void const* input, void* output,
                              std::int64_t count, Dtype dtype) {
  Collective const one{Operation::all_gather, input, output, count, dtype, 0};
  submit(stream, label, {&one, 1});
}

void Communicator::reduce_scatter(device::Stream& stream, Label const& label, void const* input, void* output,
                                  std::int64_t count, Dtype dtype, Reduce reduce, double factor) {
  Collective one{Operation::reduce_scatter, input, output, count, dtype, 0};
  one.reduce = reduce;
  one.factor = factor;
  submit(stream, label, {&one, 1});
}

void Communicator::broadcast(device::Stream& stream, Label const& label, void const* input, void* output,
                             std::int64_t count, Dtype dtype, int root) {
  Collective const one{Operation::broadcast, input, output, count, dtype, root};
  submit(stream, label, {&one, 1});
}

void Communicator::reduce(device::Stream& stream, Label const& label, void const* input, void* output,
                          std::int64_t count, Dtype dtype, int root, Reduce reduce, double factor) {
  Collective one{Operation::reduce, input, output, count, dtype, root};
  one.reduce = reduce;
  one.factor = factor;
  submit(stream, label, {&one, 1});
}

void Communicator::gather(device::Stream& stream, Label const& label, void const* input, void* output,
                          std::int64_t count, Dtype dtype, int root) {
  Collective const one{Operation::gather, input, output, count, dtype, root};
  submit(stream, label, {&one, 1});
}

void Communicator::scatter(device::Stream& stream, Label const& label, void const* input, void* output,
                           std::int64_t count, Dtype dtype, int root) {
  Collective const one{Operation::scatter, input, output, count, dtype, root};
  submit(stream, label, {&one, 1});
}

void Communicator::all_to_all(device::Stream& stream, Label const& label, void const* input, void* output,
                              std::int64_t count, Dtype dtype) {
  Collective const one{Operation::all_to_all, input, output, count, dtype, 0};
  submit(stream, label, {&one, 1});
}

void Communicator::send(device::Stream& stream, Label const& label, void const* input, std::int64_t count, Dtype dtype,
                        int to) {
  Collective const one{Operation::send, input, nullptr, count, dtype, to};
  submit(stream, label, {&one, 1});
}

void Communicator::receive(device::Stream& stream, Label const& label, void* output, std::int64_t count, Dtype dtype,
                           int from) {
  Collective const one{Operation::receive, nullptr, output, count, dtype, from};
  submit(stream, label, {&one, 1});
}

void Communicator::barrier(device::Stream& stream, Label const& label) {
  Collective const one{};
  submit(stream, label, {&one, 1});
  stream.synchronize();
}

std::string Communicator::why_no_graphs() const {
  return fmt::format(
      "communicator '{}' is of the transport {}, whose ranks meet on the host; only those of nccl can be "
      "recorded",
      name(), name_of(transport()));
}

void Communicator::watch_graphs(device::Stream& stream, Label const& label, std::function<void()> const& launch) {
  if (auto const why = why_no_graphs(); !why.empty()) {
    throw ContractError{why};
  }
  do_watch_graphs(stream, label, launch);
}

void Communicator::do_watch_graphs(device::Stream& /*stream*/, Label const& /*label*/,
                                   std::function<void()> const& launch) {
  launch();
}

std::unique_ptr<Registration> Communicator::register_memory(device::Memory const& memory) {
  return memory.registrable() && memory.bytes() > 0 ? do_register(memory) : nullptr;
}

std::unique_ptr<Communicator> Communicator::split(int color, int key, std::string const& name) {
  check_name(*this, "split", name);
  return do_split(color, key, name);
}

}  // namespace zeroth::comm
