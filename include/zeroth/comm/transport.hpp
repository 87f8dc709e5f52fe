// SPDX-License-Identifier: Apache-2.0
/// Transports: what moves bytes between ranks, and what is known of each before a rank uses it.
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

/// How bytes move: between threads of this process, by MPI, by NCCL, by sockets and each other's memory.
enum class Transport : std::uint8_t { local, mpi, nccl, tcp };

/// What the ranks of a transport are, and who starts them: one process, mpirun, or any launcher.
enum class RankKind : std::uint8_t { threads, processes_of_mpi, processes };

/// A row of the table of transports.
struct TransportTraits {
  Transport transport;     ///< Whose row this is.
  std::string_view name;   ///< On command lines, in files and in messages.
  RankKind ranks;          ///< What its ranks are.
  bool on_host;            ///< Does it move memory of the host?
  bool on_gpus;            ///< Does it move memory of GPUs?
  bool stages;             ///< Reductions need memory of their own: staging_bytes().
  bool reduces_in_order;   ///< Of ranks, with the bits of `local`, into Collective::sums too.
  Reduce last_operator;    ///< It has this one, and all before it.
  std::string_view start;  ///< What to do where no launcher started the process. Empty: it needs none.
};

/// All that is known of transports as such. `launch()` has a second table: how to run a job over each.
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
                    .last_operator = Reduce::average,
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

/// The row of `transport`, which is one of them.
[[nodiscard]] constexpr TransportTraits const& traits_of(Transport transport) noexcept {
  return *std::find_if(transport_table.begin(), transport_table.end(),
                       [transport](TransportTraits const& row) { return row.transport == transport; });
}

/// As it is written here, for messages and records.
[[nodiscard]] ZEROTH_EXPORT std::string_view name_of(Transport transport) noexcept;
/// "local", "mpi", "nccl", "tcp": of all transports, whichever of them the library was built with.
[[nodiscard]] ZEROTH_EXPORT std::vector<std::string> transport_names();
/// The transport of that name. Throws ConfigError, which lists the names, for another.
[[nodiscard]] ZEROTH_EXPORT Transport transport_named(std::string_view name);

/// Does a communicator of `transport` reduce elements of `dtype` by `reduce`? If not, submit() refuses it with
/// ContractError. local, mpi and tcp have every operator on every dtype that it is defined for, see Reduce, with the
/// same bits; local on streams of GPUs has sums only. NCCL has sum, product, maximum, minimum and average; the order
/// and the roundings, and what becomes of NaNs, are NCCL's.
[[nodiscard]] constexpr bool supports(Transport transport, Reduce reduce, Dtype dtype) noexcept {
  return is_defined(reduce, dtype) && reduce <= traits_of(transport).last_operator;
}

/// What a backend needs of scratch memory to run reductions of at most `largest_count` elements (of `dtype`, per rank's
/// full input) without allocating. Zero for local and nccl.
[[nodiscard]] ZEROTH_EXPORT std::int64_t staging_bytes(Transport transport, int world, Dtype dtype,
                                                       std::int64_t largest_count);

}  // namespace zeroth::comm
