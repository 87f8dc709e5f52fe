// SPDX-License-Identifier: Apache-2.0
#include "zeroth/comm/transport.hpp"

#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

TEST_CASE("a transport is found by its name") {
  CHECK(transport_names() == std::vector<std::string>{"local", "mpi", "nccl", "tcp"});
  for (auto const& name : transport_names()) {
    CHECK(name_of(transport_named(name)) == name);
  }
  CHECK(transport_named("mpi") == Transport::mpi);
}

TEST_CASE("an unknown transport is rejected with the names of all") {
  CHECK(testing::thrown<ConfigError>([] { return transport_named("gloo"); }) ==
        "transport is \"gloo\"; allowed are local, mpi, nccl, tcp");
  CHECK_THROWS_AS(transport_named(""), ConfigError);
  CHECK(name_of(static_cast<Transport>(77)) == "?");
}

TEST_CASE("the rest of a transport's properties follow from its row in the table") {
  for (auto const& row : transport_table) {
    INFO(row.name);
    CHECK(&traits_of(row.transport) == &row);
    CHECK((row.on_host || row.on_gpus));
    CHECK((staging_bytes(row.transport, 4, Dtype::fp32, 1000) > 0) == row.stages);
    CHECK(supports(row.transport, row.last_operator,
                   is_defined(row.last_operator, Dtype::fp32) ? Dtype::fp32 : Dtype::fp32_location));
    CHECK(supports(row.transport, Reduce::bit_and, Dtype::int32) == (row.last_operator >= Reduce::bit_and));
  }
  CHECK(traits_of(Transport::local).ranks == RankKind::threads);
  CHECK(traits_of(Transport::mpi).ranks == RankKind::processes_of_mpi);
}

}  // namespace
}  // namespace zeroth::comm
