/// The library's kernels as work of the streams of the CUDA runtime for tests: the CPU's functions, run when their
/// stream comes to them.
#include <vector>

#include "cuda/launch.hpp"
#include "device/element_loops.hpp"
#include "support/fake_cuda/fake_cuda.hpp"
#include "zeroth/device/rank_sum.hpp"

namespace zeroth::cuda {

using testing::fake_cuda::enqueue;
using testing::fake_cuda::reachable;

namespace {

/// As on a GPU: work that touches memory which is not there fails when it runs, here when it is enqueued.
template <class Work>
cudaError_t run(cudaStream_t stream, bool arguments_are_reachable, Work const& work) {
  return arguments_are_reachable ? enqueue(stream, work) : cudaErrorInvalidValue;
}

}  // namespace

cudaError_t convert(cudaStream_t stream, void* destination, Dtype destination_dtype, void const* source,
                    Dtype source_dtype, std::int64_t count) {
  return run(stream,
             reachable(stream, destination, count * bytes_of(destination_dtype)) &&
                 reachable(stream, source, count * bytes_of(source_dtype)),
             [=] { device::convert_elements(destination, destination_dtype, source, source_dtype, count); });
}

cudaError_t reduce_epilogue(cudaStream_t stream, device::ReduceEpilogue const& args) {
  return run(stream,
             reachable(stream, args.source, args.count * bytes_of(args.source_dtype)) &&
                 reachable(stream, args.destination, args.count * bytes_of(args.destination_dtype)),
             [args] { device::reduce_epilogue(args); });
}

cudaError_t collect(cudaStream_t stream, float const* block_sums, std::int64_t block_count, optim::StepSums const& host,
                    optim::StepSums* contribution) {
  return run(stream,
             reachable(stream, block_sums, block_count * bytes_of(Dtype::fp32)) &&
                 reachable(stream, contribution, sizeof *contribution),
             [=] {
               double total = 0;
               for (std::int64_t i = 0; i < block_count; ++i) {
                 total += static_cast<double>(block_sums[i]);
               }
               *contribution = host;
               contribution->sum_of_squares = total;
             });
}

cudaError_t advance(cudaStream_t stream, optim::StepRules const& rules, optim::StepSums const* total,
                    optim::StepScalars* scalars) {
  return run(stream, reachable(stream, total, sizeof *total) && reachable(stream, scalars, sizeof *scalars),
             [=] { optim::advance(rules, *total, *scalars); });
}

cudaError_t adamw(cudaStream_t stream, optim::AdamwArgs const& args) {
  auto const states = args.count * bytes_of(Dtype::fp32);
  bool const fine = reachable(stream, args.master, states) && reachable(stream, args.m, states) &&
                    reachable(stream, args.v, states) &&
                    reachable(stream, args.gradient, args.count * bytes_of(args.gradient_dtype)) &&
                    (args.parameter == nullptr ||
                     reachable(stream, args.parameter, args.count * bytes_of(args.parameter_dtype))) &&
                    reachable(stream, args.scalars, sizeof *args.scalars);
  return run(stream, fine, [args, segments = std::vector(args.segments.begin(), args.segments.end())] {
    auto mine = args;
    mine.segments = segments;
    optim::adamw(mine);
  });
}

cudaError_t rank_sum(cudaStream_t stream, RankSum const& args) {
  auto const begin = args.first * bytes_of(args.dtype);
  auto const bytes = args.count * bytes_of(args.dtype);
  bool fine = true;
  for (int i = 0; i < args.output_count; ++i) {
    fine = fine && reachable(stream, static_cast<std::byte const*>(args.outputs[i]) + begin, bytes);
  }
  for (int i = 0; i < args.input_count; ++i) {
    fine = fine && reachable(stream, static_cast<std::byte const*>(args.inputs[i]) + begin, bytes);
  }
  return run(stream, fine, [args] {
    device::rank_sum(args.outputs, args.output_count, args.inputs, args.input_count, args.dtype, args.first,
                     args.count);
  });
}

}  // namespace zeroth::cuda
