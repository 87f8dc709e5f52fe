// SPDX-License-Identifier: Apache-2.0
/// From optimizer.type to a rule, and rules that the program brings.
#include <limits>
#include <variant>

#include "config/config_support.hpp"
#include "support/catch.hpp"
#include "support/rules.hpp"

namespace zeroth {
namespace {

using Catch::Contains;

Settings with_optimizer(std::string const& members) {
  return testing::settings_of(fmt::format(R"("optimizer": {{{}}})", members));
}

template <class R>
R rule_of(std::string const& members) {
  return std::get<R>(with_optimizer(members).update.rule);
}

TEST_CASE("Every type of optimizer has its parameters") {
  for (auto const& [name, rule, optimizer] : testing::trained_rules()) {
    INFO(name);
    auto const settings = with_optimizer(optimizer);
    CHECK(settings.update.rule.index() == rule.index());
    CHECK(settings.rules.schedule.base == 0.01F);
    CHECK(settings.rules.betas == optim::betas_of(rule));
  }
  auto const momentum =
      rule_of<optim::Momentum>(R"("type": "sgd", "params": {"momentum": 0.5, "nesterov": true, "weight_decay": 0.25})");
  CHECK(momentum.momentum == 0.5F);
  CHECK(momentum.nesterov);
  CHECK(momentum.weight_decay == 0.25F);
  CHECK(rule_of<optim::Momentum>(R"("type": "SGD", "params": {"momentum": 0.5, "dampening": 0.125})").dampening ==
        0.125F);
  CHECK(rule_of<optim::Sgd>(R"("type": "SGD", "params": {"weight_decay": 0.25})").weight_decay == 0.25F);
  auto const adagrad = rule_of<optim::Adagrad>(
      R"("type": "Adagrad", "params": {"eps": 0.5, "weight_decay": 0.25, "lr_decay": 2,
                                       "initial_accumulator_value": 3})");
  CHECK(adagrad.epsilon == 0.5F);
  CHECK(adagrad.weight_decay == 0.25F);
  CHECK(adagrad.rate_decay == 2);
  CHECK(adagrad.initial_sum == 3);
  auto const rmsprop = rule_of<optim::RmsPropMomentum>(
      R"("type": "RMSprop", "params": {"alpha": 0.5, "eps": 0.125, "weight_decay": 0.25, "momentum": 0.75})");
  CHECK(rmsprop.plain.alpha == 0.5F);
  CHECK(rmsprop.plain.epsilon == 0.125F);
  CHECK(rmsprop.plain.weight_decay == 0.25F);
  CHECK(rmsprop.momentum == 0.75F);
  auto const lion = rule_of<optim::Lion>(R"("type": "Lion", "params": {"betas": [0.5, 0.75], "weight_decay": 0.25})");
  CHECK(lion.beta1 == 0.5F);
  CHECK(lion.beta2 == 0.75F);
  CHECK(lion.weight_decay == 0.25F);
}

TEST_CASE("Rates and epsilons have the defaults of their optimizer") {
  auto const rate = [](char const* type) {
    return with_optimizer(fmt::format(R"("type": "{}")", type)).rules.schedule.base;
  };
  CHECK(rate("AdamW") == 1e-3F);
  CHECK(rate("SGD") == 1e-3F);
  CHECK(rate("Lion") == 1e-3F);
  CHECK(rate("Adagrad") == 1e-2F);
  CHECK(rate("RMSprop") == 1e-2F);
  CHECK(rule_of<optim::Adagrad>(R"("type": "Adagrad")").epsilon == 1e-10F);
  CHECK(rule_of<optim::RmsProp>(R"("type": "RMSprop")").epsilon == 1e-8F);
}

TEST_CASE("Muon is the optimizer of matrices, and AdamW that of the others") {
  auto const by_default = with_optimizer(R"("type": "muon")");
  auto const* const muon = &std::get<optim::Muon>(by_default.matrix_update.value().rule);
  CHECK(by_default.optimizer_name() == "Muon");
  CHECK(muon->momentum == 0.95);
  CHECK(muon->nesterov);
  CHECK(muon->weight_decay == 0);
  CHECK(muon->steps == 5);
  CHECK(muon->adjust_rate == optim::AdjustRate::original);
  CHECK(by_default.rules.schedule.base == 0.02F);
  CHECK(by_default.rules.betas == std::array{0.9, 0.999});
  CHECK(by_default.matrix_update->learning_rate_factor == 1);
  CHECK(by_default.update.learning_rate_factor == Approx(3e-4 / 0.02));
  CHECK(std::get<optim::Adam>(by_default.update.rule).decoupled_decay);

  auto const given = with_optimizer(
      R"("type": "Muon", "params": {"lr": 0.5, "muon_lr": 0.25, "adam_lr": 0.125, "momentum": 0.5, "nesterov": false,
         "weight_decay": 0.25, "betas": [0.5, 0.75], "eps": 0.125, "ns_steps": 3, "ns_method": "standard",
         "adjust_lr_fn": "match_rms_adamw"})");
  auto const& rule = std::get<optim::Muon>(given.matrix_update.value().rule);
  CHECK(rule.momentum == 0.5);
  CHECK_FALSE(rule.nesterov);
  CHECK(rule.weight_decay == 0.25F);
  CHECK(rule.steps == 3);
  CHECK(rule.adjust_rate == optim::AdjustRate::match_rms_adamw);
  CHECK(given.matrix_update->learning_rate_factor == 0.5F);
  CHECK(given.update.learning_rate_factor == 0.25F);
  auto const& adam = std::get<optim::Adam>(given.update.rule);
  CHECK(adam.beta1 == 0.5);
  CHECK(adam.epsilon == 0.125F);
  CHECK(adam.weight_decay == 0.25F);
  CHECK(with_optimizer(R"("type": "Muon", "params": {"lr": 0.01})").update.learning_rate_factor == 1);
  CHECK_FALSE(with_optimizer(R"("type": "AdamW")").matrix_update);
}

