// SPDX-License-Identifier: Apache-2.0
/// Where a job's store listens, as the environment says it.
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
/// torchrun needs MASTER_ADDR and MASTER_PORT, which it sets. Where its own store has MASTER_PORT
/// (TORCHELASTIC_USE_AGENT_STORE=True), the port after it is taken. The launcher's id is TORCHELASTIC_RUN_ID (unless it
/// is "none", the default of a job that was given none), Open MPI's PMIX_NAMESPACE or OMPI_MCA_ess_base_jobid, or
/// SLURM_JOB_ID, with SLURM_STEP_ID under srun. The hash is FNV-1a (64 bits). Slurm's list is SLURM_STEP_NODELIST under
/// srun, and SLURM_JOB_NODELIST or SLURM_NODELIST. A port from a hash may be another job's: the next seven do as well.
///
/// Throws ConfigError that names the variables where one is missing or makes no sense.
[[nodiscard]] StoreAddress find_store_address(Variables const& variable, LaunchedRank const& launched,
                                              std::string const& program);

/// Tells a program from others that are started by hand: its name and a hash of its arguments. Numbers do not count,
/// which may be the rank's. `words` of a command line each end with a zero byte, as in /proc/self/cmdline.
[[nodiscard]] std::string program_of(std::string_view words);
/// This process's; nothing where /proc does not tell.
[[nodiscard]] std::string this_program();

}  // namespace zeroth::comm
