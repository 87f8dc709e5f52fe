// SPDX-License-Identifier: Apache-2.0
/// The arithmetic that the runtime enqueues on a stream. Every kernel gives the same bits on every device and
/// instruction set: element-wise IEEE operations without contraction, sums in a fixed order.
#pragma once
#include <cstdint>
#include <span>

#include "device/host_update.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/device/device.hpp"
#include "zeroth/optim/step_scalars.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::device {

/// Elements that one partial sum covers. Slices are cut at multiples of it, so that blocks are the same on any number
/// of ranks.
inline constexpr std::int64_t sum_block_count = 128;
/// Partial sums of `count` elements.
[[nodiscard]] constexpr std::int64_t sum_blocks(std::int64_t count) noexcept {
  return (count + sum_block_count - 1) / sum_block_count;
}

/// `destination[i] = source[i]`, or `+=` with `accumulate`; and the block sums of the squares of what
/// `destination[sums_begin, sums_begin + sums_count)` then holds.
/// The addition is in fp32 and is rounded once to the destination's dtype. In place (one address, one dtype, no
/// accumulate) nothing is copied.
struct ReduceEpilogue {
  void const* source = nullptr;           ///< [count]
  Dtype source_dtype = Dtype::fp32;       ///< A floating type.
  void* destination = nullptr;            ///< [count]
  Dtype destination_dtype = Dtype::fp32;  ///< A floating type.
  std::int64_t count = 0;                 ///< Elements.
  bool accumulate = false;                ///< Add to what is there.
  float* block_sums = nullptr;            ///< [sum_blocks(sums_count)], or null for none
  std::int64_t sums_begin = 0;            ///< First element of the destination that is squared and summed.
  std::int64_t sums_count = 0;            ///< How many are.
};

/// What the runtime runs on a device. Every call returns once enqueued on `stream`, which belongs to the same device;
/// pointers are to memory of the device or of its allocate_host(), and stay valid until the stream has passed. One
/// thread enqueues.
class Kernels {
 public:
  Kernels() = default;
  Kernels(Kernels const&) = delete;
  Kernels& operator=(Kernels const&) = delete;
  virtual ~Kernels() = default;
  /// 0xff in every byte is a NaN in every floating dtype: what poison is made of.
  virtual void fill(Stream& stream, void* data, std::int64_t bytes, std::uint8_t value) = 0;
  virtual void copy(Stream& stream, void* destination, void const* source, std::int64_t bytes) = 0;  ///< No overlap.
  /// `destination[i]` is `source[i]` rounded to nearest even; floating types. No overlap.
  virtual void convert(Stream& stream, void* destination, Dtype destination_dtype, void const* source,
                       Dtype source_dtype, std::int64_t count) = 0;
  /// See ReduceEpilogue.
  virtual void reduce_epilogue(Stream& stream, ReduceEpilogue const& args) = 0;
  /// `*sum` is what the block sums come to, exactly. They are not negative.
  virtual void collect(Stream& stream, std::span<float const> block_sums, optim::ExactSum* sum) = 0;
  /// Adds `term.weight` times the mean that is there when the stream comes to it to `contribution->loss`.
  virtual void add_loss(Stream& stream, optim::LossTerm const& term, optim::StepSums* contribution) = 0;
  /// optim::advance on the device: the one place that decides on an update.
  virtual void advance(Stream& stream, optim::StepRules const& rules, optim::StepSums const* total,
                       optim::StepScalars* scalars) = 0;
  /// Whether update() can: a rule of the program's own is code for the CPU.
  [[nodiscard]] virtual bool runs(optim::Rule const& rule) const = 0;
  /// `args.update` and `args.segments` are memory of the host; `update` stays until the stream has passed. The dtypes
  /// are those that a config can ask for: parameters beside masters are bf16 or fp16, gradients of masters of bf16 are
  /// bf16.
  virtual void update(Stream& stream, optim::UpdateArgs const& args) = 0;
  /// Likewise by threads of the host, beside the caller's: update_whole() of each share. `update`, and all that it
  /// names, are memory of the host, and stay until the stream has passed. The rule is none of the program's own.
  virtual void update_on_host(Stream& stream, HostUpdate const& update) = 0;
};

}  // namespace zeroth::device
