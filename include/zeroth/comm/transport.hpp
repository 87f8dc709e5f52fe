// SPDX-License-Identifier: Apache-2.0
/// Transports: what moves bytes between ranks, and the properties of each that are known before it is used.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/core/reduce.hpp"

namespace zeroth::comm {

/// How bytes move: between threads of one process, by MPI, by NCCL, or by sockets and shared memory.
enum class Transport : std::uint8_t { local, mpi, nccl, tcp };

/// The kind of a transport's ranks, and their launcher: threads of one process, processes of mpirun, or processes of
/// any launcher.
enum class RankKind : std::uint8_t { threads, processes_of_mpi, processes };

/// A row of the table of transports.
struct TransportTraits {
  Transport transport;    ///< The transport that this row describes.
  std::string_view name;  ///< Its name on command lines, in files and in messages.
  RankKind ranks;         ///< The kind of its ranks.
  bool on_host;           ///< Whether it moves host memory.
  bool on_gpus;           ///< Whether it moves GPU memory.
  bool stages;            ///< Whether reductions need scratch memory: see staging_bytes().
  /// Whether it reduces in rank order, bitwise equal to `local`, and supports Collective::sums.
  bool reduces_in_order;
  Reduce last_operator;    ///< It supports this operator and all before it.
  std::string_view start;  ///< The remedy if no launcher started the process; empty if the transport needs none.
};

/// The properties of all transports. `launch()` has a second table: how to run a job over each.
inline constexpr std::array transport_table{
    TransportTraits{.transport = Transport::local,
                    .name = "local",
                    .ranks = RankKind::threads,
                    .on_host = true,
                    .on_gpus = true,
                    .stages = false,
                    .reduces_in_order = true,
                    .last_operator = Reduce::min_location,
                    .start = ""},
    TransportTraits{.transport = Transport::mpi,
                    .name = "mpi",
                    .ranks = RankKind::processes_of_mpi,
                    .on_host = true,
                    .on_gpus = false,
                    .stages = true,
                    .reduces_in_order = true,
                    .last_operator = Reduce::min_location,
                    .start = ""},
    TransportTraits{.transport = Transport::nccl,
                    .name = "nccl",
                    .ranks = RankKind::processes,
                    .on_host = false,
                    .on_gpus = true,
                    .stages = false,
                    .reduces_in_order = false,
                    .last_operator = Reduce::premul_sum,
                    .start = "start one process for each GPU with torchrun, mpirun or srun, or ask for local"},
    TransportTraits{.transport = Transport::tcp,
                    .name = "tcp",
                    .ranks = RankKind::processes,
                    .on_host = true,
                    .on_gpus = false,
                    .stages = true,
                    .reduces_in_order = true,
                    .last_operator = Reduce::min_location,
                    .start = "start processes with zeroth run --transport tcp, torchrun, srun or mpirun, or set RANK, "
                             "WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each, or ask for local"}};

/// The table's row for `transport`.
[[nodiscard]] constexpr TransportTraits const& traits_of(Transport transport) noexcept {
  return *std::find_if(transport_table.begin(), transport_table.end(),
                       [transport](TransportTraits const& row) { return row.transport == transport; });
}

/// The enumerator's name, for messages and records.
[[nodiscard]] ZEROTH_EXPORT std::string_view name_of(Transport transport) noexcept;
/// All transports' names ("local", "mpi", "nccl", "tcp"), whether or not the library was built with them.
[[nodiscard]] ZEROTH_EXPORT std::vector<std::string> transport_names();
/// The transport with this name. Throws ConfigError, listing the names, if there is none.
[[nodiscard]] ZEROTH_EXPORT Transport transport_named(std::string_view name);

/// Whether communicators of `transport` reduce elements of `dtype` by `reduce`. If not, submit() throws ContractError.
/// local, mpi and tcp support every operator on every dtype for which Reduce defines it, with bitwise equal results;
/// local on streams of GPUs supports sums, and maximum and premul_sum of floating-point numbers. NCCL supports sum,
/// product, maximum, minimum, average and premul_sum, with its own order, rounding and treatment of NaNs.
[[nodiscard]] constexpr bool supports(Transport transport, Reduce reduce, Dtype dtype) noexcept {
  return is_defined(reduce, dtype) && reduce <= traits_of(transport).last_operator;
}

/// Bytes of scratch memory that a backend needs to reduce without allocating. `largest_count` is the largest full input
/// of a rank, in elements of `dtype`. Zero for local and nccl.
[[nodiscard]] ZEROTH_EXPORT std::int64_t staging_bytes(Transport transport, int world, Dtype dtype,
                                                       std::int64_t largest_count);

}  // namespace zeroth::comm
