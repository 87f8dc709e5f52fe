// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/mpi_collectives.hpp"

#include <limits>
#include <utility>

#include "core/bytes_at.hpp"
#include "device/rank_fold.hpp"

namespace zeroth::comm {

MpiCollectives::MpiCollectives(MpiThread& thread, MPI_Comm communicator, int rank, int world, Await await)
    : HostCollectives{rank, world, {.most_part_bytes = std::numeric_limits<std::int64_t>::max()}},
      thread_{thread},
      communicator_{communicator},
      await_{std::move(await)} {}

template <class Begin>
void MpiCollectives::once(Begin const& begin) {
  MpiOperation& operation = operations_[0];
  operation.start = begin;
  thread_.start(operation);
  await_(operation);
}

void MpiCollectives::start(Blocks const& blocks, Chunk const& chunk) {
  MpiOperation& operation = operation_of(chunk);
  operation.start = [op = &operation, this, blocks, chunk] {
    MpiExtent const extent = op->extent(chunk.bytes);
    for (int i = 1; i < world(); ++i) {
      int const from = (rank() + world() - i) % world();
      int const to = (rank() + i) % world();  // each rank starts at another one
      if (blocks.receives(rank())) {
        op->begin("MPI_Irecv", [&](MPI_Request* request) {
          return MPI_Irecv(chunk.place_of(from), extent.count, extent.type, from, static_cast<int>(Tag::chunks),
                           communicator_, request);
        });
      }
      if (blocks.receives(to)) {
        op->begin("MPI_Isend", [&](MPI_Request* request) {
          return MPI_Isend(blocks.block_for(to) + chunk.offset, extent.count, extent.type, to,
                           static_cast<int>(Tag::chunks), communicator_, request);
        });
      }
    }
  };
  thread_.start(operation);
}

// ---- collectives without a fold -------------------------------------------------------------------------------------

void MpiCollectives::move(Collective const& collective) {
  switch (collective.operation) {
    case Operation::broadcast: return broadcast(collective);
    case Operation::gather: return gather(collective);
    case Operation::scatter: return scatter(collective);
    case Operation::all_to_all: return all_to_all(collective);
    default:
      return once([op = &operations_[0], communicator = communicator_] {
        op->begin("MPI_Ibarrier", [&](MPI_Request* request) { return MPI_Ibarrier(communicator, request); });
      });
  }
}

void MpiCollectives::all_gather(void const* input, std::byte* output, std::int64_t bytes) {
  void const* const mine = input == output + rank() * bytes ? MPI_IN_PLACE : input;
  once([op = &operations_[0], communicator = communicator_, mine, output, bytes] {
    MpiExtent const block = op->extent(bytes);
    op->begin("MPI_Iallgather", [&](MPI_Request* request) {
      return MPI_Iallgather(mine, block.count, block.type, output, block.count, block.type, communicator, request);
    });
  });
}

void MpiCollectives::broadcast(Collective const& collective) {
  std::int64_t const bytes = collective.count * bytes_of(collective.dtype);
  if (rank() == collective.peer && collective.input != collective.output) {
    device::copy_bytes(collective.output, collective.input, bytes);
  }
  once([op = &operations_[0], communicator = communicator_, data = collective.output, root = collective.peer, bytes] {
    MpiExtent const block = op->extent(bytes);
    op->begin("MPI_Ibcast", [&](MPI_Request* request) {
      return MPI_Ibcast(data, block.count, block.type, root, communicator, request);
    });
  });
}

void MpiCollectives::gather(Collective const& collective) {
  std::int64_t const bytes = collective.count * bytes_of(collective.dtype);
  bool const in_place = rank() == collective.peer && collective.input == bytes_at(collective.output, rank() * bytes);
  void const* const mine = in_place ? MPI_IN_PLACE : collective.input;
  once([op = &operations_[0], communicator = communicator_, mine, output = collective.output, root = collective.peer,
        bytes] {
    MpiExtent const block = op->extent(bytes);
    op->begin("MPI_Igather", [&](MPI_Request* request) {
      return MPI_Igather(mine, block.count, block.type, output, block.count, block.type, root, communicator, request);
    });
  });
}

void MpiCollectives::scatter(Collective const& collective) {
  std::int64_t const bytes = collective.count * bytes_of(collective.dtype);
  bool const in_place = rank() == collective.peer && collective.output == bytes_at(collective.input, rank() * bytes);
  void* const mine = in_place ? MPI_IN_PLACE : collective.output;
  once([op = &operations_[0], communicator = communicator_, mine, input = collective.input, root = collective.peer,
        bytes] {
    MpiExtent const block = op->extent(bytes);
    op->begin("MPI_Iscatter", [&](MPI_Request* request) {
      return MPI_Iscatter(input, block.count, block.type, mine, block.count, block.type, root, communicator, request);
    });
  });
}

void MpiCollectives::all_to_all(Collective const& collective) {
  std::int64_t const bytes = collective.count * bytes_of(collective.dtype);
  once([op = &operations_[0], communicator = communicator_, input = collective.input, output = collective.output,
        bytes] {
    MpiExtent const block = op->extent(bytes);
    op->begin("MPI_Ialltoall", [&](MPI_Request* request) {
      return MPI_Ialltoall(input, block.count, block.type, output, block.count, block.type, communicator, request);
    });
  });
}

// ---- messages -------------------------------------------------------------------------------------------------------

void MpiCollectives::start_messages(std::span<Collective const> messages) {
  messages_.start = [op = &messages_, communicator = communicator_, messages] {
    for (auto const& each : messages) {
      MpiExtent const extent = op->extent(each.count * bytes_of(each.dtype));
      if (each.operation == Operation::send) {
        op->begin("MPI_Isend", [&](MPI_Request* request) {
          return MPI_Isend(each.input, extent.count, extent.type, each.peer, static_cast<int>(Tag::messages),
                           communicator, request);
        });
      } else {
        op->begin("MPI_Irecv", [&](MPI_Request* request) {
          return MPI_Irecv(each.output, extent.count, extent.type, each.peer, static_cast<int>(Tag::messages),
                           communicator, request);
        });
      }
    }
  };
  thread_.start(messages_);
}

void MpiCollectives::exchange_with_peers(std::span<Collective const> messages, std::byte const* sent,
                                         std::byte* received, std::int64_t bytes) {
  once([op = &operations_[0], communicator = communicator_, messages, sent, received, count = static_cast<int>(bytes)] {
    std::int64_t offset = 0;
    for (auto const& each : messages) {
      bool const sends = each.operation == Operation::send;
      auto const mine = static_cast<int>(sends ? Tag::from_senders : Tag::from_receivers);
      auto const theirs = static_cast<int>(sends ? Tag::from_receivers : Tag::from_senders);
      op->begin("MPI_Isend", [&](MPI_Request* request) {
        return MPI_Isend(sent + offset, count, MPI_BYTE, each.peer, mine, communicator, request);
      });
      op->begin("MPI_Irecv", [&](MPI_Request* request) {
        return MPI_Irecv(received + offset, count, MPI_BYTE, each.peer, theirs, communicator, request);
      });
      offset += count;
    }
  });
}

}  // namespace zeroth::comm
