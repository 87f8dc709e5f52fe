// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/mpi_communicator.hpp"

#include <utility>

#include "comm/mpi/mpi_call.hpp"

namespace zeroth::comm {

std::unique_ptr<Communicator> make_mpi(std::shared_ptr<MpiSession> session, CommOptions const& options) {
  auto group = whole_job(session->next_job(), session->rank(), session->world());
  MPI_Comm handle = MPI_COMM_NULL;
  session->thread().run([&] {
    ZEROTH_MPI(MPI_Comm_dup(session->communicator(), &handle));
    ZEROTH_MPI(MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN));
  });
  return std::make_unique<MpiCommunicator>(std::move(session), handle, std::move(group), options);
}

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiSession> session, MPI_Comm handle, Group group,
                                 CommOptions const& options)
    : HostCommunicator{*session, std::move(group), options},
      session_{std::move(session)},
      handle_{handle},
      collectives_{session_->thread(), handle_, rank(), world(), [this](MpiOperation const& operation) {
                     await([&operation](Clock::time_point until) { return operation.wait_until(until); });
                   }} {}

MpiCommunicator::~MpiCommunicator() {
  end();
  session_->thread().post([&thread = session_->thread(), handle = handle_]() mutable {
    if (!thread.halted()) {
      MPI_Comm_free(&handle);
    }
  });
}

std::unique_ptr<Communicator> MpiCommunicator::make_part(SplitRequest const& request, Group part) {
  MPI_Comm handle = MPI_COMM_NULL;
  session_->thread().run([&] {
    ZEROTH_MPI(MPI_Comm_split(handle_, request.color < 0 ? MPI_UNDEFINED : request.color, request.key, &handle));
    if (handle != MPI_COMM_NULL) {
      ZEROTH_MPI(MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN));
    }
  });
  return handle == MPI_COMM_NULL ? nullptr
                                 : std::make_unique<MpiCommunicator>(session_, handle, std::move(part), options());
}

std::unique_ptr<Communicator> MpiCommunicator::make_group(std::span<int const> ranks, Group part) {
  MPI_Comm handle = MPI_COMM_NULL;
  session_->thread().run([&] {
    MPI_Group whole = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    ZEROTH_MPI(MPI_Comm_group(handle_, &whole));
    ZEROTH_MPI(MPI_Group_incl(whole, static_cast<int>(ranks.size()), ranks.data(), &members));
    ZEROTH_MPI(MPI_Comm_create_group(handle_, members, 0, &handle));
    ZEROTH_MPI(MPI_Group_free(&members));
    ZEROTH_MPI(MPI_Group_free(&whole));
    ZEROTH_MPI(MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN));
  });
  return std::make_unique<MpiCommunicator>(session_, handle, std::move(part), options());
}

}  // namespace zeroth::comm
