// SPDX-License-Identifier: Apache-2.0
#include "device/kernel_arguments.hpp"

#include <fmt/format.h>

#include <variant>

#include "core/dispatch.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

void expect_element(char const* call, Dtype dtype) {
  ZEROTH_EXPECTS(is_element(dtype),
                 fmt::format("{}: the dtype is {}; allowed: fp32, bf16, fp16", call, name_of(dtype)));
}

void expect_count(char const* call, char const* what, std::int64_t count) {
  ZEROTH_EXPECTS(count >= 0, fmt::format("{}: {} is {}, must not be negative", call, what, count));
}

void expect_blocks(char const* call, std::int64_t count) {
  expect_count(call, "count", count);
  ZEROTH_EXPECTS(count % codec_block_count == 0,
                 fmt::format("{}: count is {}, must be a multiple of {}", call, count, codec_block_count));
}

}  // namespace

void expect_bytes(char const* call, std::int64_t bytes) { expect_count(call, "bytes", bytes); }

void expect_convert(Dtype destination_dtype, Dtype source_dtype, std::int64_t count) {
  expect_count("convert", "count", count);
  expect_element("convert", destination_dtype);
  expect_element("convert", source_dtype);
}

void expect_reduce_epilogue(ReduceEpilogue const& args) {
  expect_count("reduce_epilogue", "count", args.count);
  expect_element("reduce_epilogue", args.destination_dtype);
  expect_element("reduce_epilogue", args.source_dtype);
  ZEROTH_EXPECTS(args.block_sums == nullptr ||
                     (args.sums_begin >= 0 && args.sums_count >= 0 && args.sums_begin + args.sums_count <= args.count),
                 fmt::format("reduce_epilogue: sums of [{}, {}) + {} are outside of the {} elements", args.sums_begin,
                             args.sums_begin, args.sums_count, args.count));
}

void expect_encode(Encode const& args) {
  expect_blocks("encode", args.count);
  expect_element("encode", args.dtype);
  ZEROTH_EXPECTS(!keeps_elements(args.codec), fmt::format("encode: codec {} encodes nothing", name_of(args.codec)));
  ZEROTH_EXPECTS(args.codec == Codec::int8 || args.scales == BlockScales::tight,
                 fmt::format("encode: codec {} has tight scales", name_of(args.codec)));
  ZEROTH_EXPECTS(
      (args.codec == Codec::sign) == (args.errors != nullptr) || args.count == 0,
      fmt::format("encode: codec {} {} errors", name_of(args.codec), args.codec == Codec::sign ? "needs" : "has no"));
}

void expect_quantise(Quantise const& args) {
  expect_blocks("quantise", args.count);
  ZEROTH_EXPECTS(args.dtype == Dtype::bf16 || args.dtype == Dtype::fp16,
                 fmt::format("quantise: the dtype is {}; allowed: bf16, fp16", name_of(args.dtype)));
}

void expect_fold_received(FoldReceived const& args) {
  expect_blocks("fold_received", args.count);
  expect_element("fold_received", args.dtype);
  ZEROTH_EXPECTS(args.ranks > 0 && args.codec != Codec::none,
                 fmt::format("fold_received: codec {} of {} ranks", name_of(args.codec), args.ranks));
}

void expect_update(HostUpdate const& update) {
  for (auto const& share : update.shares) {
    expect_update(share);
  }
}

void expect_update(optim::UpdateArgs const& args) {
  expect_count("update", "count", args.count);
  expect_element("update", args.gradient_dtype);
  expect_element("update", args.parameter_dtype);
  auto const is_state = [](Dtype dtype) { return dtype == Dtype::fp32 || dtype == Dtype::bf16; };
  ZEROTH_EXPECTS(is_state(args.master_dtype),
                 fmt::format("update: masters are {}, must be fp32 or bf16", name_of(args.master_dtype)));
  ZEROTH_EXPECTS(args.states_dtype == Dtype::fp32 || args.states_dtype == args.master_dtype,
                 fmt::format("update: states are {} beside masters of {}, must be fp32, or bf16 beside bf16",
                             name_of(args.states_dtype), name_of(args.master_dtype)));
  ZEROTH_EXPECTS(args.master_dtype == Dtype::fp32 || args.parameter == nullptr,
                 "update: masters of bf16 are the parameters, so `parameter` must be null");
  ZEROTH_EXPECTS(
      args.master_dtype == Dtype::fp32 || args.gradient_dtype == Dtype::bf16,
      fmt::format("update: gradients are {} beside masters of bf16, must be bf16", name_of(args.gradient_dtype)));
  ZEROTH_EXPECTS(!std::holds_alternative<optim::Muon>(args.update->rule) || args.gradient_dtype == Dtype::bf16,
                 fmt::format("update: the rule is Muon, whose gradients are directions in bf16, not {}",
                             name_of(args.gradient_dtype)));
  ZEROTH_EXPECTS(args.parameter == nullptr || args.parameter_dtype != Dtype::fp32,
                 "update: parameters of fp32 are the masters, so `parameter` must be null");
  std::int64_t end = 0;
  for (auto const& segment : args.segments) {
    ZEROTH_EXPECTS(end <= segment.begin && segment.begin <= segment.end && segment.end <= args.count,
                   fmt::format("update: segment [{}, {}) must ascend, start at {} or later, and end by {}",
                               segment.begin, segment.end, end, args.count));
    end = segment.end;
  }
}

void expect_move_moments(MoveMoments const& args) {
  expect_update(args.update);
  ZEROTH_EXPECTS(
      std::holds_alternative<optim::Lamb>(args.update.update->rule) && args.update.states_dtype == Dtype::fp32,
      "move_moments: the rule must be Lamb, with states in fp32");
  for (auto const& segment : args.update.segments) {
    ZEROTH_EXPECTS(segment.begin % sum_block_count == 0,
                   fmt::format("move_moments: segment [{}, {}) must begin at a multiple of {}", segment.begin,
                               segment.end, sum_block_count));
  }
}

void expect_direction(optim::DirectionArgs const& args) {
  expect_count("direction", "count", args.count);
  expect_element("direction", args.gradient_dtype);
}

void expect_orthogonalise(optim::OrthogonalArgs const& args) {
  ZEROTH_EXPECTS(args.rows > 0 && args.columns > 0,
                 fmt::format("orthogonalise: the matrix is {} x {}, must have an element", args.rows, args.columns));
}

}  // namespace zeroth::device
