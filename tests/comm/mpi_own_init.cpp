// Run by mpirun: a program that has initialised MPI itself, with the level given ("multiple" or "single"), and goes on
// to use it after its jobs.
#include <fmt/format.h>
#include <mpi.h>

#include <string_view>

#include "zeroth/comm/job.hpp"
#include "zeroth/device/cpu.hpp"

int main(int argc, char** argv) {
  bool const multiple = argc > 1 && std::string_view{argv[1]} == "multiple";
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  int status = 0;
  for (int job_number = 0; job_number < 2; ++job_number) {
    status += zeroth::launch({}, [](zeroth::Job& job) {
      auto const device = zeroth::device::make_cpu_device();
      zeroth::detail::JobState::of(job).communicator->barrier(device->compute(), {"test", ""});
    });
  }
  int sum = 1;
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  fmt::print("jobs ended with {}, and MPI still counts {} ranks.\n", status, sum);
  std::fflush(stdout);
  MPI_Finalize();
  return status == 0 ? 0 : 3;
}
