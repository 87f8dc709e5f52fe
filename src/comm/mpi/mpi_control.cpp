// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/mpi_control.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "comm/mpi/mpi_call.hpp"

namespace zeroth::comm {
namespace {

constexpr int message_bytes = sizeof(ControlMessage);

}  // namespace

void ControlMessage::set_text(std::string_view words) noexcept {
  std::size_t const length = std::min(words.size(), text.size() - 1);
  std::copy_n(words.begin(), length, text.begin());
  text[length] = '\0';
}

MpiControl::MpiControl(MPI_Comm communicator) : communicator_{communicator} {
  ZEROTH_MPI(MPI_Comm_rank(communicator_, &rank_));
  listen();
}

void MpiControl::listen() {
  ZEROTH_MPI(MPI_Irecv(&incoming_, message_bytes, MPI_BYTE, MPI_ANY_SOURCE, 0, communicator_, &receiving_));
}

void MpiControl::send(int to, ControlMessage const& message) {
  auto& sending = sending_.emplace_back(Sending{message, MPI_REQUEST_NULL});
  sending.message.sender = rank_;
  ZEROTH_MPI(MPI_Isend(&sending.message, message_bytes, MPI_BYTE, to, 0, communicator_, &sending.request));
}

std::optional<ControlMessage> MpiControl::receive() {
  int arrived = 0;
  ZEROTH_MPI(MPI_Test(&receiving_, &arrived, MPI_STATUS_IGNORE));
  if (arrived == 0) {
    return std::nullopt;
  }
  ControlMessage const message = incoming_;
  listen();
  return message;
}

bool MpiControl::all_sent() {
  std::erase_if(sending_, [](Sending& sending) {
    int sent = 0;
    ZEROTH_MPI(MPI_Test(&sending.request, &sent, MPI_STATUS_IGNORE));
    return sent != 0;
  });
  return sending_.empty();
}

void MpiControl::close() {
  MPI_Request everybody = MPI_REQUEST_NULL;
  ZEROTH_MPI(MPI_Ibarrier(communicator_, &everybody));
  for (int met = 0; met == 0 || !all_sent();) {
    while (receive()) {
    }
    ZEROTH_MPI(MPI_Test(&everybody, &met, MPI_STATUS_IGNORE));
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
  while (receive()) {
  }
  ZEROTH_MPI(MPI_Cancel(&receiving_));
  ZEROTH_MPI(MPI_Wait(&receiving_, MPI_STATUS_IGNORE));
  ZEROTH_MPI(MPI_Comm_free(&communicator_));
}

}  // namespace zeroth::comm
