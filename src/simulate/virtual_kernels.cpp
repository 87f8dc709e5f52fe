// SPDX-License-Identifier: Apache-2.0
#include "simulate/virtual_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <variant>

#include "device/gpu_matrices.hpp"
#include "simulate/virtual_device.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/optim/muon.hpp"

namespace zeroth::simulate {
namespace {

/// Bytes that an update moves. Masters and states are read and written; LAMB only reads its states, and no gradient.
std::int64_t bytes_moved(optim::UpdateArgs const& args) noexcept {
  auto const states = optim::state_count(args.update->rule) * bytes_of(args.states_dtype);
  auto const average = args.average == nullptr ? std::int64_t{0} : 2 * bytes_of(Dtype::fp32);
  auto const rest =
      average + 2 * bytes_of(args.master_dtype) + (args.parameter != nullptr ? bytes_of(args.parameter_dtype) : 0);
  bool const only_reads = std::holds_alternative<optim::Lamb>(args.update->rule);
  return args.count * (rest + (only_reads ? states : 2 * states + bytes_of(args.gradient_dtype)));
}

}  // namespace

void VirtualKernels::move(device::Stream& stream, std::int64_t bytes) const {
  as_virtual(stream).compute(
      std::max(machine_.kernel_us, 1e6 * static_cast<double>(bytes) / machine_.memory_bytes_per_s));
}

void VirtualKernels::fill(device::Stream& stream, void* /*data*/, std::int64_t bytes, std::uint8_t /*value*/) {
  move(stream, bytes);
}

void VirtualKernels::copy(device::Stream& stream, void* destination, void const* source, std::int64_t bytes) {
  if (VirtualDevice::is_real(destination) && VirtualDevice::is_real(source)) {  // the numbers of a step
    std::memcpy(destination, source, static_cast<std::size_t>(bytes));
  }
  move(stream, 2 * bytes);
}

void VirtualKernels::convert(device::Stream& stream, void* /*destination*/, Dtype destination_dtype,
                             void const* /*source*/, Dtype source_dtype, std::int64_t count) {
  move(stream, count * (bytes_of(destination_dtype) + bytes_of(source_dtype)));
}

void VirtualKernels::reduce_epilogue(device::Stream& stream, device::ReduceEpilogue const& args) {
  bool const in_place = args.source == args.destination && args.source_dtype == args.destination_dtype;
  auto const copied = args.count * (bytes_of(args.source_dtype) + bytes_of(args.destination_dtype));
  auto const added = args.accumulate ? args.count * bytes_of(args.destination_dtype) : 0;
  // In place nothing moves, but elements are read for their squares.
  auto const squared = in_place && args.block_sums != nullptr ? args.sums_count * bytes_of(args.source_dtype) : 0;
  move(stream, (in_place ? 0 : copied) + added + squared);
}

void VirtualKernels::encode(device::Stream& stream, device::Encode const& args) {
  auto const arrays = (args.errors != nullptr ? 2 : 0) + (args.momentum != nullptr ? 1 : 0);
  auto const errors = arrays * args.count * bytes_of(Dtype::fp32);
  move(stream, args.count * bytes_of(args.dtype) + encoded_bytes(args.codec, args.dtype, args.count) + errors);
}

void VirtualKernels::quantise(device::Stream& stream, device::Quantise const& args) {
  move(stream, 2 * args.count * bytes_of(args.dtype));
}

void VirtualKernels::fold_received(device::Stream& stream, device::FoldReceived const& args) {
  auto const sent = args.ranks * encoded_bytes(args.codec, args.dtype, args.count);
  auto const sum = args.count * (args.sums != nullptr ? bytes_of(Dtype::fp32) : bytes_of(args.dtype));
  move(stream, sent + (args.accumulate ? 2 : 1) * sum);
}

void VirtualKernels::collect(device::Stream& stream, std::span<float const> block_sums, optim::ExactSum* sum) {
  if (VirtualDevice::is_real(sum)) {
    *sum = {};
  }
  move(stream, static_cast<std::int64_t>(block_sums.size_bytes()));
}

void VirtualKernels::add_loss(device::Stream& stream, optim::LossTerm const& /*term*/,
                              optim::StepSums* /*contribution*/) {
  move(stream, 0);
}

void VirtualKernels::advance(device::Stream& stream, optim::StepRules const& rules, optim::StepSums const* total,
                             optim::StepScalars* scalars) {
  optim::advance(rules, *total, *scalars);
  move(stream, 0);
}

void VirtualKernels::update(device::Stream& stream, optim::UpdateArgs const& args) { move(stream, bytes_moved(args)); }

void VirtualKernels::move_moments(device::Stream& stream, device::MoveMoments const& args) {
  auto const& update = args.update;
  move(stream, update.count * (bytes_of(update.master_dtype) + bytes_of(update.gradient_dtype) +
                               4 * bytes_of(update.states_dtype)));
}

void VirtualKernels::trust_ratios(device::Stream& stream, device::TrustRatios const& args) {
  move(stream, args.count * static_cast<std::int64_t>(sizeof(device::NormSums)));
}

void VirtualKernels::direction(device::Stream& stream, optim::DirectionArgs const& args) {
  move(stream, args.count * (bytes_of(args.gradient_dtype) + 2 * bytes_of(Dtype::fp32) + bytes_of(Dtype::bf16)));
}

void VirtualKernels::orthogonalise(device::Stream& stream, optim::OrthogonalArgs const& args) {
  auto const operations = machine_.host_bytes_per_s > 0
                              ? device::gpu_matrix_operations(*args.rule, args.rows, args.columns)
                              : optim::orthogonal_operations(*args.rule, args.rows, args.columns);
  as_virtual(stream).compute(
      std::max(machine_.kernel_us, 1e6 * operations / (machine_.peak(Dtype::bf16) * machine_.rates.math_efficiency)));
}

void VirtualKernels::update_on_host(device::Stream& stream, device::HostUpdate const& update) {
  if (machine_.host_thread_bytes_per_s == 0 || machine_.host_memory_bytes_per_s == 0) {
    throw ConfigError{fmt::format(
        "machine \"{}\" has no host_thread_bytes_per_s and host_memory_bytes_per_s, and in the stage file "
        "zeroth.offload_update is \"host\"; give the machine these keys, or set zeroth.offload_update to \"device\"",
        machine_.name)};
  }
  std::int64_t all = 0;
  std::int64_t of_one = 0;
  for (auto const& share : update.shares) {
    all += bytes_moved(share);
    of_one = std::max(of_one, bytes_moved(share));
  }
  as_virtual(stream).work_on_host(1e6 * std::max(static_cast<double>(of_one) / machine_.host_thread_bytes_per_s,
                                                 static_cast<double>(all) / machine_.host_memory_bytes_per_s));
}

}  // namespace zeroth::simulate
