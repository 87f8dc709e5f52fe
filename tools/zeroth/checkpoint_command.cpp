// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_command.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include <zeroth/checkpoint/folder.hpp>
#include <zeroth/checkpoint/record.hpp>
#include <zeroth/tool/core/standard_streams.hpp>

#include "checkpoint_diff.hpp"
#include "checkpoint_export.hpp"
#include "checkpoint_inspect.hpp"
#include "checkpoint_list.hpp"
#include "checkpoint_remove.hpp"
#include "checkpoint_verify.hpp"
#include "option_values.hpp"

namespace zeroth::tools {
namespace {

namespace fs = std::filesystem;

constexpr auto path_help = "A checkpoint, or a folder of checkpoints, of which `latest` names one";

struct CheckpointOptions {
  fs::path path, other;
  bool json = false;
  bool without_program_state = false;
  InspectOptions inspect;
  ExportOptions weights;
};
using SharedOptions = std::shared_ptr<CheckpointOptions>;  // shared with the callbacks

bool is_checkpoint(fs::path const& path) {
  std::error_code error;
  return fs::exists(path / checkpoint::record_name, error);
}

/// Calls `use` with the checkpoint that `path` names. A job that saves there may remove that checkpoint before it is
/// open, once a newer one exists: then `use` gets the newer one.
template <class F>
auto use_named(fs::path const& path, F const& use) {
  auto const found = checkpoint::find_checkpoint(path);
  try {
    return use(found);
  } catch (DamagedError const&) {
    auto const newer = checkpoint::find_checkpoint(path);
    if (newer == found) {
      throw;
    }
    return use(newer);
  }
}

/// Adds a subcommand with a path and options of its own.
CLI::App* add_subcommand(CLI::App& checkpoint, SharedOptions const& options, char const* name, char const* what,
                         char const* path) {
  auto* const command = checkpoint.add_subcommand(name, what);
  command->add_option("path", options->path, path)->required();
  command->add_flag("--json", options->json, "Print JSON");
  return command;
}

/// Shows the result as text or JSON, as requested.
template <class Found>
void show(Page& page, bool json, Found const& found) {
  json ? page.add_data(as_json(found)) : page.add_text(as_text(found, page.paper()));
}

void add_inspect(CLI::App& checkpoint, Page& page) {
  auto const options = std::make_shared<CheckpointOptions>();
  auto* const command = add_subcommand(checkpoint, options, "inspect",
                                       "Prints what a checkpoint contains, when and where it was saved, and its size",
                                       "A checkpoint, or a folder of checkpoints for a table");
  command->add_flag("--parameters", options->inspect.parameters, "List all parameters; JSON always has them");
  command->add_flag("--stage-file", options->inspect.stage_file,
                    "Print all values of the stage file of the run that saved");
  command->callback([options, &page] {
    if (!is_checkpoint(options->path)) {
      return show(page, options->json, list(options->path));
    }
    auto const facts = look_at(options->path);
    options->json ? page.add_data(as_json(facts, options->inspect))
                  : page.add_text(as_text(facts, options->inspect, page.paper()));
  });
}

void add_verify(CLI::App& checkpoint, Page& page) {
  auto const options = std::make_shared<CheckpointOptions>();
  auto* const command =
      add_subcommand(checkpoint, options, "verify",
                     "Reads every byte, and names everything that has changed since it was written", path_help);
  command->footer("The exit status is 0 if the checkpoint is whole, and 1 if it is not.");
  command->callback([options, &page] {
    auto const found = use_named(options->path, [](auto const& path) { return verify(path); });
    show(page, options->json, found);
    page.status = found.whole() ? 0 : 1;
  });
}

void add_diff(CLI::App& checkpoint, Page& page) {
  auto const options = std::make_shared<CheckpointOptions>();
  auto* const command =
      add_subcommand(checkpoint, options, "diff",
                     "Compares the values of two checkpoints bit by bit, whatever ranks wrote them", path_help);
  command->add_option("other", options->other, "The other checkpoint")->required();
  command->add_flag("--without-program-state", options->without_program_state,
                    "Ignore the state that the programs saved, such as train_gpt's options");
  command->footer("The exit status is 0 if they are the same, 1 if they differ, and 2 if they cannot be compared.");
  command->callback([options, &page] {
    try {
      auto const difference = use_named(options->path, [&](auto const& path) {
        return use_named(options->other, [&](auto const& other) {
          return compare(path, other,
                         options->without_program_state ? ProgramState::does_not_count : ProgramState::counts);
        });
      });
      show(page, options->json, difference);
      page.status = difference.same() ? 0 : 1;
    } catch (std::exception const& error) {
      write_error(fmt::format("zeroth: {}\n", error.what()));
      page.status = 2;
    }
  });
}

void add_export(CLI::App& checkpoint, Page& page) {
  auto const options = std::make_shared<CheckpointOptions>();
  auto& weights = options->weights;
  auto* const command =
      add_subcommand(checkpoint, options, "export", "Writes the weights in Hugging Face's format", path_help);
  command->add_option("to", weights.to, "A file ending in .safetensors, which is replaced, or a new or empty folder")
      ->required();
  command
      ->add_option("--dtype", weights.dtype,
                   "Dtype of the weights; master: as saved; compute: as used in forward and backward")
      ->check(CLI::IsMember({"master", "compute", "fp32", "bf16", "fp16"}))
      ->capture_default_str();
  command->add_flag("--ema", weights.ema, "Write the moving averages of zeroth.ema.decay instead of the masters");
  command
      ->add_option("--max-shard-bytes", weights.max_shard_bytes,
                   "Most bytes per file in a folder, such as 5GB or 512MiB; larger weights are split into several "
                   "files with an index")
      ->transform(size_in_bytes());
  command->callback([options, &page] {
    auto const& asked = options->weights;
    if (asked.max_shard_bytes && asked.to.extension() == ".safetensors") {
      throw CLI::ValidationError{"--max-shard-bytes",
                                 fmt::format("goes with a folder, and {} is a file", asked.to.string())};
    }
    auto const exported = use_named(options->path, [&](auto const& path) { return export_weights(path, asked); });
    options->json ? page.add_data(as_json(exported)) : page.add_text(as_text(exported));
  });
}

void add_remove(CLI::App& checkpoint, Page& page) {
  struct Options {
    std::vector<fs::path> paths;
    bool json = false;
  };
  auto const options = std::make_shared<Options>();
  auto* const command = checkpoint.add_subcommand("remove", "Removes checkpoints, but not the one that `latest` names");
  command->add_option("paths", options->paths, "Checkpoints, such as saved/step_00001000")->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->footer("The exit status is 0 if all were removed, and 1 if not, for example because one is being read.");
  command->callback([options, &page] {
    auto const removed = remove(options->paths);
    options->json ? page.add_data(as_json(removed)) : page.add_text(as_text(removed));
    page.status = removed.in_use.empty() ? 0 : 1;
  });
}

void add_gc(CLI::App& checkpoint, Page& page) {
  struct Options {
    fs::path path;
    std::int64_t older_than = 0;  // seconds
    checkpoint::RemovalOptions removal;
    bool json = false;
  };
  auto const options = std::make_shared<Options>();
  auto* const command = checkpoint.add_subcommand(
      "gc", "Removes what aborted jobs left in a folder of checkpoints, and checkpoints that are not kept");
  command->add_option("path", options->path, "A folder of checkpoints, in which no job saves")->required();
  auto* const keep =
      command->add_option("--keep", options->removal.retention.keep, "Number of newest whole checkpoints to keep [all]")
          ->check(whole_from(1, std::int64_t{1} << 40));
  command
      ->add_option("--keep-every", options->removal.retention.keep_every, "Also keep steps that are multiples of this")
      ->check(whole_from(1, std::int64_t{1} << 40))
      ->needs(keep);
  command
      ->add_option("--older-than", options->older_than,
                   "Also keep checkpoints younger than this, by the last change of their checkpoint.json: 12h, 7d")
      ->transform(time_in_seconds())
      ->needs(keep);
  command->add_flag("--dry-run", options->removal.dry_run, "Only print what would be removed");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Checkpoints that are being read stay, and so do those of later steps than the one that `latest` names.");
  command->callback([options, &page] {
    options->removal.retention.keep_for = std::chrono::seconds{options->older_than};
    auto const removed = collect_garbage(options->path, options->removal);
    options->json ? page.add_data(as_json(removed)) : page.add_text(as_text(removed));
  });
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Page& page) {
  auto* const checkpoint =
      app.add_subcommand("checkpoint", "Inspects, verifies, compares, exports and removes checkpoints");
  checkpoint->require_subcommand(1);
  add_inspect(*checkpoint, page);
  add_verify(*checkpoint, page);
  add_diff(*checkpoint, page);
  add_export(*checkpoint, page);
  add_remove(*checkpoint, page);
  add_gc(*checkpoint, page);
}

}  // namespace zeroth::tools
