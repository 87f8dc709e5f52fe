// SPDX-License-Identifier: Apache-2.0
/// Parameters that a Trainer leaves alone.
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/folder.hpp"
#include "support/job.hpp"
#include "support/thrown.hpp"
#include "torch_catch.hpp"
#include "train.hpp"

namespace zeroth::testing::ignored_parameters {
namespace {

namespace nn = torch::nn;
using torch_adapter::Trainer;
using torch_adapter::TrainerOptions;
using torch_adapter::UnitPolicy;

struct LayerImpl : nn::Module {
  nn::Linear linear{register_module("linear", nn::Linear{8, 8})};
  at::Tensor gain{register_parameter("gain", at::ones({8}, at::kDouble))};  // a type that an engine rejects
  at::Tensor forward(at::Tensor const& x) { return at::tanh(linear(x)) * gain.to(at::kFloat); }
};
ZEROTH_TORCH_UNIT(Layer);
struct AdapterImpl : nn::Module {
  nn::Linear down{register_module("down", nn::Linear{8, 3})};
  at::Tensor forward(at::Tensor const& x) { return down(x); }
};
ZEROTH_TORCH_UNIT(Adapter);
struct NetImpl : nn::Module {
  Layer a{register_module("a", Layer{})}, b{register_module("b", Layer{})};
  Adapter adapter{register_module("adapter", Adapter{})};
  at::Tensor forward(at::Tensor const& x) { return adapter(b(a(x))); }
};
TORCH_MODULE(Net);

at::Tensor rows(std::int64_t first, std::int64_t count) {
  return at::sin(at::arange(first, first + count).unsqueeze(1) * 0.7 + at::arange(8) * 0.3);
}
std::vector<UnitPolicy> const ignored{"*.gain", "adapter.*.*"};

/// Trains with the program's own optimizer for parameters that the Trainer ignores, and returns all losses and weights.
std::vector<at::Tensor> train(int stage, bool is_deferred, std::function<void(Trainer&, Net&)> const& use = {}) {
  std::vector<at::Tensor> seen;
  auto const outcome = run_job(1, [&](Job& job) {
    auto const make = [] { return Net{}; };
    auto net = is_deferred ? torch_adapter::deferred_init(6, make) : torch_adapter::seeded(6, make);
    Trainer trainer{job,
                    File{.stage = stage, .micro = 4, .more = R"("gradient_clipping": 0.0)"}.config(),
                    *net,
                    {.ignored = ignored}};
    std::vector<at::Tensor> own{net->a->gain, net->b->gain, net->adapter->down->weight, net->adapter->down->bias};
    torch::optim::AdamW optimizer{own, torch::optim::AdamWOptions{1e-2}.weight_decay(0.1)};
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      for (auto micro : trainer.micro_steps()) {
        micro.backward(net(rows(micro.first_sample(), 4)).square().mean());
      }
      trainer.step();
      seen.push_back(at::tensor(trainer.finish()->loss));
      optimizer.step();  // readable outside of passes
    }
    if (use) {
      use(trainer, net);
    }
    seen.push_back(trainer.read("a.linear.weight"));
    for (auto const& tensor : own) {
      seen.push_back(tensor.detach().clone());
    }
  });
  if (auto const messages = messages_of(outcome); !messages.empty()) {
    throw std::runtime_error{messages};
  }
  return seen;
}

/// Trains only by one of libtorch's optimizers.
std::vector<at::Tensor> train_alone() {
  auto net = torch_adapter::seeded(6, [] { return Net{}; });
  torch::optim::AdamW optimizer{net->parameters(), torch::optim::AdamWOptions{1e-2}.weight_decay(0.1)};
  std::vector<at::Tensor> seen;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    auto const loss = net(rows(step * 4, 4)).square().mean();
    loss.backward();
    seen.push_back(loss.detach());
    optimizer.step();
  }
  for (auto const& tensor :
       {net->a->linear->weight, net->a->gain, net->b->gain, net->adapter->down->weight, net->adapter->down->bias}) {
    seen.push_back(tensor.detach());
  }
  return seen;
}

TEST_CASE("ignored parameters stay the program's own, and train by its optimizer like the module by one alone") {
  auto const alone = train_alone();
  auto const expected = train(0, false);
  REQUIRE(expected.size() == alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    INFO("value " << i);
    CHECK(at::allclose(expected[i], alone[i], 1e-5, 1e-5));
  }
  for (int stage : {0, 1, 2, 3}) {
    for (bool const is_deferred : {false, true}) {
      INFO("stage " << stage << ", deferred " << is_deferred);
      auto const trained = train(stage, is_deferred);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(at::equal(trained[i], expected[i]));
      }
    }
  }
}

TEST_CASE("checkpoints leave ignored parameters as they are") {
  Folder const folder;
  at::Tensor before, after;
  static_cast<void>(train(3, false, [&](Trainer& trainer, Net& net) {
    trainer.save(folder.path()).wait();
    at::NoGradGuard const no_grad;
    static_cast<void>(net->a->gain.add_(1));
    before = net->a->gain.clone();
    trainer.restore(folder.path());
    after = net->a->gain.clone();
  }));
  CHECK(at::equal(before, after));
}

TEST_CASE("weight files have ignored parameters in their own type, and set them") {
  Folder const folder;
  std::vector<at::Tensor> values;
  static_cast<void>(train(3, false, [&](Trainer& trainer, Net& net) {
    trainer.save_weights(folder / "w");
    values.push_back(net->a->gain.detach().clone());
    {
      at::NoGradGuard const no_grad;
      static_cast<void>(net->a->gain.zero_());
    }
    trainer.load_weights(folder / "w");
    values.push_back(net->a->gain.detach().clone());
  }));
  REQUIRE(values.size() == 2);
  CHECK(values[0].scalar_type() == at::kDouble);
  CHECK(at::equal(values[0], values[1]));
}

TEST_CASE("a policy of ignored parameters that picks nothing or everything is rejected") {
  auto const with = [](std::vector<UnitPolicy> const& policies) {
    return messages_of(run_job(1, [&](Job& job) {
      auto net = torch_adapter::seeded(6, [] { return Net{}; });
      Trainer{job, File{}.config(), *net, {.ignored = policies}};
    }));
  };
  CHECK_THAT(with({"*.gain", "head.*"}),
             Catch::Contains("TrainerOptions::ignored: \"head.*\" picks no parameter; the names are those of "
                             "named_parameters(), such as \"a.gain\""));
  CHECK_THAT(with({"*.*", "*.*.*"}), Catch::Contains("TrainerOptions::ignored selects all parameters"));
  CHECK_THAT(with({torch_adapter::every<nn::LinearImpl>()}), Catch::Contains("parameter \"a.gain\" is of type Double"));
  CHECK(with({torch_adapter::every<LayerImpl>()}) == "");  // parameters that it registers itself
}

}  // namespace
}  // namespace zeroth::testing::ignored_parameters
