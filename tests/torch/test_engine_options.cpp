// SPDX-License-Identifier: Apache-2.0
/// Options that a Trainer passes to its engine: dtypes, gathers, gradients before the update, rates.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "support/job.hpp"
#include "support/thrown.hpp"
#include "torch_catch.hpp"
#include "train.hpp"

namespace zeroth::testing {
namespace {

namespace nn = torch::nn;
using Catch::Contains;
using torch_adapter::GradientPart;
using torch_adapter::Trainer;

constexpr std::int64_t features = 20;

/// A block with a norm that computes in its own type.
struct BlockImpl : nn::Module {
  nn::Linear linear{register_module("linear", nn::Linear{features, features})};
  nn::LayerNorm norm{register_module("norm", nn::LayerNorm{nn::LayerNormOptions({features})})};
  at::Tensor forward(at::Tensor const& x) {
    auto const normed = norm(linear(x).to(norm->weight.scalar_type()));
    return x + at::tanh(normed).to(x.scalar_type());
  }
};
ZEROTH_TORCH_UNIT(Block);
struct MixedImpl : nn::Module {
  Block a{register_module("a", Block{})}, b{register_module("b", Block{})};
  at::Tensor forward(at::Tensor const& x) { return b(a(x)); }
};
TORCH_MODULE(Mixed);

at::Tensor rows_of(std::int64_t first, std::int64_t count) {
  return at::sin(at::arange(first * features, (first + count) * features, at::kFloat).view({count, features}));
}

MakeProgram mixed(at::ScalarType type, TorchOptions const& options) {
  return [type, options](Job&) {
    auto net = torch_adapter::seeded(3, [] { return Mixed{}; });
    return Program{net.ptr(),
                   [net, type](std::int64_t first, std::int64_t count) mutable {
                     auto const x = rows_of(first, count);
                     return torch::mse_loss(net(x.to(type)).to(at::kFloat), x.flip({1}));
                   },
                   options};
  };
}

/// Runs on `world` threads.
template <class F>
void on_threads(int world, F const& work) {
  auto const outcome = run_job(world, [&](Job& job) {
    torch_adapter::detail::without_backtrace([&] {
      at::set_num_threads(1);
      work(job);
    });
  });
  REQUIRE(messages_of(outcome) == "");
}

bool is_bf16(float value) { return to_float(from_float<bf16>(value)) == value; }

}  // namespace

TEST_CASE("norms that stay Float in a bf16 model have the bits of stage 0 at every stage, and round nothing") {
  auto const* const bf16_keys = R"("bf16": {"enabled": true})";
  TorchOptions const by_type{.fp32 = {torch_adapter::every<nn::LayerNormImpl>()}};
  TorchOptions const by_name{.fp32 = {"*.norm.*"}};
  auto const run = [&](int stage, TorchOptions const& options) {
    return train_on_threads(2, File{.stage = stage, .more = bf16_keys}.config(), mixed(at::kBFloat16, options));
  };
  auto const base = run(0, by_type);
  CHECK(bits_of(run(0, by_name)) == bits_of(base));
  for (int stage = 1; stage <= 3; ++stage) {
    INFO("stage " << stage);
    CHECK(bits_of(run(stage, by_type)) == bits_of(base));
  }
  on_threads(1, [&](Job& job) {
    auto net = torch_adapter::seeded(3, [] { return Mixed{}; });
    Trainer trainer{job, File{.stage = 3, .more = bf16_keys}.config(), *net, by_type};
    for (int step = 0; step < 2; ++step) {
      for (auto micro : trainer.micro_steps()) {
        auto const x = rows_of(micro.first_sample(), trainer.micro_batch());
        micro.backward(torch::mse_loss(net(x.to(at::kBFloat16)).to(at::kFloat), x));
        if (net->a->norm->weight.scalar_type() != at::kFloat || net->a->linear->weight.scalar_type() != at::kBFloat16) {
          throw std::runtime_error{"the types are wrong"};
        }
      }
      trainer.step();
    }
    trainer.finish();
    auto const weight = trainer.read("a.norm.weight");
    auto const* const values = weight.data_ptr<float>();
    if (std::all_of(values, values + features, is_bf16)) {
      throw std::runtime_error{"the norm's weight was rounded"};
    }
  });
}

TEST_CASE("units that are not resharded after forward are gathered less often, with the same bits") {
  auto const config = File{.stage = 3}.config().with(R"({"zero_optimization": {"stage3_prefetch_bucket_size": 0}})");
  struct Seen {
    at::Tensor weight;
    std::int64_t gathered = 0;
  };
  auto const run = [&](std::vector<torch_adapter::UnitPolicy> const& kept) {
    Seen seen;
    on_threads(2, [&](Job& job) {
      auto net = torch_adapter::seeded(3, [] { return Mixed{}; });
      Trainer trainer{job, config, *net, {.no_reshard_after_forward = kept}};
      for (int step = 0; step < 3; ++step) {
        for (auto micro : trainer.micro_steps()) {
          auto const x = rows_of(micro.first_sample(), trainer.micro_batch());
          micro.backward(torch::mse_loss(net(x), x.flip({1})));
        }
        trainer.step();
      }
      auto const report = trainer.finish();
      auto const weight = trainer.read("a.linear.weight");
      if (job.rank() == 0) {
        seen = {weight, report->gathered_bytes};
      }
    });
    return seen;
  };
  auto const plain = run({}), kept = run({"a", "b"});
  CHECK(kept.weight.equal(plain.weight));
  CHECK(2 * plain.gathered == 3 * kept.gathered);  // forward gathers both units, and backward gathers the first again
}

TEST_CASE("gradients that are clipped by value before the update train as by libtorch's clip_grad_value_") {
  constexpr double most = 0.01, rate = 0.5;
  auto const optimizer = R"("type": "SGD", "params": {"lr": )" + std::to_string(rate) + "}";
  auto plain = torch_adapter::seeded(3, [] { return Mixed{}; });
  torch::optim::SGD sgd{plain->parameters(), torch::optim::SGDOptions{rate}};
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    auto const x = rows_of(step * 4, 4);
    torch::mse_loss(plain(x), x.flip({1})).backward();
    nn::utils::clip_grad_value_(plain->parameters(), most);
    sgd.step();
  }
  for (int const stage : {0, 1, 3}) {
    INFO("stage " << stage);
    std::mutex mutex;
    std::map<std::string, std::int64_t> seen;
    double difference = 0;
    on_threads(2, [&](Job& job) {
      auto net = torch_adapter::seeded(3, [] { return Mixed{}; });
      Trainer trainer{job, File{.stage = stage, .micro = 2, .optimizer = optimizer}.config(), *net};
      for (int step = 0; step < 3; ++step) {
        for (auto micro : trainer.micro_steps()) {
          auto const x = rows_of(micro.first_sample(), 2);
          micro.backward(torch::mse_loss(net(x), x.flip({1})));
        }
        trainer.edit_gradients([&](GradientPart const& part) {
          part.elements.clamp_(-most / part.scale, most / part.scale);
          std::lock_guard const lock{mutex};
          seen[std::string{part.parameter}] += step == 0 ? part.elements.numel() : 0;
        });
        trainer.step();
      }
      trainer.finish();
      for (auto const& item : plain->named_parameters()) {
        auto const other = (trainer.read(item.key()) - item.value().detach()).abs().max().item<double>();
        std::lock_guard const lock{mutex};
        difference = std::max(difference, other);
      }
    });
    CHECK(difference < 1e-6);
    CHECK(seen.size() == plain->parameters().size());
    CHECK(seen.at("a.linear.weight") == features * features * (stage == 0 ? 2 : 1));
  }
}

