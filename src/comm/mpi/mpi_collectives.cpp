// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/mpi_collectives.hpp"

#include <algorithm>

#include "comm/operations.hpp"
#include "comm/staging.hpp"
#include "core/bytes_at.hpp"
#include "device/rank_fold.hpp"

namespace zeroth::comm {
namespace {

/// Up to here it is cheaper that all ranks get everything and add it up themselves: one message time instead of two.
constexpr std::int64_t small_bytes = 512;

}  // namespace

/// A reduction over ranks of blocks, one per receiver: receiver r gets the fold of everybody's block r.
struct MpiCollectives::Blocks {
  std::byte const* input;    ///< This rank's blocks, `stride` bytes apart.
  std::byte* output;         ///< Of this rank's block, if it receives.
  std::int64_t stride;       ///< 0: there is one block, for `root`.
  std::int64_t count;        ///< Elements of one block.
  std::int64_t chunk_count;  ///< Elements that move at a time.
  int halves;                ///< 2: two chunks are under way at a time, each with a half of the staging. Otherwise 1.
  Reduce reduce;
  Dtype dtype;
  int root;  ///< -1: every rank receives its block.

  [[nodiscard]] std::int64_t chunks() const noexcept { return (count + chunk_count - 1) / chunk_count; }
  [[nodiscard]] std::int64_t first(std::int64_t chunk) const noexcept { return chunk * chunk_count; }
  [[nodiscard]] std::int64_t count_of(std::int64_t chunk) const noexcept {
    return std::min(chunk_count, count - first(chunk));
  }
  [[nodiscard]] std::int64_t bytes_of(std::int64_t elements) const noexcept {
    return elements * zeroth::bytes_of(dtype);
  }
  [[nodiscard]] bool receives(int rank) const noexcept { return root < 0 || root == rank; }
  /// Where rank `from`'s part of `chunk` lands. Each half of the staging has a place per rank.
  [[nodiscard]] std::byte* landing(std::span<std::byte> staging, std::int64_t chunk, int from, int world) const {
    return staging.data() + bytes_of((chunk % halves * world + from) * chunk_count);
  }
};

MpiCollectives::MpiCollectives(MpiThread& thread, MPI_Comm communicator, int rank, int world, Await await)
    : thread_{thread},
      communicator_{communicator},
      rank_{rank},
      world_{world},
      await_{std::move(await)},
      small_(static_cast<std::size_t>(world * small_bytes)),
      inputs_(static_cast<std::size_t>(world)) {}

std::int64_t MpiCollectives::staging_for(Collective const& collective, int world) noexcept {
  switch (collective.operation) {
    case Operation::all_reduce:
      return collective.count * bytes_of(collective.dtype) <= small_bytes
                 ? 0
                 : host_staging_bytes(world, collective.dtype, collective.count);
    case Operation::reduce: return host_staging_bytes(world, collective.dtype, collective.count);
    case Operation::reduce_scatter: return host_staging_bytes(world, collective.dtype, world * collective.count);
    default: return 0;
  }
}

template <class Begin>
void MpiCollectives::once(Begin const& begin) {
  MpiOperation& operation = operations_[0];
  operation.start = begin;
  thread_.start(operation);
  await_(operation);
}

void MpiCollectives::run(Collective const& collective, std::span<std::byte> staging) {
  std::int64_t const bytes = collective.count * bytes_of(collective.dtype);
  if (collective.operation == Operation::barrier) {
    return once([op = &operations_[0], communicator = communicator_] {
      op->begin("MPI_Ibarrier", [&](MPI_Request* request) { return MPI_Ibarrier(communicator, request); });
    });
  }
  if (collective.count == 0) {
    return;
  }
  switch (collective.operation) {
    case Operation::all_reduce: return all_reduce(collective, staging);
    case Operation::all_gather: return all_gather(collective.input, bytes_at(collective.output, 0), bytes);
    case Operation::broadcast: return broadcast(collective);
    case Operation::gather: return gather(collective);
    case Operation::scatter: return scatter(collective);
    case Operation::reduce_scatter:
      return fold_blocks({bytes_at(collective.input, 0), bytes_at(collective.output, 0), bytes, collective.count, 0, 1,
                          collective.reduce, collective.dtype, -1},
                         staging);
    case Operation::reduce:
      return fold_blocks({bytes_at(collective.input, 0), bytes_at(collective.output, 0), 0, collective.count, 0, 1,
                          collective.reduce, collective.dtype, collective.peer},
                         staging);
    case Operation::all_to_all:
      return once([op = &operations_[0], communicator = communicator_, input = collective.input,
                   output = collective.output, bytes] {
        MpiExtent const block = op->extent(bytes);
        op->begin("MPI_Ialltoall", [&](MPI_Request* request) {
          return MPI_Ialltoall(input, block.count, block.type, output, block.count, block.type, communicator, request);
        });
      });
    case Operation::send:
    case Operation::receive:
    case Operation::barrier: return;
  }
}

// ---- reductions -----------------------------------------------------------------------------------------------------

/// As many whole slices as there are ranks by reduce-scatter and all-gather; the few elements left over by the way of
/// small ones.
void MpiCollectives::all_reduce(Collective const& collective, std::span<std::byte> staging) {
  std::int64_t const element = bytes_of(collective.dtype);
  bool const small = collective.count * element <= small_bytes;
  std::int64_t const slice = small ? 0 : collective.count / world_;
  if (slice > 0) {
    std::byte* const mine = bytes_at(collective.output, rank_ * slice * element);
    fold_blocks(
        {bytes_at(collective.input, 0), mine, slice * element, slice, 0, 1, collective.reduce, collective.dtype, -1},
        staging);
    all_gather(mine, bytes_at(collective.output, 0), slice * element);
  }
  std::int64_t const step = small_bytes / element;
  for (std::int64_t first = slice * world_; first < collective.count; first += step) {
    all_reduce_small(bytes_at(collective.input, first * element), bytes_at(collective.output, first * element),
                     std::min(step, collective.count - first), collective.reduce, collective.dtype);
  }
}

void MpiCollectives::all_reduce_small(std::byte const* input, std::byte* output, std::int64_t count, Reduce reduce,
                                      Dtype dtype) {
  std::int64_t const bytes = count * bytes_of(dtype);
  exchange(input, small_.data(), bytes);
  for (int rank = 0; rank < world_; ++rank) {
    inputs_[static_cast<std::size_t>(rank)] = small_.data() + rank * bytes;
  }
  void* const outputs = output;
  device::rank_fold(reduce, &outputs, 1, inputs_.data(), world_, dtype, 0, count);
}

void MpiCollectives::exchange(void const* mine, void* all, std::int64_t bytes) {
  all_gather(mine, bytes_at(all, 0), bytes);
}

/// Chunk by chunk, as the staging allows.
void MpiCollectives::fold_blocks(Blocks const& blocks, std::span<std::byte> staging) {
  Blocks chunked = blocks;
  std::int64_t const full_count = blocks.root < 0 ? world_ * blocks.count : blocks.count;
  std::int64_t const place_count = host_staging_bytes(world_, blocks.dtype, full_count) / blocks.bytes_of(world_);
  bool const whole = world_ == 1 || blocks.count <= place_count;
  chunked.halves = !whole && place_count > 1 ? 2 : 1;
  chunked.chunk_count = whole ? blocks.count : place_count / chunked.halves;
  std::int64_t const chunks = chunked.chunks();
  for (std::int64_t chunk = 0; chunk < chunked.halves; ++chunk) {
    start_chunk(chunked, staging, chunk);
  }
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    await_(operations_[static_cast<std::size_t>(chunk % chunked.halves)]);
    if (chunked.receives(rank_)) {
      fold_chunk(chunked, staging, chunk);
    }
    if (chunk + chunked.halves < chunks) {
      start_chunk(chunked, staging, chunk + chunked.halves);
    }
  }
}

