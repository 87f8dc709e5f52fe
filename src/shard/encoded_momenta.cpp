// SPDX-License-Identifier: Apache-2.0
#include "shard/encoded_momenta.hpp"

#include <algorithm>
#include <variant>

namespace zeroth::shard {
namespace {

using comm::Operation;

struct Largest {
  std::int64_t whole = 0, slice = 0;
};

Largest largest_of(Layout const& layout) noexcept {
  Largest largest;
  for (auto const& flat : layout.flats()) {
    largest.whole = std::max(largest.whole, flat.trainable.padded_count);
    largest.slice = std::max(largest.slice, flat.trainable.shard_count);
  }
  return largest;
}

std::int64_t sign_bytes_of(std::int64_t count) noexcept { return encoded_bytes(Codec::sign, Dtype::fp32, count); }

}  // namespace

std::int64_t EncodedMomenta::scratch_bytes(Layout const& layout) noexcept {
  auto const [whole, slice] = largest_of(layout);
  return (whole + slice) * bytes_of(Dtype::fp32) + 2 * sign_bytes_of(whole);
}

EncodedMomenta::EncodedMomenta(Memory& memory)
    : memory_{&memory},
      carrier_{memory},
      rule_{&std::get<optim::OneBitAdam>(memory.request().settings.update.rule)},
      ranks_{memory.ranks(Lane::reduce).all()->world()},
      moments_{reinterpret_cast<float*>(memory.encoded_momenta())},
      slice_{moments_ + largest_of(memory.layout()).whole},
      sent_{reinterpret_cast<std::byte*>(slice_ + largest_of(memory.layout()).slice)},
      received_{sent_ + sign_bytes_of(largest_of(memory.layout()).whole)},
      encoded_{memory.context().device->make_event()},
      arrived_{memory.context().device->make_event()} {}

/// The sum over ranks is the new first moment, so each adds its part of the old one.
device::Encode EncodedMomenta::encoding_of_rank(FlatId flat) const {
  auto const at = memory_->addresses(flat);
  return {.codec = Codec::sign,
          .source = at.reduced,
          .dtype = at.reduced_dtype,
          .count = memory_->flat(flat).trainable.padded_count,
          .destination = sent_,
          .errors = at.errors,
          .momentum = reinterpret_cast<float const*>(at.states.front()),
          .momentum_factor = static_cast<float>(rule_->adam.beta1 / ranks_),
          .gradient_factor = static_cast<float>(1 - rule_->adam.beta1),
          .scalars = &memory_->step()->scalars};
}

void EncodedMomenta::exchange(FlatId flat, optim::UpdateArgs& args) {
  auto& kernels = memory_->kernels();
  auto& compute = memory_->compute();
  auto& stream = memory_->stream(Lane::reduce);
  auto const& part = memory_->flat(flat).trainable;
  comm::Collective const scatter{.operation = Operation::all_to_all,
                                 .input = sent_,
                                 .output = received_,
                                 .count = sign_bytes_of(part.shard_count),
                                 .dtype = Dtype::byte};
  auto gather = scatter;
  gather.operation = Operation::all_gather;
  kernels.encode(compute, encoding_of_rank(flat));
  compute.record(*encoded_);
  stream.wait(*encoded_);
  carrier_.submit(Lane::reduce, all_axes, {"momenta", "momenta"}, flat, {&scatter, 1});
  device::FoldReceived const of_slice{.codec = Codec::sign,
                                      .received = received_,
                                      .ranks = ranks_,
                                      .dtype = Dtype::fp32,
                                      .count = part.shard_count,
                                      .output = slice_};
  kernels.fold_received(stream, of_slice);
  kernels.encode(stream, {.codec = Codec::sign,
                          .source = slice_,
                          .dtype = Dtype::fp32,
                          .count = part.shard_count,
                          .destination = sent_,
                          .errors = memory_->addresses(flat).slice_errors,
                          .scalars = &memory_->step()->scalars});
  carrier_.submit(Lane::reduce, all_axes, {"momenta", "momenta"}, flat, {&gather, 1});
  auto of_all = of_slice;
  of_all.ranks = 1;
  of_all.count = part.padded_count;
  of_all.output = moments_;
  kernels.fold_received(stream, of_all);
  stream.record(*arrived_);
  compute.wait(*arrived_);
  args.gradient = moments_;
  args.gradient_dtype = Dtype::fp32;
}

}  // namespace zeroth::shard