TEST_CASE("rates by name change while training runs") {
  on_threads(2, [](Job& job) {
    auto net = torch_adapter::seeded(3, [] { return Mixed{}; });
    Trainer trainer{job, File{.stage = 2}.config(), *net};
    auto const step = [&] {
      for (auto micro : trainer.micro_steps()) {
        auto const x = rows_of(micro.first_sample(), trainer.micro_batch());
        micro.backward(torch::mse_loss(net(x), x.flip({1})));
      }
      trainer.step();
      trainer.finish();
    };
    step();
    trainer.set_learning_rate_factors([](std::string const& name) -> std::optional<float> {
      return name.starts_with("a.") ? std::optional{0.0F} : std::nullopt;
    });
    auto const a = trainer.read("a.linear.weight"), b = trainer.read("b.linear.weight");
    step();
    if (!trainer.read("a.linear.weight").equal(a) || trainer.read("b.linear.weight").equal(b)) {
      throw std::runtime_error{"the factors have another effect"};
    }
  });
}

TEST_CASE("policies that pick nothing are refused, by option and name") {
  auto const refused = [](TorchOptions const& options) {
    std::string text;
    on_threads(1, [&](Job& job) {
      auto net = torch_adapter::seeded(3, [] { return Mixed{}; });
      text = thrown<ContractError>([&] { Trainer{job, File{.stage = 3}.config(), *net, options}; });
    });
    return text;
  };
  CHECK_THAT(refused({.fp32 = {"*.router.*"}}), Contains("TrainerOptions::fp32: \"*.router.*\" picks no parameter"));
  CHECK_THAT(refused({.no_reshard_after_forward = {"c"}}),
             Contains("TrainerOptions::no_reshard_after_forward: \"c\" picks no unit"));
}

}  // namespace zeroth::testing
