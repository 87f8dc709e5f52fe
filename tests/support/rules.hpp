// SPDX-License-Identifier: Apache-2.0
/// Rules for tests of updates and of training: each of the library's, with other values than its defaults.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "zeroth/optim/update.hpp"

namespace zeroth::testing {

struct NamedRule {
  char const* name;
  optim::Rule rule;
  char const*
      optimizer;  ///< Members of a stage file's section `optimizer`. The rate and the weight decay are 0.01 and 0.1.
};

[[nodiscard]] inline std::vector<NamedRule> all_rules() {
  using namespace optim;
  RmsProp const rmsprop{.alpha = 0.9, .epsilon = 1e-6F, .weight_decay = 0.1F};
  return {
      {"AdamW", Adam{.weight_decay = 0.1F}, R"("type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1})"},
      {"SGD", Sgd{.weight_decay = 0.1F}, R"("type": "SGD", "params": {"lr": 0.01, "weight_decay": 0.1})"},
      {"SGD with momentum", Momentum{.momentum = 0.75F, .dampening = 0.25, .weight_decay = 0.1F},
       R"("type": "SGD", "params": {"lr": 0.01, "weight_decay": 0.1, "momentum": 0.75, "dampening": 0.25})"},
      {"SGD with Nesterov's momentum", Momentum{.momentum = 0.75F, .weight_decay = 0.1F, .nesterov = true},
       R"("type": "SGD", "params": {"lr": 0.01, "weight_decay": 0.1, "momentum": 0.75, "nesterov": true})"},
      {"Adagrad", Adagrad{.epsilon = 1e-6F, .weight_decay = 0.1F, .rate_decay = 0.125F, .initial_sum = 0.5F},
       R"("type": "Adagrad", "params": {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-6, "lr_decay": 0.125,
                                        "initial_accumulator_value": 0.5})"},
      {"RMSprop", rmsprop,
       R"("type": "RMSprop", "params": {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-6, "alpha": 0.9})"},
      {"RMSprop with momentum", RmsPropMomentum{.plain = rmsprop, .momentum = 0.75F},
       R"("type": "RMSprop", "params": {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-6, "alpha": 0.9,
                                        "momentum": 0.75})"},
      {"Lion", Lion{.beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1F},
       R"("type": "Lion", "params": {"lr": 0.01, "weight_decay": 0.1, "betas": [0.9, 0.99]})"},
  };
}

/// LAMB, whose update is the second of two passes.
[[nodiscard]] inline NamedRule lamb() {
  return {"Lamb", optim::Lamb{.epsilon = 1e-6F, .weight_decay = 0.1F},
          R"("type": "Lamb", "params": {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-6})"};
}
/// all_rules(), and those whose update of an element needs more than that element.
[[nodiscard]] inline std::vector<NamedRule> trained_rules() {
  auto rules = all_rules();
  rules.push_back(lamb());
  return rules;
}
/// trained_rules(), and the one that trains only at stage 0.
[[nodiscard]] inline std::vector<NamedRule> kernel_rules() {
  auto rules = trained_rules();
  rules.push_back(
      {"1-bit Adam", optim::OneBitAdam{.adam = {.epsilon = 1e-6F, .weight_decay = 0.1F}},
       R"("type": "OneBitAdam", "params": {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-6, "freeze_step": 2})"});
  return rules;
}
/// Whether a stage file with this rule may ask for bf16 states.
[[nodiscard]] inline bool has_bf16_states(NamedRule const& rule) {
  return !std::holds_alternative<optim::Lamb>(rule.rule);
}

/// Momentum of all_rules(), without decay, as a program's own rule. It does the same operations on scaled gradients,
/// and so computes the same bits.
[[nodiscard]] inline optim::CustomRule own_momentum() {
  return {"own momentum", {{"buffer"}}, [](optim::CustomRuleElements const& e) {
            float const rest = e.applied == 1 ? 1.0F : 0.75F;
            for (std::size_t i = 0; i < e.master.size(); ++i) {
              float const next = 0.75F * e.states[0][i] + rest * e.gradient[i];
              e.states[0][i] = next;
              e.master[i] = e.master[i] - e.learning_rate * next;
            }
          }};
}
[[nodiscard]] inline optim::Momentum same_momentum() { return {.momentum = 0.75F, .dampening = 0.25}; }

}  // namespace zeroth::testing
