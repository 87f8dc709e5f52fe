#include "device/cpu_kernels.hpp"

#include <fmt/format.h>

#include <cstring>

#include "core/dispatch.hpp"
#include "device/element_loops.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"
#include "zeroth/device/rank_sum.hpp"

namespace zeroth::device {
namespace {

void expect_element(char const* call, Dtype dtype) {
  ZEROTH_EXPECTS(is_element(dtype), fmt::format("{}: dtype {} is none of fp32, bf16, fp16", call, name_of(dtype)));
}

void expect_count(char const* call, char const* what, std::int64_t count) {
  ZEROTH_EXPECTS(count >= 0, fmt::format("{}: {} is {}, must not be negative", call, what, count));
}

void expect_segments(optim::AdamwArgs const& args) {
  std::int64_t end = 0;
  for (auto const& segment : args.segments) {
    ZEROTH_EXPECTS(end <= segment.begin && segment.begin <= segment.end && segment.end <= args.count,
                   fmt::format("adamw: segment [{}, {}) must ascend, start at {} or later, and end by {}",
                               segment.begin, segment.end, end, args.count));
    end = segment.end;
  }
}

}  // namespace

void CpuKernels::fill(Stream& stream, void* data, std::int64_t bytes, std::uint8_t value) {
  expect_count("fill", "bytes", bytes);
  as_cpu(stream).post([=] { std::memset(data, value, static_cast<std::size_t>(bytes)); });
}

void CpuKernels::copy(Stream& stream, void* destination, void const* source, std::int64_t bytes) {
  expect_count("copy", "bytes", bytes);
  as_cpu(stream).post([=] { copy_bytes(destination, source, bytes); });
}

void CpuKernels::convert(Stream& stream, void* destination, Dtype destination_dtype, void const* source,
                         Dtype source_dtype, std::int64_t count) {
  expect_count("convert", "count", count);
  expect_element("convert", destination_dtype);
  expect_element("convert", source_dtype);
  as_cpu(stream).post([=] { convert_elements(destination, destination_dtype, source, source_dtype, count); });
}

void CpuKernels::reduce_epilogue(Stream& stream, ReduceEpilogue const& args) {
  expect_count("reduce_epilogue", "count", args.count);
  expect_element("reduce_epilogue", args.destination_dtype);
  expect_element("reduce_epilogue", args.source_dtype);
  ZEROTH_EXPECTS(args.block_sums == nullptr ||
                     (args.sums_begin >= 0 && args.sums_count >= 0 && args.sums_begin + args.sums_count <= args.count),
                 fmt::format("reduce_epilogue: sums of [{}, {}) + {} are outside of the {} elements", args.sums_begin,
                             args.sums_begin, args.sums_count, args.count));
  as_cpu(stream).post([=] { device::reduce_epilogue(args); });
}

void CpuKernels::collect(Stream& stream, std::span<float const> block_sums, optim::StepSums const& host,
                         optim::StepSums* contribution) {
  as_cpu(stream).post([=] {
    *contribution = host;
    contribution->sum_of_squares = total_of(block_sums.data(), static_cast<std::int64_t>(block_sums.size()));
  });
}

void CpuKernels::advance(Stream& stream, optim::StepRules const& rules, optim::StepSums const* total,
                         optim::StepScalars* scalars) {
  as_cpu(stream).post([=] { optim::advance(rules, *total, *scalars); });
}

void CpuKernels::adamw(Stream& stream, optim::AdamwArgs const& args) {
  expect_count("adamw", "count", args.count);
  expect_element("adamw", args.gradient_dtype);
  expect_element("adamw", args.parameter_dtype);
  expect_segments(args);
  as_cpu(stream).post([=] { optim::adamw(args); });
}

}  // namespace zeroth::device
