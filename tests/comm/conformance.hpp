// SPDX-License-Identifier: Apache-2.0
/// What every communicator must do, as programs that know no backend.
///
/// A case is one program that all ranks run at the same time, as ranks do. It checks its own rank against closed-form
/// values and returns what is wrong in words, or nothing; so it runs unchanged as a thread among threads and as a
/// process under mpirun. Who runs it asserts on the main thread:
///
///   for (auto const& each : conformance_cases()) {
///     INFO(each.name);
///     CHECK(problem_of(each, rank) == "");  // CHECK: the ranks must stay together
///   }
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/buffer.hpp"
#include "zeroth/comm/communicator.hpp"
#include "zeroth/device/cpu.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::comm::conformance {

/// How a case has work of its own run on a stream, which touches no memory of collectives.
using Post = std::function<void(device::Stream&, device::Task const&)>;
inline void post_on_cpu(device::Stream& stream, device::Task const& task) { device::as_cpu(stream).post(task); }

/// What a case gets: a communicator of all ranks with staging for `largest_count` elements of fp64, a device that
/// belongs to the calling thread, and memory on it.
struct Rank {
  Communicator& communicator;
  device::Device& device;
  Post post = post_on_cpu;
  std::shared_ptr<Workspace> memory = std::make_shared<Workspace>(device);
  bool records_starts = true;  ///< NCCL tells that an operation has started only when it has finished.

  template <class T>
  [[nodiscard]] Buffer<T> buffer(std::vector<T> const& values) const {
    return {*memory, values};
  }
};
inline constexpr std::int64_t largest_count = 1 << 16;

struct Case {
  std::string name;
  std::function<std::string(Rank&)> run;
  /// Ranks submit to two communicators in opposite order: not where ranks meet on the host, or one of NCCL's kernels
  /// could keep another one from starting.
  bool in_opposite_order = false;
  /// Sums are compared with those in rank order, which NCCL does not promise.
  bool in_rank_order = false;
};

/// The case's own findings, or what it threw.
[[nodiscard]] std::string problem_of(Case const& each, Rank& rank) noexcept;

/// All may run one after another on one communicator, at any world size.
[[nodiscard]] std::vector<Case> conformance_cases();

/// Each ends the job: it needs a communicator of a job of its own, and at least two ranks. Backends check transactions
/// (CommOptions::check) when these run.
[[nodiscard]] std::vector<Case> fault_cases();

/// More than 2^31 elements: needs 5 GiB of memory at two ranks.
[[nodiscard]] std::vector<Case> large_cases();

}  // namespace zeroth::comm::conformance
