// SPDX-License-Identifier: Apache-2.0
/// Passes of one Trainer that read the module of another one.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "gan.hpp"
#include "support/folder.hpp"
#include "support/job.hpp"
#include "support/thrown.hpp"
#include "torch_catch.hpp"
#include "two_layers.hpp"

namespace zeroth::testing::two_trainers {
namespace {

using torch_adapter::Trainer;

/// Few live parameters, so that units are gathered again in backward.
File at_stage(int stage, int accumulation = 1) {
  return {.stage = stage,
          .accumulation = accumulation,
          .zero = stage == 3 ? R"("stage3_max_live_parameters": 500)" : "",
          .zeroth = R"("reduce_gradients": "every_micro_step")"};
}

TEST_CASE("a GAN trains the same at stages 0 to 3, also if its networks are at different ones") {
  for (auto const& [world, accumulation] : {std::pair{1, 1}, {2, 2}, {3, 1}}) {
    auto const expected =
        train_gan_on_threads(world, at_stage(0, accumulation).config(), at_stage(0, accumulation).config());
    REQUIRE(std::isfinite(expected.losses.back()));
    for (auto const& [of_critic, of_generator] : {std::pair{1, 1}, {2, 2}, {3, 3}, {3, 0}, {1, 3}}) {
      INFO(world << " ranks, stages " << of_critic << " and " << of_generator);
      auto const trained = train_gan_on_threads(world, at_stage(of_critic, accumulation).config(),
                                                at_stage(of_generator, accumulation).config());
      CHECK(bits_of(trained) == bits_of(expected));
      CHECK(trained.buffers == expected.buffers);
    }
  }
}

TEST_CASE("a GAN with parameters on a disk trains like one at stage 0") {
  Folder const folder;
  auto const disk =
      R"("offload_param": {"device": "nvme", "max_in_cpu": 0, "nvme_path": ")" + folder.path().string() + R"("})";
  auto const plain = File{}.config(), on_disk = File{.stage = 3, .zero = disk}.config();
  CHECK(bits_of(train_gan_on_threads(2, on_disk, on_disk)) == bits_of(train_gan_on_threads(2, plain, plain)));
}

void expect_like_plain(File file, int steps, MakeOptimizer const& make) {
  file.stage = 3;
  file.micro = 6;
  file.more = R"("gradient_clipping": 0.0)";
  auto const trained = train_gan_on_threads(1, file.config(), file.config(), {.steps = steps});
  auto const plain = train_gan_plainly(file.micro, steps, make);
  auto const difference = [](std::vector<float> const& a, std::vector<float> const& b) {
    REQUIRE(a.size() == b.size());
    float most = 0, largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      most = std::max(most, std::abs(a[i] - b[i]));
      largest = std::max(largest, std::abs(b[i]));
    }
    return most / largest;
  };
  REQUIRE(trained.losses.size() == 2 * static_cast<std::size_t>(steps));
  CHECK(trained.losses[0] == plain.losses[0]);
  CHECK(difference(trained.losses, plain.losses) < 2e-5F);
  CHECK(difference(trained.norms, plain.norms) < 2e-4F);
  CHECK(difference(trained.weights, plain.weights) < 2e-5F);
  CHECK(difference(trained.buffers, plain.buffers) < 2e-5F);
}

TEST_CASE("a GAN trains like two of libtorch's optimizers, to rounding") {
  expect_like_plain({.learning_rate = 1e-3}, 6, [](auto const& parameters) {
    return std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions{1e-3}.weight_decay(0.1));
  });
  expect_like_plain(
      {.optimizer = R"("type": "SGD", "params": {"lr": 0.05, "momentum": 0.5})"}, 12, [](auto const& parameters) {
        return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions{0.05}.momentum(0.5));
      });
}

TEST_CASE("a pass that uses a module frozen changes none of its parameters, and gives them no gradient") {
  GanRun run;
  at::Tensor before;
  int compared = 0;
  run.before_generator = [&](Trainer& critic) { before = critic.read("second.linear.weight"); };
  run.after_generator = [&](Trainer& critic) {
    compared += at::equal(before, critic.read("second.linear.weight")) ? 1 : 0;
  };
  auto const file = at_stage(3);
  static_cast<void>(train_gan_on_threads(1, file.config(), file.config(), run));
  CHECK(compared == run.steps);
}

