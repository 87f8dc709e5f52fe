// SPDX-License-Identifier: Apache-2.0
/// Runs of layers that tensor ranks divide, on a mesh, split in two by a checkpoint.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parity/stage_files.hpp"
#include "parity/tensor.hpp"
#include "saved.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"
#include "zeroth/checkpoint/file_reader.hpp"

namespace zeroth::testing {

/// Numbers of ranks along three axes.
struct Grid {
  int pipeline = 1, data = 1, tensor = 1;
  int zero = 0;  ///< The ZeRO stage.
  [[nodiscard]] int world() const noexcept { return pipeline * data * tensor; }
  [[nodiscard]] std::string text() const {
    return fmt::format("pipeline {} x data {} x tensor {}, ZeRO {}", pipeline, data, tensor, zero);
  }
};

/// A stage file with eight micro-batches per step on any grid.
inline Config config_of(Types const& types, Grid const& grid,
                        char const* optimizer = R"("type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1})") {
  return Config::from_json(
      file(types, grid.zero, 8 / grid.data, "every_micro_step", movements[grid.zero],
           fmt::format(R"(, "mesh": {{"tensor": {}, "pipeline": {}}})", grid.tensor, grid.pipeline), optimizer));
}

/// Runs threads, and returns the results that all ranks agree on.
inline Trained train_grid(Config const& config, Grid const& grid, DividedOptions const& options) {
  std::vector<Trained> all(static_cast<std::size_t>(grid.world()));
  auto const outcome = run_job(
      grid.world(), [&](Job& job) { all[static_cast<std::size_t>(job.rank())] = train_divided(job, config, options); });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& each : all) {
    REQUIRE(bits_of(each) == bits_of(all.front()));
  }
  return all.front();
}

/// Trains to step `last`, and saves after step `at`.
inline DividedOptions saving_grid(std::filesystem::path const& folder, int at, int last, DividedOptions options) {
  options.steps = last;
  options.after_step = [=](AnyEngine& engine, int step) {
    if (step == at) {
      engine.save(folder).wait();
    }
  };
  return options;
}

/// Restores and saves the same states at once. Trains nothing.
inline DividedOptions copying_grid(std::filesystem::path const& from, std::filesystem::path const& to) {
  DividedOptions options;
  options.sequence = true;
  options.steps = 0;
  options.begin = [=](AnyEngine& engine) {
    auto const step = engine.restore(from).step;
    engine.save(to).wait();
    return static_cast<int>(step);
  };
  return options;
}

/// Calls `use(space, state, first, count)` for all elements that are padding of parts.
template <class F>
void each_padding(checkpoint::Contents const& contents, F const& use) {
  for (auto const& space : contents.spaces) {
    for (auto const& state : space.states) {
      for (auto const& param : space.params) {
        param.part().each_run(0, param.count, [&](model::CutPart::Run const& run) {
          if (run.is_padding()) {
            use(space, state, param.at + run.first, run.count);
          }
        });
      }
    }
  }
}

/// The number of padding bytes in a checkpoint, and how many of them are not zero.
inline std::pair<std::int64_t, std::int64_t> padding_in(std::filesystem::path const& checkpoint) {
  std::pair<std::int64_t, std::int64_t> found{0, 0};
  checkpoint::Reader reader{checkpoint};
  each_padding(reader.record().contents, [&](auto const& space, auto const& state, auto first, auto count) {
    auto const pieces = checkpoint::pieces_of(space, state, first, count);
    reader.read(pieces, [&](std::size_t, std::int64_t, std::span<std::byte const> bytes) {
      found.first += std::ssize(bytes);
      found.second += std::ranges::count_if(bytes, [](std::byte each) { return each != std::byte{0}; });
    });
  });
  return found;
}

/// Bits of the results after step `at`.
inline std::vector<std::uint32_t> grid_bits_behind(int at, Trained trained) {
  std::erase_if(trained.reports, [=](StepReport const& report) { return report.step <= at; });
  trained.evaluations.clear();
  REQUIRE(!trained.reports.empty());
  return bits_of(trained);
}

}  // namespace zeroth::testing
