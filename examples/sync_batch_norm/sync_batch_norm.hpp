// SPDX-License-Identifier: Apache-2.0
/// BatchNorm over the batches of all ranks (Ioffe and Szegedy 2015), without scale and shift.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>
#include <zeroth/adapters/eigen.hpp>
#include <zeroth/zeroth.hpp>

/// Running statistics count every micro-step once, even if backward runs its forward again, and every step once, even
/// if it has several micro-steps.
class SyncBatchNorm {
 public:
  using Matrix = zeroth::Matrix<float>;
  using Sums = Eigen::Array<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Sums running;  ///< Mean and variance of each channel.

  /// Collective, as forward() and backward() are. The job must outlive it.
  SyncBatchNorm(zeroth::Job& job, std::int64_t channels, std::int64_t micro_steps)
      : running{Sums::Zero(2, channels)},
        collectives_{job, "batch norm"},
        seen_(static_cast<std::size_t>(micro_steps), Sums::Zero(3, channels)) {
    running.row(1).setOnes();
  }
  /// Normalises the channels of `x`, whose rows are this rank's samples.
  Matrix forward(Matrix const& x, std::int64_t micro_step) {
    auto& sums = seen_[static_cast<std::size_t>(micro_step)];  // a second forward replaces what the first has seen
    sums.row(0).setConstant(static_cast<double>(x.rows()));
    sums.row(1) = x.cast<double>().colwise().sum();
    sums.row(2) = x.cast<double>().array().square().colwise().sum();
    add_up(sums, "statistics");
    auto const moments = moments_of(sums);
    count_ = sums(0, 0);
    scale_ = (moments.row(1) + epsilon).rsqrt();
    return ((x.cast<double>().array().rowwise() - moments.row(0)).rowwise() * scale_.row(0)).cast<float>().matrix();
  }
  /// From the last forward's output and its gradient to the gradient of its input.
  Matrix backward(Matrix const& normal, Matrix const& d) {
    Sums const y = normal.cast<double>(), dy = d.cast<double>();
    Sums means(2, y.cols());
    means << dy.colwise().sum(), (dy * y).colwise().sum();
    add_up(means, "gradients");
    means /= count_;
    Sums const dx = (dy.rowwise() - means.row(0)) - y.rowwise() * means.row(1);
    return (dx.rowwise() * scale_.row(0)).cast<float>().matrix();
  }
  /// Adds what the step's micro-steps have seen to the running statistics. Call it once per step.
  void commit() {
    Sums all = seen_.front();
    for (std::size_t i = 1; i < seen_.size(); ++i) {
      all += seen_[i];
    }
    running += momentum * (moments_of(all) - running);
  }

 private:
  static constexpr double epsilon = 1e-5, momentum = 0.1;

  [[nodiscard]] static Sums moments_of(Sums const& sums) {
    Sums moments = sums.bottomRows(2).rowwise() / sums.row(0);
    moments.row(1) -= moments.row(0).square();
    return moments;
  }
  void add_up(Sums& sums, std::string_view what) {
    collectives_
        .start({.operation = zeroth::comm::Operation::all_reduce,
                .input = sums.data(),
                .output = sums.data(),
                .count = sums.size(),
                .dtype = zeroth::Dtype::fp64},
               what)
        .wait();
  }

  zeroth::Collectives collectives_;
  std::vector<Sums> seen_;  // by micro-step: count, sum and sum of squares of each channel
  Sums scale_;
  double count_ = 0;
};
