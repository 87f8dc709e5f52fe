// SPDX-License-Identifier: Apache-2.0
#include "env_command.hpp"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include <zeroth/engine/environment.hpp>

namespace zeroth::tools {

void add_env_command(CLI::App& app, Page& page) {
  auto const json = std::make_shared<bool>(false);  // shared with the callback
  auto* const command = app.add_subcommand("env", "This machine and this build, for reports of faults");
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json, &page] {
    nlohmann::ordered_json object;
    for (auto const& [name, value] : environment()) {
      object[name] = value;
      if (!*json) {
        page.add_text(fmt::format("{:<12}  {}\n", name, value));
      }
    }
    if (*json) {
      page.add_data(object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    }
  });
}

}  // namespace zeroth::tools
