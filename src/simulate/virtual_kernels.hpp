// SPDX-License-Identifier: Apache-2.0
/// The cost of kernels: the bytes that they read and write. Only the few numbers of a step are computed.
#pragma once
#include "device/kernels.hpp"
#include "zeroth/simulate/machine.hpp"

namespace zeroth::simulate {

class VirtualKernels final : public device::Kernels {
 public:
  explicit VirtualKernels(Machine const& machine) noexcept : machine_{machine} {}
  void fill(device::Stream& stream, void* data, std::int64_t bytes, std::uint8_t value) override;
  void copy(device::Stream& stream, void* destination, void const* source, std::int64_t bytes) override;
  void convert(device::Stream& stream, void* destination, Dtype destination_dtype, void const* source,
               Dtype source_dtype, std::int64_t count) override;
  void reduce_epilogue(device::Stream& stream, device::ReduceEpilogue const& args) override;
  void encode(device::Stream& stream, device::Encode const& args) override;
  void quantise(device::Stream& stream, device::Quantise const& args) override;
  void fold_received(device::Stream& stream, device::FoldReceived const& args) override;
  void collect(device::Stream& stream, std::span<float const> block_sums, optim::ExactSum* sum) override;
  void add_loss(device::Stream& stream, optim::LossTerm const& term, optim::StepSums* contribution) override;
  void advance(device::Stream& stream, optim::StepRules const& rules, optim::StepSums const* total,
               optim::StepScalars* scalars) override;
  [[nodiscard]] bool runs(optim::Rule const& /*rule*/) const override { return true; }
  void update(device::Stream& stream, optim::UpdateArgs const& args) override;
  void move_moments(device::Stream& stream, device::MoveMoments const& args) override;
  void trust_ratios(device::Stream& stream, device::TrustRatios const& args) override;
  void direction(device::Stream& stream, optim::DirectionArgs const& args) override;
  void orthogonalise(device::Stream& stream, optim::OrthogonalArgs const& args) override;
  void update_on_host(device::Stream& stream, device::HostUpdate const& update) override;

 private:
  void move(device::Stream& stream, std::int64_t bytes) const;
  Machine const& machine_;
};

}  // namespace zeroth::simulate