void MpiCollectives::start_chunk(Blocks const& blocks, std::span<std::byte> staging, std::int64_t chunk) {
  MpiOperation& operation = operations_[static_cast<std::size_t>(chunk % blocks.halves)];
  operation.start = [op = &operation, this, blocks, staging, chunk] {
    MpiExtent const extent = op->extent(blocks.bytes_of(blocks.count_of(chunk)));
    for (int i = 1; i < world_; ++i) {
      int const from = (rank_ + world_ - i) % world_;
      int const to = (rank_ + i) % world_;  // each rank starts elsewhere
      if (blocks.receives(rank_)) {
        op->begin("MPI_Irecv", [&](MPI_Request* request) {
          return MPI_Irecv(blocks.landing(staging, chunk, from, world_), extent.count, extent.type, from,
                           static_cast<int>(Tag::chunks), communicator_, request);
        });
      }
      if (blocks.receives(to)) {
        op->begin("MPI_Isend", [&](MPI_Request* request) {
          return MPI_Isend(blocks.input + to * blocks.stride + blocks.bytes_of(blocks.first(chunk)), extent.count,
                           extent.type, to, static_cast<int>(Tag::chunks), communicator_, request);
        });
      }
    }
  };
  thread_.start(operation);
}

void MpiCollectives::fold_chunk(Blocks const& blocks, std::span<std::byte> staging, std::int64_t chunk) {
  std::int64_t const offset = blocks.bytes_of(blocks.first(chunk));
  for (int from = 0; from < world_; ++from) {
    inputs_[static_cast<std::size_t>(from)] =
        from == rank_ ? blocks.input + rank_ * blocks.stride + offset : blocks.landing(staging, chunk, from, world_);
  }
  void* const output = blocks.output + offset;
  device::rank_fold(blocks.reduce, &output, 1, inputs_.data(), world_, blocks.dtype, 0, blocks.count_of(chunk));
}

