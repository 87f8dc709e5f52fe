// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "config/keys.hpp"
#include "config/named_rules.hpp"

namespace zeroth::config {
namespace {

/// The problem of a file that combines `servers` parameter servers with `other`.
std::string refused_beside(std::int64_t servers, std::string const& other, std::string_view why,
                           std::string_view allowed) {
  return fmt::format("{}, but {}, and {}; set this to 0, or {}", servers, other, why, allowed);
}

/// Keys that say where states are, or how they move.
std::string refused_placements(Values const& values, std::int64_t servers) {
  if (auto const stage = values.get<"zero_optimization.stage">(); stage > 0) {
    return refused_beside(servers, fmt::format("zero_optimization.stage is {}", stage),
                          "servers hold what stages divide among ranks", "take stage 0");
  }
  if (auto const device = values.get<"zero_optimization.offload_optimizer.device">(); device != "none") {
    return refused_beside(servers, fmt::format("zero_optimization.offload_optimizer.device is \"{}\"", device),
                          "servers hold optimizer states in memory", "that to \"none\"");
  }
  if (values.says<"zero_optimization.cpu_offload">() && values.get<"zero_optimization.cpu_offload">()) {
    return refused_beside(servers, "zero_optimization.cpu_offload is true", "servers hold optimizer states in memory",
                          "that to false");
  }
  if (auto const stages = values.get<"zeroth.mesh.pipeline">(); stages > 1) {
    return refused_beside(servers, fmt::format("zeroth.mesh.pipeline is {}", stages), "each worker has the whole model",
                          "that to 1");
  }
  if (auto const parts = values.get<"zeroth.mesh.tensor">(); parts > 1) {
    return refused_beside(servers, fmt::format("zeroth.mesh.tensor is {}", parts), "each worker has the whole model",
                          "that to 1");
  }
  if (values.get<"zeroth.two_level_sums">()) {
    return refused_beside(servers, "zeroth.two_level_sums is true", "servers add up all workers in one order",
                          "that to false");
  }
  return {};
}

/// Keys that say what moves, and when.
std::string refused_movements(Values const& values, std::int64_t servers) {
  if (auto const codec = values.get<"zeroth.reduce_codec">(); codec != "none") {
    return refused_beside(servers, fmt::format("zeroth.reduce_codec is \"{}\"", codec),
                          "workers send gradients as they are", "that to \"none\"");
  }
  if (auto const codec = values.get<"zeroth.gather_codec">(); codec != "none") {
    return refused_beside(servers, fmt::format("zeroth.gather_codec is \"{}\"", codec),
                          "servers send parameters as they are", "that to \"none\"");
  }
  if (values.get<"zeroth.delayed_update">()) {
    return refused_beside(servers, "zeroth.delayed_update is true", "workers wait for the parameters of each step",
                          "that to false");
  }
  if (values.get<"zeroth.tied_gradients">() == "apart") {
    return refused_beside(servers, "zeroth.tied_gradients is \"apart\"", "servers know no uses of a parameter",
                          "that to \"together\"");
  }
  auto const type = values.get<"optimizer.type">();
  if (type == "Muon" || type == "Lamb" || type == "OneBitAdam") {
    return refused_beside(servers, fmt::format("optimizer.type is {}", type),
                          "it needs more than a server's own elements", "take another optimizer");
  }
  return {};
}

}  // namespace

std::string servers_are_possible(Values const& values) {
  auto const servers = values.get<"zeroth.parameter_server.servers">();
  if (servers == 0) {
    return {};
  }
  auto refused = refused_placements(values, servers);
  return refused.empty() ? refused_movements(values, servers) : refused;
}

std::string staleness_is_possible(Values const& values) {
  auto const staleness = values.get<"zeroth.parameter_server.staleness">();
  if (staleness == 0) {
    return {};
  }
  auto const but = [&](std::string const& other, std::string_view why, std::string_view allowed) {
    return fmt::format("{}, but {}, and {}; set this to 0, or {}", staleness, other, why, allowed);
  };
  if (values.get<"zeroth.parameter_server.servers">() == 0) {
    return but("zeroth.parameter_server.servers is 0", "there are no workers", "that to 1 or more");
  }
  if (auto const clip = values.get<"gradient_clipping">(); clip > 0) {
    return but(fmt::format("gradient_clipping is {}", clip), "no rank has the norm of all workers' gradients",
               "that to 0");
  }
  if (values.get<"fp16.enabled">() && values.get<"fp16.loss_scale">() == 0) {
    return but("fp16.loss_scale is 0", "workers cannot agree on a dynamic loss scale", "that to a static one");
  }
  if (values.get<"zeroth.reduce_gradients">() == "every_micro_step") {
    return but("zeroth.reduce_gradients is \"every_micro_step\"", "a worker pushes once per step",
               "that to \"last_micro_step\"");
  }
  if (values.get<"zeroth.same_bits_at_any_ranks">()) {
    return but("zeroth.same_bits_at_any_ranks is true", "updates follow each other in the order in which pushes arrive",
               "that to false");
  }
  return {};
}

std::string colocated_servers_are_possible(Values const& values) {
  return values.get<"zeroth.parameter_server.colocated">() ? "true, but a process that has a rank cannot have a server "
                                                             "beside it; set this to false, and start as many "
                                                             "more ranks on the workers' machines as there are servers"
                                                           : "";
}

}  // namespace zeroth::config
