// SPDX-License-Identifier: Apache-2.0
#include "shard/reducer.hpp"

#include <algorithm>
#include <utility>

#include "shard/server_reducers.hpp"

namespace zeroth::shard {
namespace {

/// Sums in place in the dtype that travels, then adds the resulting sums to what the optimizer reads.
class InPlaceReducer final : public Reducer {
 public:
  explicit InPlaceReducer(Memory& memory) : Reducer{memory} {}

 private:
  [[nodiscard]] Trip trip(Unreduced const& gradient) const override {
    Elements const whole{gradient.data, 0, gradient.dtype};
    return {&memory().routes(gradient.flat).sum, whole, whole};
  }
  void take_over(Unreduced const& gradient, bool complete) override {
    auto const flat = gradient.flat;
    auto const summed = memory().routes(flat).sum.hops.back().to;
    auto const slice = memory().flat(flat).gradients().slice(memory().place());
    auto const read = read_by_optimizer(flat);
    device::ReduceEpilogue epilogue;
    epilogue.source = gradient.data + summed.begin * bytes_of(gradient.dtype);
    epilogue.source_dtype = gradient.dtype;
    epilogue.destination = read.at(summed);
    epilogue.destination_dtype = read.dtype;
    epilogue.count = summed.count();
    epilogue.accumulate = summed_before(flat);
    if (complete) {
      epilogue.block_sums = memory().addresses(flat).block_sums;
      epilogue.sums_begin = slice.begin - summed.begin;
      epilogue.sums_count = slice.count();
    }
    memory().kernels().reduce_epilogue(memory().stream(Lane::reduce), epilogue);
  }
};

/// Adds each rank's gradients, one rank after another, to the sum of this rank's slice. So micro-steps are accumulated
/// in their order in the global batch, on any number of ranks.
class FoldingReducer final : public Reducer {
 public:
  explicit FoldingReducer(Memory& memory) : Reducer{memory} {}

 private:
  [[nodiscard]] Trip trip(Unreduced const& gradient) const override {
    auto const flat = gradient.flat;
    return {&memory().routes(flat).sum, {gradient.data, 0, gradient.dtype}, {}, own_sums(flat), summed_before(flat)};
  }
  void take_over(Unreduced const& gradient, bool complete) override {
    auto* const block_sums = memory().addresses(gradient.flat).block_sums;
    if (!complete || block_sums == nullptr) {
      return;
    }
    auto const count = memory().flat(gradient.flat).gradients().shard_count;
    auto* const sums = own_sums(gradient.flat);
    memory().kernels().reduce_epilogue(memory().stream(Lane::reduce), {.source = sums,
                                                                       .source_dtype = Dtype::fp32,
                                                                       .destination = sums,
                                                                       .destination_dtype = Dtype::fp32,
                                                                       .count = count,
                                                                       .block_sums = block_sums,
                                                                       .sums_count = count});
  }

