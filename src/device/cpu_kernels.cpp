// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_kernels.hpp"

#include <cstring>

#include "device/codec_loops.hpp"
#include "device/element_arithmetic.hpp"
#include "device/element_loops.hpp"
#include "device/kernel_arguments.hpp"
#include "device/moment_loops.hpp"
#include "device/rank_fold.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::device {

void CpuKernels::fill(Stream& stream, void* data, std::int64_t bytes, std::uint8_t value) {
  expect_bytes("fill", bytes);
  as_cpu(stream).post([=] { std::memset(data, value, static_cast<std::size_t>(bytes)); });
}

void CpuKernels::copy(Stream& stream, void* destination, void const* source, std::int64_t bytes) {
  expect_bytes("copy", bytes);
  as_cpu(stream).post([=] { copy_bytes(destination, source, bytes); });
}

void CpuKernels::convert(Stream& stream, void* destination, Dtype destination_dtype, void const* source,
                         Dtype source_dtype, std::int64_t count) {
  expect_convert(destination_dtype, source_dtype, count);
  as_cpu(stream).post([=] { convert_elements(destination, destination_dtype, source, source_dtype, count); });
}

void CpuKernels::reduce_epilogue(Stream& stream, ReduceEpilogue const& args) {
  expect_reduce_epilogue(args);
  as_cpu(stream).post([=] { device::reduce_epilogue(args); });
}

void CpuKernels::encode(Stream& stream, Encode const& args) {
  expect_encode(args);
  as_cpu(stream).post([=] { device::encode(args); });
}

void CpuKernels::quantise(Stream& stream, Quantise const& args) {
  expect_quantise(args);
  as_cpu(stream).post([=] { device::quantise(args); });
}

void CpuKernels::fold_received(Stream& stream, FoldReceived const& args) {
  expect_fold_received(args);
  as_cpu(stream).post([=] { device::fold_received(args); });
}

void CpuKernels::collect(Stream& stream, std::span<float const> block_sums, optim::ExactSum* sum) {
  as_cpu(stream).post([=] { *sum = total_of(block_sums.data(), std::ssize(block_sums)); });
}

void CpuKernels::add_loss(Stream& stream, optim::LossTerm const& term, optim::StepSums* contribution) {
  as_cpu(stream).post([=] { contribution->loss += term.weight * static_cast<double>(*term.mean); });
}

void CpuKernels::advance(Stream& stream, optim::StepRules const& rules, optim::StepSums const* total,
                         optim::StepScalars* scalars) {
  as_cpu(stream).post([=] { optim::advance(rules, *total, *scalars); });
}

void CpuKernels::update(Stream& stream, optim::UpdateArgs const& args) {
  expect_update(args);
  as_cpu(stream).post([=] { optim::update(args); });
}

void CpuKernels::move_moments(Stream& stream, MoveMoments const& args) {
  expect_move_moments(args);
  as_cpu(stream).post([=] { device::move_moments(args); });
}

void CpuKernels::trust_ratios(Stream& stream, TrustRatios const& args) {
  as_cpu(stream).post([=] { device::trust_ratios(args); });
}

void CpuKernels::direction(Stream& stream, optim::DirectionArgs const& args) {
  expect_direction(args);
  as_cpu(stream).post([=] { optim::direction(args); });
}

void CpuKernels::orthogonalise(Stream& stream, optim::OrthogonalArgs const& args) {
  expect_orthogonalise(args);
  as_cpu(stream).post([=] { optim::orthogonalise(args); });
}

void CpuKernels::update_on_host(Stream& stream, HostUpdate const& update) {
  expect_update(update);
  as_cpu(stream).post([&update] { update.team->run(update.shares); });
}

}  // namespace zeroth::device