// ---- the others -----------------------------------------------------------------------------------------------------

void MpiCollectives::all_gather(void const* input, std::byte* output, std::int64_t bytes) {
  void const* const mine = input == output + rank_ * bytes ? MPI_IN_PLACE : input;
  once([op = &operations_[0], communicator = communicator_, mine, output, bytes] {
    MpiExtent const block = op->extent(bytes);
    op->begin("MPI_Iallgather", [&](MPI_Request* request) {
      return MPI_Iallgather(mine, block.count, block.type, output, block.count, block.type, communicator, request);
    });
  });
}

void MpiCollectives::broadcast(Collective const& collective) {
  std::int64_t const bytes = collective.count * bytes_of(collective.dtype);
  if (rank_ == collective.peer && collective.input != collective.output) {
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
  bool const in_place = rank_ == collective.peer && collective.input == bytes_at(collective.output, rank_ * bytes);
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
  bool const in_place = rank_ == collective.peer && collective.output == bytes_at(collective.input, rank_ * bytes);
  void* const mine = in_place ? MPI_IN_PLACE : collective.output;
  once([op = &operations_[0], communicator = communicator_, mine, input = collective.input, root = collective.peer,
        bytes] {
    MpiExtent const block = op->extent(bytes);
    op->begin("MPI_Iscatter", [&](MPI_Request* request) {
      return MPI_Iscatter(input, block.count, block.type, mine, block.count, block.type, root, communicator, request);
    });
  });
}

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

void MpiCollectives::exchange_with_peers(std::span<Collective const> messages, std::byte const* said, std::byte* heard,
                                         std::int64_t bytes) {
  once([op = &operations_[0], communicator = communicator_, messages, said, heard, count = static_cast<int>(bytes)] {
    std::int64_t offset = 0;
    for (auto const& each : messages) {
      bool const sends = each.operation == Operation::send;
      auto const mine = static_cast<int>(sends ? Tag::from_senders : Tag::from_receivers);
      auto const theirs = static_cast<int>(sends ? Tag::from_receivers : Tag::from_senders);
      op->begin("MPI_Isend", [&](MPI_Request* request) {
        return MPI_Isend(said + offset, count, MPI_BYTE, each.peer, mine, communicator, request);
      });
      op->begin("MPI_Irecv", [&](MPI_Request* request) {
        return MPI_Irecv(heard + offset, count, MPI_BYTE, each.peer, theirs, communicator, request);
      });
      offset += count;
    }
  });
}

}  // namespace zeroth::comm
