// SPDX-License-Identifier: Apache-2.0
/// NUMA nodes, by the system's own calls.
#pragma once
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>

namespace zeroth::device {

/// The node that the PCI device with this bus ID ("0000:17:00.0") is connected to, as `devices` names it; nullopt if
/// the system does not know.
[[nodiscard]] std::optional<int> numa_node_of(std::string_view bus_id,
                                              std::filesystem::path const& devices = "/sys/bus/pci/devices");

/// While it lives, the kernel takes this thread's new pages from `node` if it has free ones, and otherwise from others
/// as usual. Does nothing without a node, or if the system has no such node.
class PreferNode {
 public:
  explicit PreferNode(std::optional<int> node) noexcept;
  PreferNode(PreferNode const&) = delete;
  PreferNode& operator=(PreferNode const&) = delete;
  ~PreferNode();

 private:
  static constexpr int most_nodes = 1024;  // Linux has at most as many nodes
  using Nodes = std::array<unsigned long, most_nodes / 64>;

  bool changed_ = false;
  int policy_before_ = 0;
  Nodes nodes_before_{};
};

}  // namespace zeroth::device
