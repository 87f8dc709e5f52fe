// SPDX-License-Identifier: Apache-2.0
// Run by mpirun: a program that has initialised MPI itself, with the given level ("multiple" or "single"), and
// continues to use it after its jobs. With "no_job" and "one_job", which use "multiple", rank 1 does not take part in a
// job, or not in the second one.
#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <string_view>
#include <thread>

#include "zeroth/comm/job.hpp"
#include "zeroth/device/cpu.hpp"

int main(int argc, char** argv) {
  std::string_view const mode = argc > 1 ? argv[1] : "";
  bool const multiple = mode != "single";
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  zeroth::LaunchOptions options;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int status = 0;
  for (int job_number = 0; job_number < 2; ++job_number) {
    if (mode == (job_number == 0 ? "no_job" : "one_job")) {
      options.join_timeout = std::chrono::milliseconds{500};
      while (rank == 1) {
        std::this_thread::sleep_for(std::chrono::hours{1});
      }
    }
    status += zeroth::launch(options, [](zeroth::Job& job) {
      auto const device = zeroth::device::make_cpu_device();
      job.communicator().barrier(device->compute(), {"test", ""});
    });
  }
  int sum = 1;
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  fmt::print("jobs ended with {}, and MPI still counts {} ranks.\n", status, sum);
  std::fflush(stdout);
  MPI_Finalize();
  return status == 0 ? 0 : 3;
}
