// SPDX-License-Identifier: Apache-2.0
/// Units that the program opens by hand, for kernels that read addresses.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/job.hpp"
#include "support/thrown.hpp"
#include "torch_catch.hpp"
#include "train.hpp"

namespace zeroth::testing::by_hand {
namespace {

namespace nn = torch::nn;
using torch_adapter::Trainer;
using torch_adapter::unshard;

constexpr std::int64_t width = 12;

/// x times a diagonal matrix, by the program's own kernel, which libtorch does not dispatch.
struct ScaleRows : torch::autograd::Function<ScaleRows> {
  static void scale(at::Tensor const& x, at::Tensor const& weight, at::Tensor const& y) {
    auto const* const factors = weight.data_ptr<float>();
    auto const* const from = x.data_ptr<float>();
    auto* const to = y.data_ptr<float>();
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      to[i] = from[i] * factors[i % width];
    }
  }
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor const& x, at::Tensor const& weight) {
    context->save_for_backward({x, weight});
    auto const open = unshard(weight);
    auto y = at::empty_like(x);
    scale(x, weight, y);
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list const& gradients) {
    auto const saved = context->get_saved_variables();
    auto const gradient = gradients[0].contiguous();
    auto into = at::empty_like(gradient);
    {
      auto const open = unshard(saved[1]);
      scale(gradient, saved[1], into);
    }
    return {into, (gradient * saved[0]).sum(0)};
  }
};

struct ScaledImpl : nn::Module {
  at::Tensor scale{register_parameter("scale", at::rand({width}) + 0.5)};
  nn::Linear linear{register_module("linear", nn::Linear{width, width})};
  bool by_hand;
  explicit ScaledImpl(bool kernel) : by_hand{kernel} {}
  at::Tensor forward(at::Tensor const& x) {
    auto const y = at::tanh(linear(x)).contiguous();
    return by_hand ? ScaleRows::apply(y, scale) : y * scale;
  }
};
ZEROTH_TORCH_UNIT(Scaled);

struct NetImpl : nn::Module {
  Scaled a{nullptr}, b{nullptr}, c{nullptr};
  at::Tensor gain{register_parameter("gain", at::rand({width}) + 0.5)};  // the root's
  explicit NetImpl(bool kernel) {
    a = register_module("a", Scaled{kernel});
    b = register_module("b", Scaled{kernel});
    c = register_module("c", Scaled{kernel});
  }
  at::Tensor forward(at::Tensor const& x) {
    auto const y = c(b(a(x)));
    return a->by_hand ? ScaleRows::apply(y, gain) : y * gain;
  }
};
TORCH_MODULE(Net);

at::Tensor rows(std::int64_t first, std::int64_t count) {
  return at::sin(at::arange(first, first + count).unsqueeze(1) * 0.7 + at::arange(width) * 0.3);
}

MakeProgram scaled(bool kernel, bool recomputes = false) {
  return [=](Job&) {
    auto net = torch_adapter::seeded(4, [&] { return Net{kernel}; });
    Program program{net.ptr(), {}, {}};
    if (recomputes) {
      program.options.recompute = {"*"};
    }
    program.loss = [net](std::int64_t first, std::int64_t count) mutable {
      return torch::mse_loss(net(rows(first, count)), rows(first + 1, count));
    };
    return program;
  };
}

TEST_CASE("kernels that read addresses train like operations of libtorch, at every stage") {
  auto const expected = train_on_threads(2, File{}.config(), scaled(false));
  for (int stage : {0, 1, 2, 3}) {
    INFO("stage " << stage);
    File const file{.stage = stage, .zero = R"("stage3_max_live_parameters": 200)"};
    CHECK(bits_of(train_on_threads(2, file.config(), scaled(true))) == bits_of(expected));
    CHECK(bits_of(train_on_threads(2, file.config(), scaled(true, true))) == bits_of(expected));
  }
  auto const alone = train_plainly(scaled(true), 4, 4, 1e-2);  // without a Trainer unshard() does nothing
  CHECK(alone.losses.size() == 4);
}

