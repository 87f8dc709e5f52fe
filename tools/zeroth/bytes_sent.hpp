/// What a step costs the network.
#pragma once
#include <cstdint>

#include <zeroth/config/config.hpp>
#include <zeroth/model/model.hpp>

namespace zeroth::tools {

/// Bytes that a rank sends in one step, all micro-steps and the update together: counted in a run of the real engine on
/// a device without memory, of at most three micro-steps; what each one more sends is the same, so that many cost no
/// more than three. Throws ConfigError if the file does not suit the world.
[[nodiscard]] std::int64_t bytes_sent_per_step(Model const& model, Config const& config, int world);

}  // namespace zeroth::tools