TEST_CASE("What Muon does not support is refused, with the reason") {
  auto const refused = [](std::string const& params, std::string const& more, char const* why) {
    CHECK_THROWS_WITH(
        with_optimizer(fmt::format(
            R"("type": "Muon", "params": {{{}}}}}, {}"steps_per_print": 1, "zeroth": {{"check": false)", params, more)),
        Contains(why));
  };
  refused(R"("momentum": 1)", "", "optimizer.params.momentum (line 1): 1, but optimizer.type is Muon");
  refused(R"("lr": 0, "adam_lr": 0.1)", "", "optimizer.params.lr (line 1): 0, but muon_lr is 0 and adam_lr 0.1");
  refused(R"("ns_method": "svd")", "", R"(optimizer.params.ns_method (line 1): "svd")");
  refused(R"("alpha": 0.5)", "", "not a parameter of Muon");
  refused("", R"("zero_optimization": {"offload_optimizer": {"device": "nvme", "nvme_path": "/tmp"}}, )",
          "which computes directions from fp32 states in memory; allowed: \"none\"");
  refused("", R"("zero_optimization": {"cpu_offload": true}, )",
          "cpu_offload (line 1): true, but optimizer.type is Muon");
  refused("", R"("bf16": {"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}, )",
          "which computes directions from fp32 states in memory; allowed: false");
}

TEST_CASE("1-bit Adam is AdamW with a freeze, and clips nothing") {
  auto const given = with_optimizer(
      R"("type": "OneBitAdam", "params": {"lr": 0.5, "betas": [0.5, 0.75], "eps": 0.125, "weight_decay": 0.25,
         "freeze_step": 7, "cuda_aware": false, "comm_backend_name": "nccl"})");
  auto const& rule = std::get<optim::OneBitAdam>(given.update.rule);
  CHECK(rule.freeze_step == 7);
  CHECK(rule.adam.beta1 == 0.5);
  CHECK(rule.adam.epsilon == 0.125F);
  CHECK(rule.adam.weight_decay == 0.25F);
  CHECK(rule.adam.decoupled_decay);
  CHECK(given.rules.second_moves_until == 7);
  CHECK(given.rules.betas == std::array{0.5, 0.75});
  CHECK(given.rules.clip == 0);
  CHECK(with_optimizer(R"("type": "AdamW")").rules.clip == 1);
}

TEST_CASE("A program's own products are Muon's, in every copy of a config") {
  int calls = 0;
  auto const count = [&](optim::MatrixProduct const&) { ++calls; };
  auto const muon = Config::from_json(testing::file_with(R"("optimizer": {"type": "Muon"})"));
  auto const config = muon.with(optim::Multiply{count}).with(R"({"zero_optimization": {"stage": 2}})");
  std::get<optim::Muon>(config.settings(1, 1000).matrix_update.value().rule).multiply({});
  CHECK(calls == 1);
  CHECK_FALSE(std::get<optim::Muon>(muon.settings(1, 1000).matrix_update.value().rule).multiply);
  auto const adam = Config::from_json(testing::file_with(R"("optimizer": {"type": "AdamW"})"));
  CHECK_FALSE(adam.with(optim::Multiply{count}).settings(1, 1000).matrix_update);
  CHECK_FALSE(adam.newton_schulz_method());
  CHECK(muon.newton_schulz_method() == optim::NewtonSchulzMethod::standard);
  CHECK(muon.with(R"({"optimizer": {"params": {"ns_method": "gram"}}})").newton_schulz_method() ==
        optim::NewtonSchulzMethod::gram);
  CHECK_THROWS_WITH(muon.with(optim::Multiply{}), Contains("the program's function for products is empty"));
}

