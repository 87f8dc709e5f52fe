// SPDX-License-Identifier: Apache-2.0
#include "support/emulated_launch.hpp"

#include <algorithm>
#include <typeinfo>
#include <vector>

#include "cuda/kernels/codec.hpp"
#include "cuda/kernels/moments.hpp"
#include "cuda/kernels/move.hpp"
#include "cuda/kernels/muon.hpp"
#include "cuda/kernels/rank_fold.hpp"
#include "cuda/kernels/reduce_epilogue.hpp"
#include "cuda/kernels/step.hpp"
#include "cuda/kernels/update.hpp"
#include "device/cuda_launch.hpp"

namespace zeroth {
namespace testing {
namespace {

/// Replaces OnStream of cuda/gpu_block.hpp. Copies the body at the launch, like a kernel's arguments.
struct OnEmulator {
  cudaStream_t stream;

  template <class Body>
  [[nodiscard]] cudaError_t operator()(Body const& body, std::int64_t blocks) const {
    return enqueue(stream, typeid(Body), [body, blocks, how = emulation()] { emulate(body, blocks, how); });
  }
};

/// A kernel's memory argument; may be null.
struct Given {
  void const* data;
  std::int64_t bytes;
};

/// Returns an error if the GPU of `stream` cannot access all of `all`. On a GPU the kernel would fail, and all later
/// work.
cudaError_t expect_reached(cudaStream_t stream, std::vector<Given> const& all) {
  bool const reached = std::ranges::all_of(all, [&](Given const& each) {
    return each.data == nullptr || each.bytes == 0 || reaches(stream, each.data, each.bytes);
  });
  return reached ? cudaSuccess : cudaErrorInvalidValue;
}

/// Calls `launch()` if the GPU can access all of `all`.
template <class Launch>
cudaError_t launch_on(cudaStream_t stream, std::vector<Given> const& all, Launch const& launch) {
  auto const result = expect_reached(stream, all);
  return result == cudaSuccess ? launch(OnEmulator{stream}) : result;
}

}  // namespace

Emulation& emulation() {
  static Emulation how;
  return how;
}

}  // namespace testing

namespace cuda {

using testing::launch_on;

cudaError_t convert(cudaStream_t stream, void* destination, Dtype destination_dtype, void const* source,
                    Dtype source_dtype, std::int64_t count) {
  return launch_on(
      stream, {{destination, count * bytes_of(destination_dtype)}, {source, count * bytes_of(source_dtype)}},
      [&](auto const& on) { return launch_convert(on, destination, destination_dtype, source, source_dtype, count); });
}

cudaError_t reduce_epilogue(cudaStream_t stream, device::ReduceEpilogue const& args) {
  return launch_on(stream,
                   {{args.source, args.count * bytes_of(args.source_dtype)},
                    {args.destination, args.count * bytes_of(args.destination_dtype)},
                    {args.block_sums, device::sum_blocks(args.sums_count) * std::int64_t{sizeof(float)}}},
                   [&](auto const& on) { return launch_reduce_epilogue(on, args); });
}

cudaError_t encode(cudaStream_t stream, device::Encode const& args) {
  return launch_on(stream,
                   {{args.source, args.count * bytes_of(args.dtype)},
                    {args.destination, encoded_bytes(args.codec, args.dtype, args.count)},
                    {args.errors, args.count * std::int64_t{sizeof(float)}}},
                   [&](auto const& on) { return launch_encode(on, args); });
}

cudaError_t quantise(cudaStream_t stream, device::Quantise const& args) {
  return launch_on(stream, {{args.values, args.count * bytes_of(args.dtype)}},
                   [&](auto const& on) { return launch_quantise(on, args); });
}

cudaError_t fold_received(cudaStream_t stream, device::FoldReceived const& args) {
  return launch_on(stream,
                   {{args.received, args.ranks * encoded_bytes(args.codec, args.dtype, args.count)},
                    {args.output, args.count * bytes_of(args.dtype)},
                    {args.sums, args.count * std::int64_t{sizeof(float)}}},
                   [&](auto const& on) { return launch_fold_received(on, args); });
}

cudaError_t collect(cudaStream_t stream, float const* block_sums, std::int64_t block_count, optim::ExactSum* sum) {
  return launch_on(stream, {{block_sums, block_count * std::int64_t{sizeof(float)}}, {sum, sizeof(*sum)}},
                   [&](auto const& on) {
                     return launch_collect(on, {block_sums, block_count, sum});
                   });
}

cudaError_t add_loss(cudaStream_t stream, optim::LossTerm const& term, optim::StepSums* contribution) {
  return launch_on(stream, {{term.mean, sizeof(*term.mean)}, {contribution, sizeof(*contribution)}},
                   [&](auto const& on) {
                     return launch_add_loss(on, {term, contribution});
                   });
}

cudaError_t advance(cudaStream_t stream, optim::StepRules const& rules, optim::StepSums const* total,
                    optim::StepScalars* scalars) {
  return launch_on(stream, {{total, sizeof(*total)}, {scalars, sizeof(*scalars)}}, [&](auto const& on) {
    return launch_advance(on, {rules, total, scalars});
  });
}

namespace {

std::vector<testing::Given> given_to(optim::UpdateArgs const& args) {
  std::vector<testing::Given> given{{args.master, args.count * bytes_of(args.master_dtype)},
                                    {args.gradient, args.count * bytes_of(args.gradient_dtype)},
                                    {args.parameter, args.count * bytes_of(args.parameter_dtype)},
                                    {args.scalars, sizeof(*args.scalars)}};
  for (int k = 0; k < optim::state_count(args.update->rule); ++k) {
    given.push_back({args.states[static_cast<std::size_t>(k)], args.count * bytes_of(args.states_dtype)});
  }
  for (auto const& segment : args.segments) {
    given.push_back({segment.trust_ratio, sizeof(float)});
  }
  return given;
}

}  // namespace

cudaError_t update(cudaStream_t stream, optim::UpdateArgs const& args) {
  return launch_on(stream, given_to(args), [&](auto const& on) {
    return with_rule(args, [&](auto const& rule) { return launch_rule(on, args, rule); });
  });
}

cudaError_t move_moments(cudaStream_t stream, device::MoveMoments const& args) {
  auto given = given_to(args.update);
  auto const bytes = device::sum_blocks(args.update.count) * std::int64_t{sizeof(float)};
  given.push_back({args.weight_squares, bytes});
  given.push_back({args.direction_squares, bytes});
  return launch_on(stream, given, [&](auto const& on) { return launch_move_moments(on, args); });
}

cudaError_t trust_ratios(cudaStream_t stream, device::TrustRatios const& args) {
  return launch_on(stream,
                   {{args.scalars, sizeof(*args.scalars)},
                    {args.sums, args.count * std::int64_t{sizeof(*args.sums)}},
                    {args.ratios, args.count * std::int64_t{sizeof(float)}}},
                   [&](auto const& on) { return launch_trust_ratios(on, args); });
}

cudaError_t direction(cudaStream_t stream, optim::DirectionArgs const& args) {
  return launch_on(stream,
                   {{args.gradient, args.count * bytes_of(args.gradient_dtype)},
                    {args.momentum, args.count * std::int64_t{sizeof(float)}},
                    {args.direction, args.count * std::int64_t{sizeof(bf16)}},
                    {args.scalars, sizeof(*args.scalars)}},
                   [&](auto const& on) { return launch_direction(on, args); });
}

cudaError_t normalise(cudaStream_t stream, Normalise const& args) {
  auto const bytes = args.count * std::int64_t{sizeof(bf16)};
  return launch_on(stream,
                   {{args.matrix, bytes},
                    {args.squares, sizeof(*args.squares)},
                    {args.result, bytes},
                    {args.scalars, sizeof(*args.scalars)}},
                   [&](auto const& on) { return launch_normalise(on, args); });
}

cudaError_t rank_fold(cudaStream_t stream, RankFold const& args) {
  std::vector<testing::Given> given;
  auto const add = [&](void const* data) {
    auto const bytes = bytes_of(args.dtype);
    given.push_back({static_cast<std::byte const*>(data) + args.first * bytes, args.count * bytes});
  };
  std::for_each_n(args.inputs, args.input_count, add);
  std::for_each_n(args.outputs, args.output_count, add);
  if (args.sums != nullptr) {
    given.push_back({args.sums + args.first, args.count * std::int64_t{sizeof(float)}});
  }
  return launch_on(stream, given, [&](auto const& on) { return launch_rank_fold(on, args); });
}

}  // namespace cuda
}  // namespace zeroth
