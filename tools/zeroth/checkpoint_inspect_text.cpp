// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include <zeroth/tool/config/document.hpp>
#include <zeroth/tool/core/utf8.hpp>

#include "checkpoint_inspect.hpp"
#include "readable.hpp"
#include "text_table.hpp"

namespace zeroth::tools {
namespace {

std::string data_order_text(std::optional<SampleOrder> const& order) {
  if (!order) {
    return "not told";
  }
  return order->shuffled() ? fmt::format("{}, shuffled with seed {}", counted(order->size(), "sample"), order->seed())
                           : fmt::format("{} in their own order", counted(order->size(), "sample"));
}

std::string loss_scale_text(std::optional<optim::LossScaleState> const& state) {
  if (!state) {
    return "not dynamic";
  }
  return fmt::format("{:g}; {} would halve it{}", state->scale, counted(state->hysteresis_left, "overflow"),
                     state->exhausted ? "; it was exhausted" : "");
}

std::string states_text(std::vector<StateFacts> const& all) {
  std::vector<std::string> texts;
  for (auto const& [name, dtype, count] : all) {
    texts.push_back(fmt::format("{} {}", escaped(name), name_of(dtype)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string model_text(CheckpointFacts const& facts) {
  auto text = fmt::format("{} in {}", counted(facts.all.elements, "parameter"), counted(facts.all.params, "tensor"));
  if (facts.frozen.params > 0) {
    text += fmt::format("; {} in {} frozen", grouped(facts.frozen.elements), grouped(facts.frozen.params));
  }
  if (facts.tied.params > 0) {
    text += fmt::format("; {} used by several units", counted(facts.tied.params, "tensor"));
  }
  return text;
}

std::string files_text(CheckpointFacts const& facts) {
  auto const& contents = facts.record.contents;
  auto const stages = contents.stages();
  auto mesh = stages > 1 ? fmt::format(" in {} stages of a pipeline", grouped(stages)) : std::string{};
  if (contents.tensor_ranks > 1) {
    mesh += fmt::format(" with {} tensor ranks", grouped(contents.tensor_ranks));
  }
  return fmt::format("{}, written by {}{}; {}", counted(contents.places, "file"), counted(contents.places, "rank"),
                     mesh, readable_bytes(facts.bytes));
}

std::string wrong_files_text(CheckpointFacts const& facts) {
  std::string text;
  for (auto const& [name, why] : facts.wrong) {
    text += fmt::format("damaged: {}: {}\n", name, why);
  }
  if (auto const left = facts.record.contents.places - facts.looked_at; left > 0) {
    text += fmt::format("{} behind these were not looked at\n", counted(left, "file"));
  }
  return text.empty() ? text : "\n" + text;
}

std::string parameters_text(checkpoint::Contents const& contents, Paper const& paper) {
  std::vector<Row> rows{{"parameter", "unit", "shape", "elements", "kind"}};
  for (auto const& space : contents.spaces) {
    for (auto const& param : space.params) {
      if (!param.comes_first()) {
        continue;
      }
      std::string kind = space.trainable ? "trained" : "frozen";
      if (param.cut) {
        kind += fmt::format(", cut along dimension {}", param.cut->cut.dim);
      }
      for (auto const& tie : param.ties) {
        kind += fmt::format(", used by {} too", escaped(tie));
      }
      rows.push_back({escaped(param.name), escaped(space.unit), fmt::format("[{}]", fmt::join(param.shape, ", ")),
                      grouped(param.whole_count()), kind});
    }
  }
  return "\n" + aligned(rows, paper);
}

std::string stage_file_text(std::string const& text) {
  config::Problems problems;
  auto const values = config::read_document(text, problems);
  if (!problems.empty()) {
    return fmt::format("\nits stage file is none: {}\n", config::in_quotes(text));
  }
  std::string lines = "\nstage file, as it was resolved:\n";
  for (auto const& member : values) {
    auto const* const entry = std::get_if<config::Object>(&member.node.value);
    auto const* const value = entry == nullptr ? nullptr : config::find(*entry, "value");
    auto const* const origin = entry == nullptr ? nullptr : config::find(*entry, "origin");
    auto const* const origin_text = origin == nullptr ? nullptr : std::get_if<std::string>(&origin->node.value);
    lines += fmt::format("  {}: {}{}\n", escaped(member.name), show(value == nullptr ? member.node : value->node),
                         origin_text == nullptr ? "" : fmt::format(" ({})", escaped(*origin_text)));
  }
  return lines;
}

std::string rank_states_text(checkpoint::Contents const& contents) {
  auto const& bytes = contents.rank_states;
  return bytes.empty() ? "none"
                       : fmt::format("{} of {}", readable_bytes(std::reduce(bytes.begin(), bytes.end())),
                                     counted(std::ssize(bytes), "rank"));
}

}  // namespace

std::string as_text(CheckpointFacts const& facts, InspectOptions const& options, Paper const& paper) {
  auto const& record = facts.record;
  auto const& position = record.position;
  auto text = fmt::format("{}: step {}, saved {} by Zeroth {}, process {} on {}\n\n", facts.path.string(),
                          grouped(position.step), escaped(record.origin.created), escaped(record.origin.version),
                          record.origin.process, escaped(record.origin.host));
  text += aligned({{"updates", grouped(position.applied)},
                   {"samples", grouped(position.samples)},
                   {"data", data_order_text(record.order)},
                   {"loss scale", loss_scale_text(position.loss_scale)},
                   {"optimizer", escaped(record.optimizer)},
                   {"states", states_text(facts.states)},
                   {"compute", facts.compute.empty() ? "not told" : escaped(facts.compute)},
                   {"model", model_text(facts)},
                   {"seeds", fmt::format("{} of initial values, {} of stochastic rounding", record.model_seed,
                                         record.rounding_seed)},
                   {"program state", readable_bytes(std::ssize(record.program_state))},
                   {"rank states", rank_states_text(record.contents)},
                   {"files", files_text(facts)}});
  text += wrong_files_text(facts);
  if (options.parameters) {
    text += parameters_text(record.contents, paper);
  }
  if (options.stage_file) {
    text += stage_file_text(record.stage_file);
  }
  return text;
}

}  // namespace zeroth::tools
