// SPDX-License-Identifier: Apache-2.0
#include "device/numa.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cctype>
#include <fstream>
#include <string>

namespace zeroth::device {

std::optional<int> numa_node_of(std::string_view bus_id, std::filesystem::path const& devices) {
  std::string name{bus_id};
  for (auto& letter : name) {
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));  // CUDA writes A to F
  }
  std::ifstream file{devices / name / "numa_node"};
  int node = -1;
  if (!(file >> node) || node < 0) {  // -1: the firmware does not report it
    return std::nullopt;
  }
  return node;
}

// The system calls that libnuma wraps; nothing else of it is needed. They read one bit less than their argument says.
PreferNode::PreferNode(std::optional<int> node) noexcept {
  if (!node || *node >= most_nodes ||
      syscall(SYS_get_mempolicy, &policy_before_, nodes_before_.data(), most_nodes + 1, nullptr, 0) != 0) {
    return;
  }
  Nodes nodes{};
  nodes[static_cast<std::size_t>(*node) / 64] = 1UL << (static_cast<unsigned>(*node) % 64);
  changed_ = syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes.data(), most_nodes + 1) == 0;
}

PreferNode::~PreferNode() {
  if (changed_) {
    syscall(SYS_set_mempolicy, policy_before_, nodes_before_.data(), most_nodes + 1);
  }
}

}  // namespace zeroth::device
