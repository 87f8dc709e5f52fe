// SPDX-License-Identifier: Apache-2.0
/// The arithmetic that the runtime enqueues on a stream. Every kernel computes the same bits on every device and
/// instruction set: element-wise IEEE operations without contraction, and sums in a fixed order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "device/host_update.hpp"
#include "zeroth/core/codec.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/device/device.hpp"
#include "zeroth/optim/muon.hpp"
#include "zeroth/optim/step_scalars.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::device {

/// Elements per partial sum. Slices are cut at multiples of it, so that blocks are the same on any number of ranks.
inline constexpr std::int64_t sum_block_count = 128;
/// The number of partial sums of `count` elements.
[[nodiscard]] constexpr std::int64_t sum_blocks(std::int64_t count) noexcept {
  return (count + sum_block_count - 1) / sum_block_count;
}

/// Computes `destination[i] = source[i]`, or `+=` with `accumulate`, and the block sums of the squares of the resulting
/// `destination[sums_begin, sums_begin + sums_count)`.
/// The addition is in fp32, rounded once to the destination's dtype. In place (one address, one dtype, no accumulate)
/// nothing is copied.
struct ReduceEpilogue {
  void const* source = nullptr;           ///< [count]
  Dtype source_dtype = Dtype::fp32;       ///< A floating type.
  void* destination = nullptr;            ///< [count]
  Dtype destination_dtype = Dtype::fp32;  ///< A floating type.
  std::int64_t count = 0;                 ///< Elements.
  bool accumulate = false;                ///< Adds to the destination's values.
  float* block_sums = nullptr;            ///< [sum_blocks(sums_count)], or null for none
  std::int64_t sums_begin = 0;            ///< First element of the destination that is squared and summed.
  std::int64_t sums_count = 0;            ///< The number of elements that are squared and summed.
};

/// Encodes blocks: int8, int4 or sign.
struct Encode {
  Codec codec = Codec::int8;
  void const* source = nullptr;      ///< [count]
  Dtype dtype = Dtype::fp32;         ///< A floating type of at most 32 bits.
  std::int64_t count = 0;            ///< A multiple of codec_block_count.
  std::byte* destination = nullptr;  ///< [encoded_bytes()]
  BlockScales scales = BlockScales::tight;
  /// [count] errors of `sign`: the losses of earlier calls, which are added to the source and replaced by those of this
  /// call. Unchanged in blocks that are not finite. Null for other codecs.
  float* errors = nullptr;
  /// With `sign`, if not null: encodes the first moment that follows from the source instead of the source,
  /// `momentum_factor * momentum[i] + gradient_factor * (scalars->gradient_scale * source[i])`.
  float const* momentum = nullptr;  ///< [count]
  float momentum_factor = 0, gradient_factor = 0;
  /// Read when the kernel runs; null: the source is encoded as it is. With `skip` errors stay.
  optim::StepScalars const* scalars = nullptr;
};

/// Replaces elements by what `int8` with BlockScales::powers_of_two decodes them to. A second time changes nothing.
struct Quantise {
  void* values = nullptr;     ///< [count]
  Dtype dtype = Dtype::fp32;  ///< bf16 or fp16.
  std::int64_t count = 0;     ///< A multiple of codec_block_count.
};

/// Decodes what ranks have sent, and adds it up in their order: `output[i] = (rank 0 + rank 1) + ...` in fp32, rounded
/// once; or, with `sums`, the same unrounded there, with `accumulate` from its values on. For any codec but `none`.
struct FoldReceived {
  Codec codec = Codec::exact;
  std::byte const* received = nullptr;  ///< [ranks, encoded_bytes()]
  int ranks = 0;                        ///< At least 1.
  Dtype dtype = Dtype::fp32;            ///< The dtype of `output`, and of what `exact` has received.
  std::int64_t count = 0;               ///< A multiple of codec_block_count.
  void* output = nullptr;               ///< [count]; or null, with `sums`
  float* sums = nullptr;                ///< [count]; or null
  bool accumulate = false;
};

/// The first pass of LAMB over `update`'s segments, whose rule is optim::Lamb: moves both moments, and sums squares of
/// weights and of directions by blocks. Masters are only read, and parameters are not touched. Each segment is one
/// parameter's part, and begins at a multiple of sum_block_count.
struct MoveMoments {
  optim::UpdateArgs update;
  float* weight_squares = nullptr;     ///< [sum_blocks(update.count)]; blocks of padding alone are not written
  float* direction_squares = nullptr;  ///< The same.
};

