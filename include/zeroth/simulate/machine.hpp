// SPDX-License-Identifier: Apache-2.0
/// A machine as a few numbers: what a simulation needs to know of it.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"

namespace zeroth::simulate {

/// What starting a collective and each of its steps cost, and the share of the links' bandwidth that it reaches: NCCL
/// calls it a protocol. Of several the fastest is taken, collective by collective.
struct Protocol {
  double start_us = 0;            ///< Of a collective.
  double step_us = 0;             ///< From a rank to its neighbour on the same node.
  double network_step_us = 0;     ///< To a neighbour on another node.
  double bandwidth_fraction = 1;  ///< Of the links, 0 to 1.
  friend bool operator==(Protocol const&, Protocol const&) = default;
};

/// How well a kind of program uses a rank: one that calls a library for each operation, or one whose operations are
/// compiled or written together.
struct CodeRates {
  double math_efficiency = 1;       ///< Fraction of the peak that matrix products reach undisturbed.
  double attention_efficiency = 0;  ///< The same of attention's products, all of them counted; 0: as math_efficiency.
  /// How often the activations of a unit pass through the device's memory in forward and backward together, in units of
  /// one element of the compute dtype for each token and channel of attention; 0: never.
  double activation_passes = 0;
  /// How often the matrices of a unit do so in a micro-step, in units of one element of the compute dtype for each of
  /// theirs: products read them and write their gradients, gathers and reductions may copy both; 0: never.
  double parameter_passes = 0;
  /// Tensor ranks add up the gradient of a product's input while they compute that of its matrix.
  bool tensor_overlap = false;
  friend bool operator==(CodeRates const&, CodeRates const&) = default;
};

/// Equal ranks on equal nodes.
struct Machine {
  std::string name;                  ///< For messages and tables.
  double peak_flops_per_s = 0;       ///< Of one rank, multiplying 16-bit numbers: what MFU is a fraction of.
  double fp32_peak_flops_per_s = 0;  ///< The same where the model computes in fp32; 0: as above.
  CodeRates rates = {};              ///< Of the code that runs.
  std::map<std::string, CodeRates, std::less<>> codes = {};  ///< By name, kinds of code that the machine knows.
  double memory_bytes_per_s = 0;         ///< Of one rank's device memory, read and written together.
  std::int64_t device_memory_bytes = 0;  ///< Of one rank; 0 is unknown.
  int ranks_per_node = 1;                ///< What a node holds when it is full.
  double node_bytes_per_s = 0;           ///< Bus bandwidth of a collective within a node, as nccl-tests defines it.
  double network_bytes_per_s = 0;        ///< Of all network links of one node together, in one direction.
  double disk_bytes_per_s = 0;           ///< Of all disks of one node, read and written together; 0: there are none.
  /// Of one rank, from and to the host's memory, each way by itself; 0: its device's memory is the host's.
  double host_bytes_per_s = 0;
  /// What one thread of a host reads and writes together in an update; 0: unknown, and no host updates.
  double host_thread_bytes_per_s = 0;
  double host_memory_bytes_per_s = 0;  ///< Likewise, all threads of one rank together, at most.
  std::vector<Protocol> ring;          ///< Of ring algorithms.
  std::vector<Protocol> tree;          ///< Of tree algorithms; empty: none are used.
  bool copy_engine_gathers = false;    ///< All-gathers within a node run on copy engines and slow nothing down.
  double communication_share = 0;      ///< Of a rank's compute that a collective takes while it runs: 0 to 1.
  /// A collective starts only after the one that its rank issued before it has started, on whatever communicator: NCCL.
  bool ordered_collectives = false;
  /// Part of its math that every rank loses, waiting for the slowest, each time that the number of nodes doubles.
  double straggler_per_doubling = 0;
  double enqueue_us = 0;  ///< What enqueueing anything costs the host.
  double kernel_us = 0;   ///< Shortest time of a kernel.

  /// Operations per second of one rank that computes in `compute`.
  [[nodiscard]] double peak(Dtype compute) const noexcept {
    return compute == Dtype::fp32 && fp32_peak_flops_per_s > 0 ? fp32_peak_flops_per_s : peak_flops_per_s;
  }
  /// The machine with the rates of a kind of code. Throws ConfigError that names the kinds which it knows.
  [[nodiscard]] ZEROTH_EXPORT Machine running(std::string_view code) const;
  friend bool operator==(Machine const&, Machine const&) = default;
};

/// Presets: "8xA100" (one HDR adapter per GPU), "8xH100", "8xH200" (one NDR adapter per GPU). Otherwise a JSON file
/// with the fields above as keys, those of Protocol within; docs/simulate.md says which are required. "//" comments are
/// allowed. Throws ConfigError naming file, key, value and what is allowed.
[[nodiscard]] ZEROTH_EXPORT Machine machine_of(std::string_view preset_or_file);
/// Names that machine_of() takes.
[[nodiscard]] ZEROTH_EXPORT std::vector<std::string> machine_presets();

}  // namespace zeroth::simulate