TEST_CASE("Lamb has DeepSpeed's parameters, and what it does not support is refused") {
  auto const given = rule_of<optim::Lamb>(
      R"("type": "lamb", "params": {"betas": [0.5, 0.75], "eps": 0.125, "weight_decay": 0.25, "max_coeff": 4,
                                    "min_coeff": 0.5, "bias_correction": false})");
  CHECK(given.beta1 == 0.5);
  CHECK(given.beta2 == 0.75);
  CHECK(given.epsilon == 0.125F);
  CHECK(given.weight_decay == 0.25F);
  CHECK(given.max_coefficient == 4);
  CHECK(given.min_coefficient == 0.5F);
  CHECK_FALSE(given.bias_correction);
  auto const settings = with_optimizer(R"("type": "Lamb")");
  auto const& rule = std::get<optim::Lamb>(settings.update.rule);
  CHECK(rule.max_coefficient == 10);
  CHECK(rule.min_coefficient == 0.01F);
  CHECK(settings.rules.betas == std::array{0.9, 0.999});
  CHECK(settings.rules.schedule.base == 0.001F);
  auto const refused = [](std::string const& more, char const* why) {
    CHECK_THROWS_WITH(with_optimizer(R"("type": "Lamb"}, )" + more + R"("zeroth": {"check": false)"), Contains(why));
  };
  std::string const masters = R"("bf16": {"enabled": true, "bf16_master_weights_and_grads": true)";
  refused(masters + R"(, "bf16_optimizer_states": true}, )",
          "true, but optimizer.type is Lamb, which computes trust ratios from fp32 states in memory; allowed: false");
  refused(
      masters + R"(}, "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/tmp"}}, )",
      "which reads all masters before it updates the first");
  refused(R"("zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/tmp"}}, )",
          "here parameters are the masters");
  CHECK_NOTHROW(with_optimizer(R"("type": "Lamb"}, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
      "offload_param": {"device": "nvme", "nvme_path": "/tmp"}}, "zeroth": {"check": false)"));
}

TEST_CASE("A program's own rule replaces optimizer.type") {
  auto const file = Config::from_json(testing::file_with(R"("zero_optimization": {"stage": 1})"));
  auto const config = file.with(testing::own_momentum());
  auto const settings = config.settings(1, 1000);
  CHECK(optim::name_of(settings.update.rule) == "own momentum");
  CHECK(settings.rules.betas == std::array{0.0, 0.0});
  auto const printed = testing::printed(config);
  CHECK(printed["optimizer.type"]["value"] == "own momentum");
  CHECK(printed["optimizer.type"]["origin"] == "the program's own");
  CHECK_FALSE(printed.contains("optimizer.params.betas"));
  auto const changed = config.with(R"({"zero_optimization": {"stage": 2}})").settings(1, 1000);
  CHECK(changed.stage == 2);
  CHECK(optim::name_of(changed.update.rule) == "own momentum");

  auto const lion = Config::from_json(testing::file_with(R"("optimizer": {"type": "Lion"})"));
  CHECK_THROWS_WITH(lion.with(testing::own_momentum()),
                    Contains(R"(optimizer.type (line 1): "Lion", but the program uses its own rule, )"
                             R"("own momentum"; remove optimizer.type)"));
  auto const refused = [&](optim::CustomRule const& rule, char const* why) {
    CHECK_THROWS_WITH(file.with(rule), Contains(why));
  };
  auto rule = testing::own_momentum();
  rule.kept_states.resize(3);
  refused(rule, "keeps 3 states; allowed: up to 2");
  rule.kept_states = {{"buffer", std::numeric_limits<float>::infinity()}};
  refused(rule, R"(starts its state "buffer" from inf)");
  rule.update = {};
  rule.kept_states.clear();
  refused(rule, "has no function");
  rule.type.clear();
  refused(rule, "has no name");
}

}  // namespace
}  // namespace zeroth
