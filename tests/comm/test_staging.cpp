// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "support/catch.hpp"
#include "zeroth/comm/communicator.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

constexpr std::int64_t mebibyte = 1 << 20;

TEST_CASE("local and nccl need no staging memory") {
  CHECK(staging_bytes(Transport::local, 4, Dtype::fp32, 1'000'000) == 0);
  CHECK(staging_bytes(Transport::nccl, 4, Dtype::fp32, 1'000'000) == 0);
}

TEST_CASE("mpi stages the operand of a reduction, or one chunk of it") {
  CHECK(staging_bytes(Transport::mpi, 1, Dtype::fp32, 1'000'000) == 0);
  CHECK(staging_bytes(Transport::mpi, 4, Dtype::fp32, 0) == 0);
  CHECK(staging_bytes(Transport::mpi, 4, Dtype::fp32, 1000) == 4000);
  CHECK(staging_bytes(Transport::mpi, 3, Dtype::fp64, 4) == 6 * 8);  // a block of 2 from each rank
  CHECK(staging_bytes(Transport::mpi, 2, Dtype::fp32, mebibyte) == 4 * mebibyte);
  CHECK(staging_bytes(Transport::mpi, 2, Dtype::fp32, 100 * mebibyte) == 8 * mebibyte);
  CHECK(staging_bytes(Transport::mpi, 4, Dtype::byte, std::numeric_limits<std::int64_t>::max()) == 8 * mebibyte);
}

TEST_CASE("staging is a whole number of equal blocks of whole elements") {
  for (int const world : {2, 3, 5, 7, 64, 1024, 5000}) {
    for (std::int64_t const count : {1, 1023, 4096, 1'000'003, 500'000'000}) {
      for (auto const dtype : {Dtype::byte, Dtype::bf16, Dtype::fp64}) {
        auto const bytes = staging_bytes(Transport::mpi, world, dtype, count);
        CAPTURE(world, count, name_of(dtype));
        CHECK(bytes > 0);
        CHECK(bytes % (world * bytes_of(dtype)) == 0);
        CHECK(bytes <= std::max(8 * mebibyte, world * std::int64_t{4096}));
      }
    }
  }
}

TEST_CASE("invalid staging requests are rejected") {
  CHECK_THROWS_AS(staging_bytes(Transport::mpi, 0, Dtype::fp32, 1), ContractError);
  CHECK_THROWS_AS(staging_bytes(Transport::mpi, 2, Dtype::fp32, -1), ContractError);
}

TEST_CASE("names of operations and transports") {
  CHECK(name_of(Operation::all_reduce) == "all_reduce");
  CHECK(name_of(Operation::barrier) == "barrier");
  CHECK(name_of(Transport::local) == "local");
  CHECK(name_of(Transport::mpi) == "mpi");
  CHECK(name_of(Transport::nccl) == "nccl");
}

}  // namespace
}  // namespace zeroth::comm
