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

TEST_CASE("a transport that is none is refused with the names of all") {
  CHECK(testing::thrown<ConfigError>([] { return transport_named("gloo"); }) ==
        "transport is \"gloo\"; allowed are local, mpi, nccl, tcp");
  CHECK_THROWS_AS(transport_named(""), ConfigError);
  CHECK(name_of(static_cast<Transport>(77)) == "?");
}

}  // namespace
}  // namespace zeroth::comm
