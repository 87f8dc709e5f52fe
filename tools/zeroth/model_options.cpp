#include "model_options.hpp"

#include "option_values.hpp"

namespace zeroth::tools {

void add_model_options(CLI::App& command, ModelRequest& request) {
  auto* const group = command.add_option_group("Model", "What is trained: one of");
  group->add_option("--model", request.model,
                    "Preset (124M to 1T), Hugging Face config.json or safetensors file or their folder, or JSON list "
                    "of units and parameters");
  auto* const parameters = group->add_option("--parameters", request.parameters, "So many, in equal units: 7.5e9");
  parameters->transform(whole_from(1, largest_parameter_count));
  group->require_option(1);
  command.add_option("--units", request.units, "Of --parameters [32]")
      ->transform(whole_from(1, largest_unit_count))
      ->needs(parameters);
}

}  // namespace zeroth::tools
