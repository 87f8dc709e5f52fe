// SPDX-License-Identifier: Apache-2.0
#include "config_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include <zeroth/config/config.hpp>
#include <zeroth/core/error.hpp>
#include <zeroth/tool/config/assignments.hpp>
#include <zeroth/tool/core/terminal.hpp>

#include "config_diff.hpp"
#include "config_writer.hpp"
#include "job_options.hpp"
#include "option_values.hpp"
#include "readable.hpp"
#include "standard_input.hpp"

namespace zeroth::tools {
namespace {

constexpr int could_start = 0, is_refused = 1, is_open = 3;
constexpr int same = 0, differs = 1, not_comparable = 2;  // as diff(1)

struct ConfigOptions {
  std::vector<std::string> files;
  std::optional<int> ranks;
  std::string given_file;
  std::vector<std::string> assignments;
  std::string written_file;
  bool json = false, quiet = false, compares = false;
};

/// The result for one file.
struct FileResult {
  std::string file;
  int status = could_start;
  std::vector<std::string> problems;  // lines; the first one gives the file and the number of problems
  std::optional<Config> config;       // set if the file itself is valid
  std::optional<Settings> settings;   // set if a job could start
  int ranks = 1;
};

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    auto const end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// The number of ranks if none is given: the number that the three batch sizes imply, or 1.
int ranks_of(Config const& config) {
  auto const values = nlohmann::json::parse(config.to_json());
  auto const stated = [&](char const* path) -> std::int64_t {
    auto const& entry = values.at(path);
    return entry["origin"].get<std::string>().starts_with("d") || !entry["value"].is_number_integer()
               ? 0
               : entry["value"].get<std::int64_t>();
  };
  auto const train = stated("train_batch_size");
  auto const others = stated("train_micro_batch_size_per_gpu") * stated("gradient_accumulation_steps");
  bool const implies = train > 0 && others > 0 && train % others == 0 && train / others <= largest_world;
  return implies ? static_cast<int>(train / others) : 1;
}

FileResult check_file(std::string const& file, ConfigInputs const& inputs, std::optional<int> ranks) {
  FileResult result;
  result.file = file == standard_input ? standard_input_name : file;
  try {
    result.config = read_config(file, inputs, "config");
    result.ranks = ranks ? *ranks : ranks_of(*result.config);
    if (!result.config->open().empty()) {
      result.status = is_open;
    } else {
      result.settings = result.config->settings(result.ranks, 1);
    }
  } catch (ConfigError const& error) {
    result.status = is_refused;
    result.problems = lines_of(file == standard_input ? name_standard_input(error.what()) : error.what());
  }
  return result;
}

std::string open_names(FileResult const& result) {
  std::vector<std::string> names;
  for (auto const& open : result.config->open()) {
    names.push_back(open.path);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string in_ranks(int ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

/// One line, for a list of files.
std::string line_of(FileResult const& result, Paper const& paper) {
  if (result.status == is_refused) {
    auto const& problems = result.problems;
    auto const first = problems.size() > 1 ? problems[1].substr(2) : problems[0];
    auto const more = problems.size() > 2 ? fmt::format(" (and {} more)", problems.size() - 2) : std::string{};
    return fmt::format("{}: {}: {}{}\n", result.file, paper.bad("refused"), first, more);
  }
  auto const notes =
      result.config->notes().empty() ? std::string{} : fmt::format(" ({} noted)", result.config->notes().size());
  return result.status == is_open
             ? fmt::format("{}: {}: {}{}\n", result.file, paper.open("open"), open_names(result), notes)
             : fmt::format("{}: {} {}{}\n", result.file, in_ranks(result.ranks), paper.good("could start"), notes);
}

/// The result with its reasons, then every value.
std::string text_of(FileResult const& result, Paper const& paper) {
  if (result.status == is_refused) {
    auto const& problems = result.problems;
    auto const details = fmt::format("{}", fmt::join(problems.begin() + 1, problems.end(), "\n"));
    return fmt::format("{}\n{}{}", paper.bad(problems.front()), details, details.empty() ? "" : "\n");
  }
  auto const& config = *result.config;
  std::string text;
  if (result.settings) {
    auto const& batch = result.settings->batch;
    text =
        fmt::format("{}: {} {}: {} samples an update = {} x {} accumulated x {}\n", result.file, in_ranks(result.ranks),
                    paper.good("could start"), batch.train, batch.micro, batch.accumulation, in_ranks(result.ranks));
  } else {
    text = fmt::format("{}: {}, to be given by the program, --given or --set:\n", result.file, paper.open("open"));
    for (auto const& [path, line, allowed] : config.open()) {
      text += fmt::format("  {}{}: {}\n", path, line > 0 ? fmt::format(" (line {})", line) : "", allowed);
    }
  }
  if (!config.notes().empty()) {
    text += "without effect, unknown, or assumed:\n";
    for (auto const& note : config.notes()) {
      text +=
          fmt::format("  {}{}: {}\n", note.path, note.line > 0 ? fmt::format(" (line {})", note.line) : "", note.text);
    }
  }
  return text + "\n" + config.to_string();
}

nlohmann::ordered_json json_of(FileResult const& result) {
  constexpr char const* words[] = {"could start", "refused", "", "open"};
  nlohmann::ordered_json json{{"file", result.file}, {"status", words[result.status]}, {"problems", result.problems}};
  if (!result.config) {
    return json;
  }
  json["ranks"] = result.ranks;
  json["open"] = nlohmann::ordered_json::array();
  for (auto const& [path, line, allowed] : result.config->open()) {
    json["open"].push_back({{"path", path}, {"line", line}, {"allowed", allowed}});
  }
  json["notes"] = nlohmann::ordered_json::array();
  for (auto const& [kind, path, line, text] : result.config->notes()) {
    constexpr char const* kinds[] = {"without effect", "unknown", "assumed"};
    json["notes"].push_back(
        {{"kind", kinds[static_cast<std::size_t>(kind)]}, {"path", path}, {"line", line}, {"text", text}});
  }
  if (result.settings) {
    auto const& batch = result.settings->batch;
    json["batch"] = {{"train", batch.train}, {"micro", batch.micro}, {"accumulation", batch.accumulation}};
  }
  json["values"] = nlohmann::ordered_json::parse(result.config->to_json());
  return json;
}

int print(ConfigOptions const& options, Page& page) {
  auto const inputs = inputs_of(options.given_file, options.assignments);
  int status = could_start;
  auto all = nlohmann::ordered_json::array();
  for (auto const& file : options.files) {
    auto const result = check_file(file, inputs, options.ranks);
    status = result.status == is_refused || status == is_refused ? is_refused : std::max(status, result.status);
    if (options.json) {
      all.push_back(json_of(result));
    } else if (!options.quiet) {
      page.add_text(options.files.size() > 1 ? line_of(result, page.paper()) : text_of(result, page.paper()));
    } else if (result.status != could_start) {
      page.add_text(line_of(result, page.paper()));
    }
  }
  if (options.json) {
    auto const& json = options.files.size() > 1 ? all : all.front();
    page.add_data(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  return status;
}

int print_differences(ConfigOptions const& options, Page& page) {
  if (options.files.size() != 2) {
    throw CLI::ValidationError{"--diff", fmt::format("{}; allowed: 2", counted(std::ssize(options.files), "file"))};
  }
  auto const inputs = inputs_of(options.given_file, options.assignments);
  std::vector<Config> configs;
  for (auto const& file : options.files) {
    auto const result = check_file(file, inputs, options.ranks);
    if (!result.config) {
      page.add_text(text_of(result, page.paper()));
      return not_comparable;
    }
    configs.push_back(*result.config);
  }
  auto const differences = compare(configs[0], configs[1]);
  options.json ? page.add_data(as_json(differences, configs[0], configs[1]))
               : page.add_text(as_text(differences, configs[0], configs[1]));
  return differences.empty() ? same : differs;
}

int run(ConfigOptions const& options, Page& page) {
  if (!options.written_file.empty()) {
    if (options.ranks || !options.given_file.empty() || !options.assignments.empty() || options.json || options.quiet) {
      throw CLI::ValidationError{"--write", "asks for all it needs; leave out the other options"};
    }
    write_config(options.written_file, std::cin, std::cerr, terminal_at(STDIN_FILENO).is_there, page);
    return page.status;
  }
  if (options.files.empty()) {
    throw CLI::RequiredError{"files"};
  }
  return options.compares ? print_differences(options, page) : print(options, page);
}

}  // namespace

void add_config_command(CLI::App& app, Page& page) {
  auto const options = std::make_shared<ConfigOptions>();  // shared with the callback
  auto* const command =
      app.add_subcommand("config", "Prints what stage files set, and whether a job could start with them");
  auto* const files = command->add_option(
      "files", options->files, "Stage files, or - for standard input; prints one line per file if there are several");
  command->add_option("--ranks", options->ranks, "Number of ranks of the job [from the three batch sizes, or 1]")
      ->transform(whole_from(1, largest_world));
  add_beside_options(*command, options->given_file, options->assignments);
  auto* const json = command->add_flag("--json", options->json, "Print JSON; an array if there are several files");
  auto* const quiet =
      command->add_flag("-q,--quiet", options->quiet, "Print nothing for valid files, and one line for each other");
  quiet->excludes(json);
  auto* const diff = command->add_flag("--diff", options->compares,
                                       "Print the values in which two files differ, including derived ones");
  diff->excludes(quiet);
  command
      ->add_option("--write", options->written_file,
                   "Ask seven questions, and write a stage file with the lowest stage that fits")
      ->excludes(files)
      ->excludes(diff);
  command->footer(
      "The exit status is 0 if a job could start, 1 if a file is invalid, and 3 if it leaves values open. With --diff "
      "it is 0 if the values are the same, 1 if they differ, and 2 if a file is invalid. With --write it is 3 if "
      "nothing fits.");
  command->callback([options, &page] { page.status = run(*options, page); });
}

}  // namespace zeroth::tools
