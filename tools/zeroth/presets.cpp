// SPDX-License-Identifier: Apache-2.0
#include "presets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include <zeroth/tool/config/nearest.hpp>

#include "gpt.hpp"

namespace zeroth::tools {
namespace {

constexpr std::int64_t gpt2_vocabulary = 50257;      // GPT-3's as well
constexpr std::int64_t megatron_vocabulary = 51200;  // GPT-2's, padded
constexpr std::int64_t opt_vocabulary = 50272;

constexpr std::string_view gpt2_paper = "GPT-2, Radford et al. 2019, table 2";
constexpr std::string_view gpt3 = "GPT-3, Brown et al. 2020, table 2.1";
constexpr std::string_view opt = "OPT, Zhang et al. 2022, table 1";
constexpr std::string_view megatron = "Megatron-LM, Narayanan et al. 2021, table 1";
// The paper lists 128e9 parameters in table 1 without a shape.
constexpr std::string_view zero = "a size of ZeRO, Rajbhandari et al. 2020, table 1, with a depth that makes it";

constexpr Preset known[] = {
    {"124M", 12, 12, 768, 1024, gpt2_vocabulary, gpt2_paper},
    {"355M", 24, 16, 1024, 1024, gpt2_vocabulary, gpt2_paper},
    {"774M", 36, 20, 1280, 1024, gpt2_vocabulary, gpt2_paper},
    {"1.5B", 48, 25, 1600, 1024, gpt2_vocabulary, gpt2_paper},
    {"2.7B", 32, 32, 2560, 2048, gpt2_vocabulary, gpt3},
    {"6.7B", 32, 32, 4096, 2048, gpt2_vocabulary, gpt3},
    {"7.5B", 36, 32, 4096, 2048, megatron_vocabulary, megatron},
    {"13B", 40, 40, 5120, 2048, gpt2_vocabulary, gpt3},  // the table's 5140 does not match 40 heads of 128
    {"30B", 48, 56, 7168, 2048, opt_vocabulary, opt},
    {"66B", 64, 72, 9216, 2048, opt_vocabulary, opt},
    {"128B", 158, 64, 8192, 1024, gpt2_vocabulary, zero},
    {"175B", 96, 96, 12288, 2048, gpt2_vocabulary, gpt3},
    {"530B", 105, 128, 20480, 2048, megatron_vocabulary, megatron},
    {"1T", 128, 160, 25600, 2048, megatron_vocabulary, megatron},
};

}  // namespace

std::span<Preset const> presets() noexcept { return known; }

Preset const* find_preset(std::string_view name) noexcept {
  auto const* const found =
      std::ranges::find_if(known, [&](Preset const& preset) { return config::edit_distance(preset.name, name) == 0; });
  return found == std::end(known) ? nullptr : found;
}

std::string presets_near(std::string_view name) {
  std::vector<std::string_view> names;
  for (auto const& preset : known) {
    names.push_back(preset.name);
  }
  auto const near = config::nearest(name, names);
  return fmt::format("{}presets: {}", near.empty() ? "" : fmt::format("did you mean {}? ", near),
                     fmt::join(names, ", "));
}

SourcedModel model_of_preset(Preset const& preset, ModelRequest const& request) {
  ModelBuilder build{fmt::format("preset {}", preset.name), request.tensor_ranks, request.sequence};
  build.expect_divided_heads(preset.heads);
  build.context(request.context.value_or(preset.context));
  add_gpt(build, {.layers = preset.layers,
                  .channels = preset.channels,
                  .context = preset.context,
                  .vocabulary = preset.vocabulary,
                  .hidden = 4 * preset.channels,
                  .tied_head = !request.untied_head});
  return build.finish(fmt::format("GPT {}", preset.name),
                      fmt::format("{} layers, {} heads, {} channels ({})", preset.layers, preset.heads, preset.channels,
                                  preset.source));
}

}  // namespace zeroth::tools
