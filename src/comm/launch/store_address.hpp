// SPDX-License-Identifier: Apache-2.0
/// Where a job's store listens, as the environment says it.
#pragma once
#include "comm/launch/environment.hpp"
#include "comm/store/store.hpp"

namespace zeroth::comm {

/// | what  | taken from, the first that is there                                                                     |
/// |-------|---------------------------------------------------------------------------------------------------------|
/// | host  | MASTER_ADDR; 127.0.0.1 where all ranks are on one machine; the first node of Slurm's list               |
/// | port  | ZEROTH_STORE_PORT; MASTER_PORT; 20000 + (number of the job) mod 12000                                   |
/// | token | ZEROTH_JOB_TOKEN; the launcher's id of the job; host, port and world, which tell no stale job apart     |
///
/// torchrun needs MASTER_ADDR and MASTER_PORT, which it sets. Where its own store has MASTER_PORT
/// (TORCHELASTIC_USE_AGENT_STORE=True), the port after it is taken. The launcher's id is TORCHELASTIC_RUN_ID (unless it
/// is "none", the default of a job that was given none), Open MPI's PMIX_NAMESPACE or OMPI_MCA_ess_base_jobid, or
/// SLURM_JOB_ID, with SLURM_STEP_ID under srun. The number of the job is SLURM_JOB_ID + SLURM_STEP_ID, or FNV-1a (64
/// bits) of another id. Slurm's list is SLURM_STEP_NODELIST under srun, and SLURM_JOB_NODELIST or SLURM_NODELIST.
///
/// Throws ConfigError that names the variables where one is missing or makes no sense.
[[nodiscard]] StoreAddress find_store_address(Variables const& variable, LaunchedRank const& launched);

}  // namespace zeroth::comm
