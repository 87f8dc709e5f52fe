// SPDX-License-Identifier: Apache-2.0
/// A machine as a few numbers, for simulations.
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

/// The cost of starting a collective and of each of its steps, and the fraction of link bandwidth that it reaches; NCCL
/// calls this a protocol. If there are several, each collective uses the fastest.
struct Protocol {
  double start_us = 0;            ///< Per collective.
  double step_us = 0;             ///< From a rank to its neighbour on the same node.
  double network_step_us = 0;     ///< From a rank to its neighbour on another node.
  double bandwidth_fraction = 1;  ///< Fraction of the links' bandwidth, 0 to 1.
  friend bool operator==(Protocol const&, Protocol const&) = default;
};

/// How well a kind of code uses a rank: code that calls a library for each operation, or code whose operations are
/// fused.
struct CodeRates {
  double math_efficiency = 1;       ///< Fraction of the peak that undisturbed matrix products reach.
  double attention_efficiency = 0;  ///< The same for attention's products, counting all of them; 0: math_efficiency.
  /// Passes of a unit's activations through device memory, in forward and backward together, per element of the compute
  /// dtype for each token and channel of attention; 0: none.
  double activation_passes = 0;
  /// Passes of a unit's matrices through device memory in a micro-step, per element of the compute dtype: products read
  /// them and write their gradients, gathers and reductions may copy both; 0: none.
  double parameter_passes = 0;
  /// Tensor ranks add up the gradient of a product's input while they compute that of its matrix.
  bool tensor_overlap = false;
  friend bool operator==(CodeRates const&, CodeRates const&) = default;
};

/// A cluster of equal ranks on equal nodes.
struct Machine {
  std::string name;                  ///< For messages and tables.
  double peak_flops_per_s = 0;       ///< Per rank, for products of 16-bit numbers. MFU is a fraction of it.
  double fp32_peak_flops_per_s = 0;  ///< The same for models that compute in fp32; 0: peak_flops_per_s.
  CodeRates rates = {};              ///< Rates of the code that runs.
  std::map<std::string, CodeRates, std::less<>> codes = {};  ///< Known kinds of code, by name.
  double memory_bytes_per_s = 0;                             ///< Device memory of one rank, reads and writes together.
  std::int64_t device_memory_bytes = 0;                      ///< Per rank; 0: unknown.
  int ranks_per_node = 1;                                    ///< Ranks of a full node.
  double node_bytes_per_s = 0;     ///< Bus bandwidth of a collective within a node, as nccl-tests defines it.
  double network_bytes_per_s = 0;  ///< All network links of one node together, in one direction.
  double disk_bytes_per_s = 0;     ///< All disks of one node, reads and writes together; 0: no disks.
  /// Between one rank and host memory, in each direction; 0: the device's memory is the host's.
  double host_bytes_per_s = 0;
  /// Reads and writes of one host thread in an update; 0: unknown, and hosts do not update.
  double host_thread_bytes_per_s = 0;
  double host_memory_bytes_per_s = 0;  ///< Limit on that for all threads of one rank.
  std::vector<Protocol> ring;          ///< For ring algorithms.
  std::vector<Protocol> tree;          ///< For tree algorithms; empty: not used.
  bool copy_engine_gathers = false;    ///< All-gathers within a node run on copy engines and slow nothing down.
  double communication_share = 0;      ///< Fraction of a rank's compute that a running collective takes, 0 to 1.
  /// Whether a collective starts only after the one that its rank issued before has started, on any communicator, as in
  /// NCCL.
  bool ordered_collectives = false;
  /// Fraction of its math that every rank loses to waiting for the slowest, each time that the number of nodes doubles.
  double straggler_per_doubling = 0;
  double enqueue_us = 0;  ///< Host time to enqueue anything.
  double kernel_us = 0;   ///< Shortest kernel.

  /// Operations per second of one rank that computes in `compute`.
  [[nodiscard]] double peak(Dtype compute) const noexcept {
    return compute == Dtype::fp32 && fp32_peak_flops_per_s > 0 ? fp32_peak_flops_per_s : peak_flops_per_s;
  }
  /// The machine with the rates of a kind of code. Throws ConfigError, listing the known kinds, for an unknown one.
  [[nodiscard]] ZEROTH_EXPORT Machine running(std::string_view code) const;
  friend bool operator==(Machine const&, Machine const&) = default;
};

/// Returns a preset: "8xA100" (one HDR adapter per GPU), "8xH100", "8xH200" (one NDR adapter per GPU). Otherwise reads
/// a JSON file whose keys are the members above, with those of Protocol inside; docs/simulate.md says which are
/// required. "//" comments are allowed. Throws ConfigError naming file, key, value and what is allowed.
[[nodiscard]] ZEROTH_EXPORT Machine machine_of(std::string_view preset_or_file);
/// The names of presets.
[[nodiscard]] ZEROTH_EXPORT std::vector<std::string> machine_presets();

}  // namespace zeroth::simulate