/// Trains a step in which `use` is called before forward, and returns its error.
std::string said(std::function<void(Trainer&, Net&)> const& use,
                 std::function<void(Trainer&, Net&)> const& before = {}) {
  std::string message;
  auto const outcome = run_job(1, [&](Job& job) {
    auto net = torch_adapter::seeded(4, [] { return Net{false}; });
    message = thrown<ContractError>([&] {
      Trainer trainer{job, File{.stage = 3}.config(), *net};
      if (before) {
        before(trainer, net);
      }
      for (auto micro : trainer.micro_steps()) {
        use(trainer, net);
        micro.backward(net(rows(micro.first_sample(), 2)).square().mean());
      }
      trainer.step();
      trainer.finish();
    });
  });
  return message + messages_of(outcome);
}

bool is_readable(at::Tensor const& tensor) {
  try {
    return tensor.data_ptr<float>() != nullptr;
  } catch (c10::Error const&) {
    return false;
  }
}

TEST_CASE("a unit that is opened by hand is readable until the object or the pass ends") {
  std::optional<torch_adapter::Unsharded> kept;
  std::vector<bool> readable;
  CHECK_THAT(said([&](Trainer& trainer, Net& net) {
               {
                 auto const open = trainer.unshard("b");
                 readable.push_back(is_readable(net->b->scale));
                 static_cast<void>(net->a->scale.sum());  // another unit opens
                 readable.push_back(is_readable(net->b->scale));
                 auto const again = trainer.unshard("b");
                 auto const root = trainer.unshard("");
                 readable.push_back(is_readable(net->gain));
               }
               static_cast<void>(net->c->scale.sum());
               readable.push_back(!is_readable(net->b->scale));
               kept.emplace(trainer.unshard("c"));  // through forward of the others, and backward
             }),
             Catch::Contains("unit \"c\" is read after unit \"b\" was, while an object of unshard() keeps it open"));
  kept.reset();
  CHECK(readable == std::vector<bool>(4, true));
}

TEST_CASE("an object of unshard() may outlive its pass, and be taken in backward and in evaluations") {
  std::optional<torch_adapter::Unsharded> kept;
  bool readable = true;
  CHECK(said(
            [&](Trainer& trainer, Net& net) {
              net->b->linear->weight.register_hook([&](at::Tensor const&) {
                auto const open = trainer.unshard("b");
                readable = readable && is_readable(net->b->scale);
              });
            },
            [&](Trainer& trainer, Net& net) {
              auto evaluation = trainer.evaluation(2);
              for (auto pass : evaluation) {
                kept.emplace(trainer.unshard("b"));
                static_cast<void>(net->a->scale.sum() + net->c->scale.sum());
                readable = readable && is_readable(net->b->scale);
                pass.report_loss(net(rows(0, 2)).square().mean());
              }
            }) == "");
  kept.reset();
  CHECK(readable);
}

TEST_CASE("unshard() of an unknown unit or outside of a pass is rejected") {
  auto const nothing = [](Trainer&, Net&) {};
  CHECK_THAT(said([](Trainer& trainer, Net&) { static_cast<void>(trainer.unshard("d")); }),
             Catch::Contains("unshard() of \"d\", which is not a unit; the units are: \"\", \"a\", \"b\", \"c\""));
  CHECK_THAT(said(nothing, [](Trainer& trainer, Net&) { static_cast<void>(trainer.unshard("a")); }),
             Catch::Contains("unshard() of \"a\" outside of a pass"));
  CHECK_THAT(said(nothing, [](Trainer&, Net& net) { static_cast<void>(unshard(net->a->scale)); }),
             Catch::Contains("unshard() of a Trainer's parameter outside of a pass"));
}

}  // namespace
}  // namespace zeroth::testing::by_hand
