// SPDX-License-Identifier: Apache-2.0
/// The NUMA node to which a GPU is connected, and memory from that node.
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "device/numa.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"

namespace zeroth::testing {

using device::numa_node_of;
using device::PreferNode;

namespace {

using Policy = std::pair<int, unsigned long>;  ///< The policy, and a bit for each of the first nodes.

/// This thread's policy for new pages; nullopt if the system does not let the test ask.
std::optional<Policy> policy() {
  int mode = 0;
  std::array<unsigned long, 16> nodes{};
  if (syscall(SYS_get_mempolicy, &mode, nodes.data(), 1025, nullptr, 0) != 0) {
    return std::nullopt;
  }
  return Policy{mode, nodes[0]};
}

}  // namespace

TEST_CASE("the system names the NUMA node of a PCI device") {
  Folder const folder;
  auto const write = [&](char const* name, char const* text) {
    std::filesystem::create_directories(folder / name);
    std::ofstream{folder / name / "numa_node"} << text;
  };
  write("0000:17:00.0", "1\n");
  write("0000:a1:00.0", "0\n");
  write("0000:05:00.0", "-1\n");
  write("0000:06:00.0", "none\n");
  std::filesystem::create_directories(folder / "0000:07:00.0");
  CHECK(numa_node_of("0000:17:00.0", folder.path()) == 1);
  CHECK(numa_node_of("0000:A1:00.0", folder.path()) == 0);
  for (auto const* const unknown : {"0000:05:00.0", "0000:06:00.0", "0000:07:00.0", "0000:08:00.0", ""}) {
    CHECK_FALSE(numa_node_of(unknown, folder.path()));
  }
}

TEST_CASE("a preferred NUMA node ends with its scope, and one that is not there changes nothing") {
  auto const before = policy();
  if (!before) {
    WARN("the system does not let this process ask for its NUMA policy");
    return;
  }
  {
    PreferNode const outer{0};
    CHECK(policy() == Policy{MPOL_PREFERRED, 1});
    {
      PreferNode const absent{1023}, beyond{5000}, none{std::nullopt};
      CHECK(policy() == Policy{MPOL_PREFERRED, 1});
    }
    CHECK(policy() == Policy{MPOL_PREFERRED, 1});
  }
  CHECK(policy() == before);
}

}  // namespace zeroth::testing