/// The sums of squares of one parameter's weights, and of the direction of its step. Ranks add them up in fp64.
struct NormSums {
  optim::ExactSum weights, directions;
};

/// LAMB's trust ratios of `count` parameters. With `scalars->skip` none is written.
struct TrustRatios {
  optim::Lamb const* rule = nullptr;
  optim::StepScalars const* scalars = nullptr;
  NormSums const* sums = nullptr;  ///< [count]
  float* ratios = nullptr;         ///< [count]
  std::int64_t count = 0;
};

/// The runtime's kernels on a device. Every call returns once its work is enqueued on `stream`, which belongs to the
/// same device. Pointers are to memory of the device or of its allocate_host(), and stay valid until the stream has
/// passed. One thread enqueues.
class Kernels {
 public:
  Kernels() = default;
  Kernels(Kernels const&) = delete;
  Kernels& operator=(Kernels const&) = delete;
  virtual ~Kernels() = default;
  /// Poison uses 0xff: a NaN in every floating dtype if every byte has it.
  virtual void fill(Stream& stream, void* data, std::int64_t bytes, std::uint8_t value) = 0;
  virtual void copy(Stream& stream, void* destination, void const* source, std::int64_t bytes) = 0;  ///< No overlap.
  /// `destination[i]` is `source[i]` rounded to nearest even; floating types. No overlap.
  virtual void convert(Stream& stream, void* destination, Dtype destination_dtype, void const* source,
                       Dtype source_dtype, std::int64_t count) = 0;
  /// See ReduceEpilogue.
  virtual void reduce_epilogue(Stream& stream, ReduceEpilogue const& args) = 0;
  virtual void encode(Stream& stream, Encode const& args) = 0;
  virtual void fold_received(Stream& stream, FoldReceived const& args) = 0;
  virtual void quantise(Stream& stream, Quantise const& args) = 0;
  /// Stores the exact sum of the block sums, which are not negative, in `*sum`.
  virtual void collect(Stream& stream, std::span<float const> block_sums, optim::ExactSum* sum) = 0;
  /// Adds `term.weight` times the mean loss, read when the stream reaches this point, to `contribution->loss`.
  virtual void add_loss(Stream& stream, optim::LossTerm const& term, optim::StepSums* contribution) = 0;
  /// optim::advance on the device: the only place that decides on an update.
  virtual void advance(Stream& stream, optim::StepRules const& rules, optim::StepSums const* total,
                       optim::StepScalars* scalars) = 0;
  /// Whether all of `rule` runs here. A program's own rule is code for the CPU.
  [[nodiscard]] virtual bool runs(optim::Rule const& rule) const = 0;
  /// `args.update` and `args.segments` are host memory; `update` must stay valid until the stream has passed. Supports
  /// the dtypes that a config can ask for: parameters that are not masters are bf16 or fp16, and gradients of bf16
  /// masters are bf16.
  virtual void update(Stream& stream, optim::UpdateArgs const& args) = 0;
  /// See MoveMoments. `args.update` is as update() takes it; with `skip` nothing is written.
  virtual void move_moments(Stream& stream, MoveMoments const& args) = 0;
  virtual void trust_ratios(Stream& stream, TrustRatios const& args) = 0;
  /// optim::direction on the device.
  virtual void direction(Stream& stream, optim::DirectionArgs const& args) = 0;
  /// optim::orthogonalise on the device. On a GPU the products are cuBLASLt's, `args.workspace` has the pieces of
  /// gpu_matrix_workspace(), and a skipped step leaves zeros.
  virtual void orthogonalise(Stream& stream, optim::OrthogonalArgs const& args) = 0;
  /// Prepares orthogonalise() for matrices of this shape, whose first call would otherwise take long: on a GPU it loads
  /// cuBLASLt and its kernels, and throws SystemError if that fails. Changes the matrix and the workspace.
  virtual void prepare_orthogonalise(Stream& /*stream*/, optim::OrthogonalArgs const& /*args*/) {}
  /// Calls update_whole() on each share, on threads of the host other than the caller's. `update`, and all that it
  /// points to, is host memory and must stay valid until the stream has passed. The rule must not be a program's own.
  virtual void update_on_host(Stream& stream, HostUpdate const& update) = 0;
};

}  // namespace zeroth::device