TEST_CASE("a micro-step that runs twice finds the other module's buffers and the generator as the first run did") {
  auto const trained = [](int world, bool drops, char const* zeroth) {
    torch::manual_seed(5);
    auto const config = File{.stage = 3, .zeroth = zeroth}.config();
    return train_gan_on_threads(world, config, config, {.drops = drops});
  };
  for (auto const& [world, drops] : {std::pair{2, false}, {1, true}}) {
    auto const once = trained(world, drops, "");
    auto const twice = trained(world, drops, R"("replay_every": 1)");
    CHECK(bits_of(twice) == bits_of(once));
    CHECK(twice.buffers == once.buffers);
  }
}

TEST_CASE("dropout in recomputed units works on one rank that has two Trainers") {
  auto const trained = [](bool recomputes) {
    torch::manual_seed(5);
    auto const config = File{.stage = 3}.config();
    return train_gan_on_threads(1, config, config, {.recomputes = recomputes, .drops = true});
  };
  auto const again = trained(true), kept = trained(false);
  CHECK(again.losses == kept.losses);
}

// ---- misuse ---------------------------------------------------------------------------------------------------------

/// The error of `use`, which gets two Trainers and their modules.
template <class E = ContractError>
std::string said(std::function<void(Trainer&, Net&, Trainer&, Net&)> const& use) {
  std::string message;
  auto const outcome = run_job(1, [&](Job& job) {
    auto mine = torch_adapter::seeded(1, [] { return Net{}; }), other = torch_adapter::seeded(2, [] { return Net{}; });
    message = thrown<E>([&] {
      Trainer my_trainer{job, File{.stage = 3}.config(), *mine}, other_trainer{job, File{.stage = 3}.config(), *other};
      use(my_trainer, mine, other_trainer, other);
    });
  });
  return message + messages_of(outcome);
}
auto contains(std::string const& text) { return Catch::Contains(text); }

TEST_CASE("a parameter that is read in another Trainer's pass without use_frozen() is rejected with that way out") {
  CHECK_THAT(said<c10::Error>([](Trainer& trainer, Net&, Trainer&, Net& other) {
               for (auto micro : trainer.micro_steps()) {
                 micro.backward(other(input()).sum());
               }
             }),
             contains("parameter \"a.linear.") && contains("was read outside of a micro-step") &&
                 contains("In a pass of another Trainer, call use_frozen() of that pass first"));
  CHECK_THAT(said([](Trainer& trainer, Net&, Trainer& others, Net&) {
               for (auto micro : trainer.micro_steps()) {
                 for (auto within : others.micro_steps()) {
                   within.skip();
                 }
                 micro.skip();
               }
             }),
             contains("a pass begins while one of another Trainer is under way") && contains("use_frozen()"));
}

TEST_CASE("use_frozen() of the wrong Trainer is rejected") {
  auto const in_pass = [](std::function<void(torch_adapter::MicroStep&, Trainer&, Trainer&)> const& use) {
    return said([&](Trainer& trainer, Net&, Trainer& others, Net&) {
      for (auto micro : trainer.micro_steps()) {
        use(micro, trainer, others);
      }
    });
  };
  CHECK_THAT(in_pass([](auto& micro, Trainer& trainer, Trainer&) { micro.use_frozen(trainer); }),
             contains("use_frozen() of the Trainer whose pass this is"));
  CHECK_THAT(in_pass([](auto& micro, Trainer&, Trainer& others) {
               micro.use_frozen(others);
               micro.use_frozen(others);
             }),
             contains("use_frozen() of a Trainer that this pass uses already"));
  CHECK_THAT(in_pass([](auto& micro, Trainer&, Trainer& others) {
               micro.use_frozen(others);
               micro.skip();
             }),
             contains("skip() of a micro-step that called use_frozen()"));
}

