// SPDX-License-Identifier: Apache-2.0
/// The kernels of the CUDA device: launches on a stream.
#pragma once
#include <memory>

#include "device/cuda_products.hpp"
#include "device/kernels.hpp"

namespace zeroth::device {

class CudaKernels final : public Kernels {
 public:
  void fill(Stream& stream, void* data, std::int64_t bytes, std::uint8_t value) override;
  void copy(Stream& stream, void* destination, void const* source, std::int64_t bytes) override;
  void convert(Stream& stream, void* destination, Dtype destination_dtype, void const* source, Dtype source_dtype,
               std::int64_t count) override;
  void reduce_epilogue(Stream& stream, ReduceEpilogue const& args) override;
  void encode(Stream& stream, Encode const& args) override;
  void fold_received(Stream& stream, FoldReceived const& args) override;
  void quantise(Stream& stream, Quantise const& args) override;
  void collect(Stream& stream, std::span<float const> block_sums, optim::ExactSum* sum) override;
  void add_loss(Stream& stream, optim::LossTerm const& term, optim::StepSums* contribution) override;
  void advance(Stream& stream, optim::StepRules const& rules, optim::StepSums const* total,
               optim::StepScalars* scalars) override;
  [[nodiscard]] bool runs(optim::Rule const& rule) const override;
  void update(Stream& stream, optim::UpdateArgs const& args) override;
  void move_moments(Stream& stream, MoveMoments const& args) override;
  void trust_ratios(Stream& stream, TrustRatios const& args) override;
  void direction(Stream& stream, optim::DirectionArgs const& args) override;
  void orthogonalise(Stream& stream, optim::OrthogonalArgs const& args) override;
  void prepare_orthogonalise(Stream& stream, optim::OrthogonalArgs const& args) override;
  void update_on_host(Stream& stream, HostUpdate const& update) override;

 private:
  std::unique_ptr<CudaProducts> products_;  ///< Null until it is needed.
};

}  // namespace zeroth::device
