// SPDX-License-Identifier: Apache-2.0
#include "config/fuzz_one.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

#include "zeroth/config/config.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::testing {
namespace {

void require(bool holds, char const* what) {
  if (!holds) {
    throw std::logic_error{what};
  }
}

void check_settings(Settings const& settings, int world) {
  auto const& batch = settings.batch;
  auto const& precision = settings.precision;
  auto const& rules = settings.rules;
  require(settings.stage >= 0 && settings.stage <= 3, "stage");
  require(batch.micro > 0 && batch.accumulation > 0, "batch sizes are positive");
  require(batch.train == batch.micro * batch.accumulation * world, "batch sizes multiply");
  require(precision.gradient == Dtype::fp32 || precision.gradient == precision.compute, "gradient dtype");
  require(precision.accumulate == Dtype::fp32 || precision.accumulate == precision.reduce, "accumulate dtype");
  require(settings.gradient_slots >= 1 && settings.prefetch_count >= 0 && settings.reduce_bucket_count >= 0, "counts");
  if (auto const* const adam = std::get_if<optim::Adam>(&settings.update.rule)) {
    require(adam->beta1 < 1 && adam->beta2 < 1 && adam->epsilon > 0, "Adam");
  }
  require(std::isfinite(rules.clip) && rules.clip >= 0, "clip");
  require(std::isfinite(rules.loss_scale.initial) && rules.loss_scale.initial > 0, "loss scale");
  require(std::isfinite(rules.schedule.base) && std::isfinite(rules.schedule.warmup_max), "learning rate");
  require(settings.timeout.count() > 0, "timeout");
}

}  // namespace

Outcome fuzz_one(std::string_view text) {
  try {
    auto const config = Config::from_json(text);
    require(!config.to_string().empty() && !config.to_json().empty(), "printing");
    for (int const world : {1, 2, 3}) {
      try {
        check_settings(config.settings(world, 1000), world);
      } catch (ConfigError const& error) {
        require(std::string{error.what()}.starts_with("<text>: "), "message");
      }
    }
    return Outcome::accepted;
  } catch (ConfigError const& error) {
    require(std::string{error.what()}.starts_with("<text>: "), "message");
    return Outcome::refused;
  }
}

}  // namespace zeroth::testing
