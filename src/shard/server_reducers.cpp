// SPDX-License-Identifier: Apache-2.0
#include "shard/server_reducers.hpp"

#include <array>
#include <vector>

#include "shard/server_links.hpp"

namespace zeroth::shard {
namespace {

/// Nothing moves by routes: links take over.
Trip no_trip(Memory const& memory, FlatId flat) { return {&memory.routes(flat).sum, {}, {}}; }

/// Tells the servers which unit comes, and sends each one its slice.
class PushReducer final : public Reducer {
 public:
  explicit PushReducer(Memory& memory) : Reducer{memory} {
    for (auto const flat : memory.layout().flats().ids()) {
      auto const number = static_cast<std::int64_t>(index_of(flat));
      orders_.push_back({Order{Order::Kind::add, number, 0}, Order{Order::Kind::add, number, 1}});
    }
  }

 private:
  [[nodiscard]] Trip trip(Unreduced const& gradient) const override { return no_trip(memory(), gradient.flat); }
  void take_over(Unreduced const& gradient, bool complete) override {
    auto& links = *memory().context().servers;
    auto& stream = memory().stream(Lane::reduce);
    auto const& unit = memory().flat(gradient.flat);
    if (auto* const block_sums = memory().addresses(gradient.flat).block_sums; complete && block_sums != nullptr) {
      auto const count = unit.gradients().padded_count;  // this worker decides by its own gradients
      memory().kernels().reduce_epilogue(stream, {.source = gradient.data,
                                                  .source_dtype = gradient.dtype,
                                                  .destination = gradient.data,
                                                  .destination_dtype = gradient.dtype,
                                                  .count = count,
                                                  .block_sums = block_sums,
                                                  .sums_count = count});
    }
    links.tell_of_own(stream, orders_[gradient.flat][complete ? 1 : 0]);
    links.push(stream, unit.name, unit.gradients(), {gradient.data, 0, gradient.dtype});
    carrier().count("reduce", gradient.flat, comm::Operation::send,
                    unit.gradients().padded_count * bytes_of(gradient.dtype));
  }

  ById<FlatId, std::array<Order, 2>> orders_;  // not the last time, the last time
};

/// Receives a slice of every worker, and adds them in the order of workers, with the roundings of a reduce-scatter of
/// as many ranks.
class AddingReducer final : public Reducer {
 public:
  explicit AddingReducer(Memory& memory) : Reducer{memory} {}

 private:
  [[nodiscard]] Trip trip(Unreduced const& gradient) const override { return no_trip(memory(), gradient.flat); }
  /// `gradient.data` is memory for what is received, followed by the sum.
  void take_over(Unreduced const& gradient, bool complete) override {
    auto& links = *memory().context().servers;
    auto& stream = memory().stream(Lane::reduce);
    auto const& unit = memory().flat(gradient.flat);
    auto const count = unit.gradients().shard_count;
    links.add(stream, unit.name, unit.gradients(), gradient.data, gradient.dtype);
    carrier().count("add", gradient.flat, comm::Operation::receive, links.workers() * count * bytes_of(gradient.dtype));
    auto const read = read_by_optimizer(gradient.flat);
    bool const before = summed_before(gradient.flat);
    auto* const sums = folds(memory().request()) ? reinterpret_cast<float*>(read.data) : nullptr;
    auto* const sum = gradient.data + links.workers() * count * bytes_of(gradient.dtype);
    memory().kernels().fold_received(stream, {.codec = Codec::exact,
                                              .received = gradient.data,
                                              .ranks = links.workers(),
                                              .dtype = gradient.dtype,
                                              .count = count,
                                              .output = sums == nullptr ? sum : nullptr,
                                              .sums = sums,
                                              .accumulate = sums != nullptr && before});
    if (sums != nullptr && !complete) {
      return;
    }
    memory().kernels().reduce_epilogue(stream,
                                       {.source = sums == nullptr ? static_cast<void const*>(sum) : sums,
                                        .source_dtype = sums == nullptr ? gradient.dtype : Dtype::fp32,
                                        .destination = read.data,
                                        .destination_dtype = read.dtype,
                                        .count = count,
                                        .accumulate = sums == nullptr && before,
                                        .block_sums = complete ? memory().addresses(gradient.flat).block_sums : nullptr,
                                        .sums_count = complete ? count : 0});
  }
};

}  // namespace

std::unique_ptr<Reducer> make_reducer_of_servers(Memory& memory) {
  if (memory.context().servers->serves()) {
    return std::make_unique<AddingReducer>(memory);
  }
  return std::make_unique<PushReducer>(memory);
}

}  // namespace zeroth::shard