  /// The address of this rank's slice in the gradients that the optimizer will read.
  [[nodiscard]] float* own_sums(FlatId flat) const {
    auto const slice = memory().flat(flat).gradients().slice(memory().place());
    return reinterpret_cast<float*>(read_by_optimizer(flat).at(slice));
  }
};

}  // namespace

Reducer::Reducer(Memory& memory)
    : memory_{&memory}, carrier_{memory}, addends_{memory}, summed_before_(memory.flat_count(), 0) {
  trips_.reserve(memory.flat_count());
  over_tensor_.reserve(memory.flat_count());
  converted_.reserve(memory.flat_count());
}

std::int64_t Reducer::scratch_bytes(PlanRequest const& request) noexcept {
  auto const& precision = request.settings.precision;
  bool const converts = precision.reduce != (request.settings.sums_micro_steps ? Dtype::fp32 : precision.gradient);
  return converts && request.workers == 0 ? request.largest_bucket_count * bytes_of(precision.reduce) : 0;
}

void Reducer::reduce(std::span<Unreduced const> gradients, bool last) {
  if (before_errors_ && memory_->request().settings.reduce_codec == Codec::sign) {
    before_errors_();
  }
  std::byte* free = memory_->conversion();
  converted_.clear();
  for (auto each : gradients) {
    if (auto const dtype = memory_->precision(each.flat).reduce; each.dtype != dtype) {
      auto const count = memory_->flat(each.flat).gradients().padded_count;
      memory_->kernels().convert(memory_->stream(Lane::reduce), free, dtype, each.data, each.dtype, count);
      each = {each.flat, std::exchange(free, free + count * bytes_of(dtype)), dtype};
    }
    converted_.push_back(each);
  }
  if (frozen_) {
    std::ranges::for_each(converted_, [&](Unreduced const& each) { keep(each, last); });
  } else {
    sum(converted_, last);
    if (last) {
      share(converted_);
    }
  }
  for (auto const& each : converted_) {
    summed_before_[each.flat] = last ? 0 : 1;
  }
}

Elements Reducer::read_by_optimizer(FlatId flat) const noexcept {
  auto const at = memory_->addresses(flat);
  return {at.reduced, memory_->summed(flat).begin, at.reduced_dtype};
}

void Reducer::sum(std::span<Unreduced const> gradients, bool last) {
  trips_.clear();
  for (auto const& each : gradients) {
    trips_.push_back(trip(each));
    trips_.back().errors = memory_->addresses(each.flat).errors;
  }
  carrier_.run({"reduce", "backward"}, gradients.front().flat, trips_);
  for (auto const& each : gradients) {
    take_over(each, last && !is_partial(each.flat));
  }
  if (last) {
    sum_over_tensor(gradients);
  }
}

/// Without a sum over ranks: accumulates the whole gradient, and computes its block sums.
void Reducer::keep(Unreduced const& gradient, bool complete) {
  auto const count = memory_->flat(gradient.flat).gradients().padded_count;
  auto const read = read_by_optimizer(gradient.flat);
  memory_->kernels().reduce_epilogue(memory_->stream(Lane::reduce),
                                     {.source = gradient.data,
                                      .source_dtype = gradient.dtype,
                                      .destination = read.data,
                                      .destination_dtype = read.dtype,
                                      .count = count,
                                      .accumulate = summed_before(gradient.flat),
                                      .block_sums = complete ? memory_->addresses(gradient.flat).block_sums : nullptr,
                                      .sums_count = complete ? count : 0});
}

bool Reducer::is_partial(FlatId flat) const noexcept { return memory_->flat(flat).tensor_kind == TensorKind::partial; }

/// Sums each partial gradient over tensor ranks, after the sum over data-parallel ranks. Every stage uses this order,
/// and the elements that the first sum leaves on this rank, so all stages round alike.
void Reducer::sum_over_tensor(std::span<Unreduced const> gradients) {
  over_tensor_.clear();
  FlatId first{};
  for (auto const& each : gradients) {
    if (is_partial(each.flat)) {
      auto const read = read_by_optimizer(each.flat);
      auto const left = memory_->routes(each.flat).sum.hops.back().to;
      first = over_tensor_.empty() ? each.flat : first;
      addends_.read(each.flat, left, read.at(left), read.dtype);
      over_tensor_.push_back({.operation = comm::Operation::all_reduce,
                              .input = read.at(left),
                              .output = read.at(left),
                              .count = left.count(),
                              .dtype = read.dtype});
    }
  }
  if (over_tensor_.empty()) {
    return;
  }
  carrier_.submit_over_tensor({"add parts", "add parts"}, first, over_tensor_);
  for (auto const& each : gradients) {
    if (is_partial(each.flat)) {
      auto const read = read_by_optimizer(each.flat);
      auto const slice = memory_->flat(each.flat).gradients().slice(memory_->place());
      memory_->kernels().reduce_epilogue(memory_->stream(Lane::reduce),
                                         {.source = read.at(slice),
                                          .source_dtype = read.dtype,
                                          .destination = read.at(slice),
                                          .destination_dtype = read.dtype,
                                          .count = slice.count(),
                                          .block_sums = memory_->addresses(each.flat).block_sums,
                                          .sums_count = slice.count()});
    }
  }
}

/// If this rank's optimizer holds more elements than sums leave it, gets the others from the ranks that have them.
void Reducer::share(std::span<Unreduced const> gradients) {
  if (memory_->routes(gradients.front().flat).share.hops.empty()) {
    return;
  }
  trips_.clear();
  for (auto const& each : gradients) {
    auto const read = read_by_optimizer(each.flat);
    trips_.push_back({&memory_->routes(each.flat).share, read, read});
  }
  carrier_.run({"share", "share"}, gradients.front().flat, trips_);
}

std::unique_ptr<Reducer> make_reducer(Memory& memory) {
  if (memory.context().servers != nullptr) {
    return make_reducer_of_servers(memory);
  }
  if (folds(memory.request())) {
    return std::make_unique<FoldingReducer>(memory);
  }
  return std::make_unique<InPlaceReducer>(memory);
}

}  // namespace zeroth::shard
