// SPDX-License-Identifier: Apache-2.0
// MPI's own errors and its 32-bit counts. Runs alone, as a world of one.
#include "comm/mpi/mpi_session.hpp"

#include "comm/mpi/mpi_call.hpp"
#include "comm/mpi/mpi_thread.hpp"
#include "support/catch.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

using Catch::Contains;

TEST_CASE("a call that MPI refuses is named, with its reason") {
  auto const session = MpiSession::open();
  CHECK_THROWS_WITH(
      session->thread().run([&] { ZEROTH_MPI(MPI_Send(nullptr, 0, MPI_BYTE, 77, 0, session->communicator())); }),
      Contains("MPI_Send failed: MPI_ERR_RANK: invalid rank"));
  MpiOperation operation;
  operation.start = [op = &operation, communicator = session->communicator()] {
    op->begin("MPI_Ibcast",
              [&](MPI_Request* request) { return MPI_Ibcast(nullptr, 0, MPI_BYTE, 77, communicator, request); });
  };
  session->thread().start(operation);
  CHECK_THROWS_WITH((void)operation.wait_until(Clock::now() + std::chrono::minutes{1}),
                    Contains("MPI_Ibcast failed: MPI_ERR_ROOT"));
}

TEST_CASE("MPI extents have the right length") {
  auto const session = MpiSession::open();
  std::int64_t const bytes = GENERATE(0, 1, 2147483647, 2147483648, 5000000001);
  session->thread().run([bytes] {
    MpiExtent extent = mpi_extent(bytes);
    MPI_Count type_bytes = 0;
    MPI_Type_size_x(extent.type, &type_bytes);
    CHECK(type_bytes * extent.count == bytes);
    MPI_Count lower = 0;
    MPI_Count whole = 0;
    MPI_Type_get_extent_x(extent.type, &lower, &whole);
    CHECK(lower == 0);
    CHECK(whole * extent.count == bytes);  // so that consecutive blocks are contiguous
    if (extent.type != MPI_BYTE) {
      MPI_Type_free(&extent.type);
    }
  });
}

TEST_CASE("leave messages of a communicator are discarded once all ranks have left") {
  Leavers leavers;
  leavers.add(7, {2, 40});  // before this rank has the communicator
  leavers.add(8, {1, 3});
  CHECK(leavers.of(7).size() == 1);
  CHECK(leavers.of(7).front().rank == 2);
  CHECK(leavers.of(7).front().last == 40);
  leavers.leave(7, 3);
  CHECK(leavers.communicators() == 2);
  leavers.add(7, {1, 40});
  leavers.add(7, {0, 40});  // after this rank has left; no other rank will
  CHECK(leavers.communicators() == 1);
  leavers.leave(8, 1);
  leavers.leave(9, 0);  // the only rank in it
  CHECK(leavers.communicators() == 0);
  CHECK(leavers.of(7).empty());
}

}  // namespace
}  // namespace zeroth::comm
