// SPDX-License-Identifier: Apache-2.0
/// Requirements on every communicator, as programs that are independent of the backend.
///
/// A case is one program that all ranks run at the same time. It checks its own rank against closed-form values and
/// returns a description of what is wrong, or an empty string. So it runs unchanged as a thread among threads and as a
/// process under mpirun. The caller asserts on the main thread:
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

/// Posts a case's own work, which accesses no memory of collectives, to a stream.
using Post = std::function<void(device::Stream&, device::Task const&)>;
inline void post_on_cpu(device::Stream& stream, device::Task const& task) { device::as_cpu(stream).post(task); }

/// The arguments of a case: a communicator of all ranks with staging for `largest_count` elements of fp64, a device
/// that belongs to the calling thread, and memory on it.
struct Rank {
  Communicator& communicator;
  device::Device& device;
  Post post = post_on_cpu;
  std::shared_ptr<Workspace> memory = std::make_shared<Workspace>(device);
  bool records_starts = true;  ///< False for NCCL, which reports the start of an operation only after its end.

  template <class T>
  [[nodiscard]] Buffer<T> buffer(std::vector<T> const& values) const {
    return {*memory, values};
  }
};
inline constexpr std::int64_t largest_count = 1 << 16;

struct Case {
  std::string name;
  std::function<std::string(Rank&)> run;
  /// Whether ranks submit to two communicators in opposite order. Impossible if ranks meet on the host, or if one of
  /// NCCL's kernels could keep another one from starting.
  bool in_opposite_order = false;
  /// Whether sums must have the bits of rank order, which NCCL does not promise.
  bool in_rank_order = false;
};

/// The problem that the case found, or the exception that it threw.
[[nodiscard]] std::string problem_of(Case const& each, Rank& rank) noexcept;

/// The problems of these cases, one after another, each with the case's name; empty if there are none.
[[nodiscard]] std::string problems_of(std::vector<Case> const& cases, Rank& rank);

/// All may run one after another on one communicator, at any world size.
[[nodiscard]] std::vector<Case> conformance_cases();

/// Each case ends the job, so it needs a communicator of a separate job, and at least two ranks. Backends check
/// transactions (CommOptions::check) when these run.
[[nodiscard]] std::vector<Case> fault_cases();

/// More than 2^31 elements: needs 5 GiB of memory at two ranks.
[[nodiscard]] std::vector<Case> large_cases();

}  // namespace zeroth::comm::conformance