TEST_CASE("calls on a Trainer whose module a pass uses frozen are rejected by name") {
  struct Call {
    char const* name;
    std::function<void(Trainer&)> make;
  };
  Folder const folder;
  for (auto const& call :
       std::vector<Call>{{"micro_steps()", [](Trainer& trainer) { static_cast<void>(trainer.micro_steps()); }},
                         {"step()", [](Trainer& trainer) { trainer.step(); }},
                         {"finish()", [](Trainer& trainer) { trainer.finish(); }},
                         {"evaluation()", [](Trainer& trainer) { static_cast<void>(trainer.evaluation(1)); }},
                         {"save()", [&](Trainer& trainer) { trainer.save(folder.path()).wait(); }},
                         {"claim()", [&](Trainer& trainer) { trainer.claim(folder.path()); }},
                         {"restore()", [&](Trainer& trainer) { trainer.restore(folder.path()); }},
                         {"restore_latest()", [&](Trainer& trainer) { trainer.restore_latest(folder.path()); }},
                         {"save_weights()", [&](Trainer& trainer) { trainer.save_weights(folder / "w"); }},
                         {"load_weights()", [&](Trainer& trainer) { trainer.load_weights(folder / "w"); }},
                         {"read()", [](Trainer& trainer) { static_cast<void>(trainer.read("a.linear.bias")); }},
                         {"write()", [](Trainer& trainer) { trainer.write("a.linear.bias", at::zeros({8})); }},
                         {"gradient_norm()", [](Trainer& trainer) { static_cast<void>(trainer.gradient_norm()); }}}) {
    CHECK_THAT(said([&](Trainer& trainer, Net&, Trainer& others, Net&) {
                 for (auto micro : trainer.micro_steps()) {
                   micro.use_frozen(others);
                   call.make(others);
                 }
               }),
               contains(call.name + std::string{" of a Trainer that a pass of another Trainer uses frozen"}));
  }
}

TEST_CASE("a gradient that would reach a module that is used frozen is rejected by name") {
  CHECK_THAT(
      said([](Trainer& trainer, Net& mine, Trainer& others, Net& other) {
        at::Tensor earlier;
        for (auto micro : others.micro_steps()) {
          earlier = other->b->linear->bias * 2;
          micro.backward(other(input()).sum());
        }
        others.step();
        for (auto micro : trainer.micro_steps()) {
          micro.use_frozen(others);
          micro.backward((mine(input()) * earlier).sum());
        }
      }),
      contains("a gradient of \"b.linear.bias\" came in a pass that uses its Trainer frozen") && contains("detach()"));
}

TEST_CASE("an exception in a pass that uses another module frozen ends all ranks, and names the one that threw") {
  auto const outcome = run_job(2, [](Job& job) {
    torch_adapter::detail::without_backtrace([&] {
      auto mine = torch_adapter::seeded(1, [] { return Net{}; }),
           other = torch_adapter::seeded(2, [] { return Net{}; });
      Trainer trainer{job, File{.stage = 3}.config(), *mine}, others{job, File{.stage = 3}.config(), *other};
      for (auto micro : trainer.micro_steps()) {
        micro.use_frozen(others);
        auto const out = other(mine(input()));
        if (job.rank() == 1) {
          throw std::runtime_error{"a program's own"};
        }
        micro.backward(out.square().mean());
      }
      trainer.step();
      trainer.finish();
    });
  });
  CHECK(message_of(outcome[1]) == "a program's own");
  CHECK_THAT(message_of(outcome[0]), contains("rank 1"));
}

TEST_CASE("after a pass that used a module frozen, its Trainer trains it on") {
  std::vector<bool> good;
  CHECK(said([&](Trainer& trainer, Net& mine, Trainer& others, Net& other) {
          for (int step = 0; step < 2; ++step) {
            for (auto micro : trainer.micro_steps()) {
              micro.use_frozen(others);
              good.push_back(!other->a->linear->weight.requires_grad());
              micro.backward(other(mine(input())).square().mean());
            }
            trainer.step();
            good.push_back(other->a->linear->weight.requires_grad());
            auto const before = others.read("a.linear.weight");
            for (auto micro : others.micro_steps()) {
              micro.backward(other(input()).square().mean());
            }
            others.step();
            others.finish();
            good.push_back(!at::equal(before, others.read("a.linear.weight")));
          }
          trainer.finish();
        }) == "");
  CHECK(good == std::vector<bool>(6, true));
}

}  // namespace
}  // namespace zeroth::testing::two_trainers
