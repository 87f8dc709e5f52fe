// SPDX-License-Identifier: Apache-2.0
#include "run_record.hpp"

#include <nlohmann/json.hpp>

namespace gpt {

std::string run_record(Options const& options, zeroth::Config const& config, Shape const& shape, Batches const& batches,
                       MathChoice const& math, int world) {
  auto const batch = config.settings(world, 1).batch;  // does not depend on the largest unit
  nlohmann::ordered_json const record{
      {"record", "run"},
      {"world", world},
      {"device", options.device == zeroth::DeviceKind::cuda ? "cuda" : "cpu"},
      {"share_devices", options.share_devices},
      {"tf32", options.tf32},
      {"math", math.name},
      {"steps", options.steps},
      {"batch", {{"train", batch.train}, {"micro", batch.micro}, {"accumulation", batch.accumulation}}},
      {"seed", options.seed},
      {"order", options.order == Order::sequential ? "sequential" : "shuffled"},
      {"recompute", options.recompute},
      {"data", {{"path", options.data.string()}, {"sequences", batches.sequences()}}},
      {"init", options.init.empty() ? nlohmann::ordered_json{} : nlohmann::ordered_json(options.init.string())},
      {"model",
       {{"layers", shape.layers},
        {"heads", shape.heads},
        {"channels", shape.channels},
        {"context", shape.context},
        {"vocabulary", shape.vocabulary}}},
      {"config", nlohmann::ordered_json::parse(config.to_json())}};
  return record.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace gpt
