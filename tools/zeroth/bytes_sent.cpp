#include "bytes_sent.hpp"

#include <vector>

#include <zeroth/model/description.hpp>
#include <zeroth/simulate/simulate.hpp>

namespace zeroth::tools {

std::int64_t bytes_sent_per_step(Model const& model, Config const& config, int world) {
  // What is sent depends neither on the machine nor on how long the math takes.
  std::vector<simulate::UnitWork> const no_work(model.description().units.size());
  return simulate::run(model, config, world, no_work, simulate::machine_of("8xH100")).bytes_sent;
}

}  // namespace zeroth::tools
