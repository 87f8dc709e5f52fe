// SPDX-License-Identifier: Apache-2.0
/// The address of a job's store, from the environment.
#pragma once
#include "comm/launch/environment.hpp"
#include "comm/store/store.hpp"

namespace zeroth::comm {

/// | what  | taken from, the first that is there                                                                     |
/// |-------|---------------------------------------------------------------------------------------------------------|
/// | host  | MASTER_ADDR; 127.0.0.1 where all ranks are on one machine; the first node of Slurm's list               |
/// | port  | ZEROTH_STORE_PORT; MASTER_PORT; 20000 + (hash of the launcher's id) mod 12000                           |
/// | token | ZEROTH_JOB_TOKEN; the launcher's id of the job; host, port and `program`, alike for a stale job         |
///
/// torchrun needs MASTER_ADDR and MASTER_PORT, which it sets. If its own store uses MASTER_PORT
/// (TORCHELASTIC_USE_AGENT_STORE=True), the next port is taken. The launcher's id is TORCHELASTIC_RUN_ID (unless it is
/// "none", the default of a job without one), Open MPI's PMIX_NAMESPACE or OMPI_MCA_ess_base_jobid, or SLURM_JOB_ID,
/// with SLURM_STEP_ID under srun. The hash is FNV-1a (64 bits). Slurm's list is SLURM_STEP_NODELIST under srun,
/// otherwise SLURM_JOB_NODELIST or SLURM_NODELIST. A port from a hash may be taken by another job: any of the next
/// seven will do.
///
/// Throws ConfigError that names the variables if one is missing or invalid.
[[nodiscard]] StoreAddress find_store_address(Variables const& variable, LaunchedRank const& launched,
                                              std::string const& program);

/// Distinguishes a program from others that are started by hand: its name and a hash of its arguments. Arguments that
/// are numbers, and numbers after "=", do not count, as they may be the rank. `words` of a command line each end with a
/// zero byte, as in /proc/self/cmdline.
[[nodiscard]] std::string program_of(std::string_view words);
/// program_of() for this process; empty if /proc does not provide the command line.
[[nodiscard]] std::string this_program();

}  // namespace zeroth::comm
