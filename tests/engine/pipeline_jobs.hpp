// SPDX-License-Identifier: Apache-2.0
/// Jobs of a chain of layers in a pipeline, and what their ranks say.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "parity/pipeline.hpp"
#include "support/job.hpp"

namespace zeroth::testing {

inline Config config_of(int stages, std::string const& more = "", std::string const& ours = "") {
  return Config::from_json(fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3, "optimizer": {{"type": "AdamW"}},
          "zero_optimization": {{"stage": 3}}, "zeroth": {{"mesh": {{"pipeline": {}}}, "timeout_ms": 60000 {}}} {}}})",
      stages, ours, more));
}

/// The errors of `world` ranks, one per line.
inline std::string told(int world, Config const& config,
                        std::function<void(Engine<float>&, Chain const&, Mesh&)> const& body) {
  return messages_of(run_job(world, [&](Job& job) {
    Chain const chain;
    Mesh mesh{job, config};
    Engine<float> engine{mesh, chain.model, config};
    body(engine, chain, mesh);
  }));
}

/// For the threads of ranks, where Catch's own assertions race: throws unless `message` has all of `parts`.
inline void expect_said(std::string const& message, std::initializer_list<std::string_view> parts) {
  for (auto const part : parts) {
    if (message.find(part) == std::string::npos) {
      throw Error{fmt::format("\"{}\" was expected, and said was \"{}\"", part, message)};
    }
  }
}

}  // namespace zeroth::testing
