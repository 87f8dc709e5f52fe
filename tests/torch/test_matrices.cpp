// SPDX-License-Identifier: Apache-2.0
/// The parameters that Muon updates, and its updates.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/folder.hpp"
#include "support/job.hpp"
#include "support/thrown.hpp"
#include "torch_catch.hpp"
#include "train.hpp"

namespace zeroth::testing {
namespace {

namespace nn = torch::nn;
using torch_adapter::hidden_matrices;
using torch_adapter::MatrixRule;
using torch_adapter::seeded;
using torch_adapter::Trainer;

constexpr std::int64_t width = 12, words = 16;

struct MlpImpl : nn::Module {
  nn::LayerNorm norm{register_module("norm", nn::LayerNorm{nn::LayerNormOptions({width})})};
  nn::Linear up{register_module("up", nn::Linear{width, 20})}, down{register_module("down", nn::Linear{20, width})};
  at::Tensor forward(at::Tensor const& x) { return x + down(at::tanh(up(norm(x)))); }
};
ZEROTH_TORCH_UNIT(Mlp);

/// A Linear whose weight is another module's.
struct TiedImpl : nn::LinearImpl {
  explicit TiedImpl(at::Tensor const& tied)
      : nn::LinearImpl{nn::LinearOptions(tied.size(1), tied.size(0)).bias(false)} {
    parameters_["weight"] = weight = tied;
  }
};
enum class Head { own, tied, none };

/// An embedding, layers, and a head that may be the embedding's matrix.
struct WordsImpl : nn::Module {
  nn::Embedding embed{register_module("embed", nn::Embedding{words, width})};
  Mlp first{register_module("first", Mlp{})}, second{register_module("second", Mlp{})};
  std::shared_ptr<nn::LinearImpl> head;
  explicit WordsImpl(Head kind) {
    if (kind == Head::own) {
      head = register_module("head", std::make_shared<nn::LinearImpl>(nn::LinearOptions(width, words).bias(false)));
    } else if (kind == Head::tied) {
      head = register_module("head", std::make_shared<TiedImpl>(embed->weight));
    }
  }
  at::Tensor forward(at::Tensor const& tokens) {
    auto const x = second(first(embed(tokens)));
    return head ? head->forward(x) : at::matmul(x, embed->weight.t());
  }
};
TORCH_MODULE(Words);

Words make_words(Head kind) {
  return seeded(6, [kind] { return Words{kind}; });
}

at::Tensor loss_of(Words& net, std::int64_t first, std::int64_t count) {
  auto const places = at::arange(first * 5, (first + count) * 5, at::kLong).view({count, 5});
  auto const tokens = places.mul(7919).add(places.square()).remainder(words);
  return nn::functional::cross_entropy(net(tokens).to(at::kFloat).flatten(0, 1), tokens.roll(1, 1).flatten());
}

MakeProgram words_program(Head kind, torch_adapter::TrainerOptions const& options = {}) {
  return [kind, options](Job&) {
    auto net = make_words(kind);
    Program program{net.ptr(), {}, options};
    program.loss = [net](std::int64_t first, std::int64_t count) mutable { return loss_of(net, first, count); };
    return program;
  };
}

File with_muon(int stage, std::string const& more = "", int accumulation = 1) {
  return {.stage = stage,
          .accumulation = accumulation,
          .more = R"("gradient_clipping": 0.5)" + more,
          .zeroth = R"("reduce_gradients": "every_micro_step")",
          .optimizer = R"("type": "Muon", "params": {"lr": 0.02, "adam_lr": 0.003, "weight_decay": 0.1})"};
}

/// The names that the default rule selects.
std::vector<std::string> hidden_of(nn::Module const& root) {
  auto const rule = hidden_matrices(root);
  std::vector<std::string> names;
  for (auto const& item : root.named_parameters()) {
    if (rule(item.key(), root, item.value())) {
      names.push_back(item.key());
    }
  }
  return names;
}

/// The parameters that an update by Muon changes if the rate of AdamW is 0: those that a Trainer has marked.
std::vector<std::string> updated(torch_adapter::TrainerOptions const& options, Head kind = Head::own) {
  std::vector<std::string> names;
  auto const outcome = run_job(1, [&](Job& job) {
    auto net = make_words(kind);
    File const file{.optimizer = R"("type": "Muon", "params": {"lr": 0.02, "adam_lr": 0, "weight_decay": 0.1})"};
    Trainer trainer{job, file.config(), *net, options};
    std::vector<std::pair<std::string, at::Tensor>> before;
    for (auto const& item : net->named_parameters()) {
      if (item.key() != "head.weight" || kind == Head::own) {
        auto const name = options.name ? options.name(item.key()) : item.key();
        before.emplace_back(name, trainer.read(name));
      }
    }
    for (auto micro : trainer.micro_steps()) {
      micro.backward(loss_of(net, micro.first_sample(), trainer.micro_batch()));
    }
    trainer.step();
    trainer.finish();
    for (auto const& [name, values] : before) {
      if (!at::equal(trainer.read(name), values)) {
        names.push_back(name);
      }
    }
  });
  return messages_of(outcome).empty() ? names : std::vector{messages_of(outcome)};
}

using Names = std::vector<std::string>;
Names const layers{"first.up.weight", "first.down.weight", "second.up.weight", "second.down.weight"};

/// Modules that resemble hidden layers.
struct OthersImpl : nn::Module {
  nn::Linear shared{register_module("shared", nn::Linear{4, 4})}, frozen{register_module("frozen", nn::Linear{4, 4})};
  nn::Linear again{register_module("again", shared)}, one{register_module("one", nn::Linear{4, 4})};
  nn::Conv2d conv{register_module("conv", nn::Conv2d{nn::Conv2dOptions(2, 2, 1)})};
  nn::Bilinear bilinear{register_module("bilinear", nn::Bilinear{4, 4, 4})};
  nn::MultiheadAttention attention{register_module("attention", nn::MultiheadAttention{4, 2})};
  at::Tensor table{register_parameter("table", at::ones({4, 4}))};
  nn::Linear last{register_module("last", nn::Linear{4, 4})};
  OthersImpl() { frozen->weight.set_requires_grad(false); }
};

}  // namespace

TEST_CASE("by default weights of Linear are matrices, without tied ones and the last") {
  CHECK(hidden_of(*make_words(Head::own)) == layers);
  CHECK(hidden_of(*make_words(Head::tied)) == layers);
  CHECK(hidden_of(*make_words(Head::none)) == Names{layers.begin(), layers.end() - 1});  // "down" is the last Linear
  CHECK(hidden_of(OthersImpl{}) == Names{"one.weight", "attention.out_proj.weight"});
  CHECK(hidden_of(nn::LinearImpl{4, 4}).empty());
}

TEST_CASE("a Trainer marks what the default rule or its options select") {
  CHECK(updated({}) == layers);
  CHECK(updated({}, Head::tied) == layers);
  torch_adapter::TrainerOptions options;
  options.matrix = [](std::string const& name, nn::Module const& module, at::Tensor const& tensor) {
    return name.ends_with("up.weight") ||
           (dynamic_cast<nn::EmbeddingImpl const*>(&module) != nullptr && tensor.size(0) == words);
  };
  CHECK(updated(options) == Names{"embed.weight", "first.up.weight", "second.up.weight"});
  CHECK(updated(options, Head::tied) == updated(options));  // a tied one, by its first module
  options.name = [](std::string const& name) { return "net." + name; };
  options.matrix = [](std::string const& name, auto const&, auto const&) { return name == "net.head.weight"; };
  CHECK(updated(options) == Names{"net.head.weight"});
  options = {};
  options.parameter = [](std::string const& name) {
    return ParamOptions{.trainable = name != "first.up.weight", .matrix = name == "head.weight"};
  };
  CHECK(updated(options) == Names{"first.down.weight", "second.up.weight", "second.down.weight", "head.weight"});
}

TEST_CASE("marks of what is no matrix, or frozen, are rejected by name") {
  auto const said = [](MatrixRule const& rule, std::function<void(Words&)> const& change = {}) {
    std::string message;
    auto const outcome = run_job(1, [&](Job& job) {
      auto net = make_words(Head::own);
      if (change) {
        change(net);
      }
      torch_adapter::TrainerOptions options;
      options.matrix = rule;
      message = thrown<Error>([&] { Trainer{job, with_muon(0).config(), *net, options}; });
    });
    return message + messages_of(outcome);
  };
  auto const named = [](std::string const& name) -> MatrixRule {
    return [name](std::string const& candidate, auto const&, auto const&) { return candidate == name; };
  };
  CHECK_THAT(said(named("first.up.bias")),
             Catch::Contains("parameter \"first.up.bias\" of shape [20] has ParamOptions::matrix"));
  CHECK_THAT(said(named("first.up.weight"), [](Words& net) { net->first->up->weight.set_requires_grad(false); }),
             Catch::Contains("parameter \"first.up.weight\" has ParamOptions::matrix and is frozen"));
  CHECK_THAT(said(named("none")), Catch::Contains("no parameter of the model is marked by ParamOptions::matrix"));
}

TEST_CASE("Muon trains modules the same at stages 0 to 3") {
  auto const expect_same = [](char const* name, std::string const& more, int accumulation, int world,
                              MakeProgram const& make) {
    auto const expected = train_on_threads(world, with_muon(0, more, accumulation).config(), make);
    REQUIRE(std::isfinite(expected.losses.back()));
    for (int stage = 1; stage <= 3; ++stage) {
      INFO(name << " at stage " << stage << " on " << world << " ranks" << more);
      CHECK(bits_of(train_on_threads(world, with_muon(stage, more, accumulation).config(), make)) == bits_of(expected));
    }
  };
  expect_same("words", "", 1, 2, words_program(Head::own));
  expect_same("words, tied", "", 1, 3, words_program(Head::tied));
  expect_same("gpt", R"(, "bf16": {"enabled": true})", 1, 2, gpt_program);
  expect_same("gpt, recomputed", "", 2, 2, gpt_recomputed);
  expect_same("odd", "", 1, 2, odd_program);  // some units without gradients, which only decay
}

TEST_CASE("marks do not change what other optimizers do and save") {
  torch_adapter::TrainerOptions unmarked;
  unmarked.matrix = [](auto const&, auto const&, auto const&) { return false; };
  Folder const folder;
  for (int const stage : {0, 3}) {
    auto const config = File{.stage = stage}.config();
    auto const saves = [&](Trainer& trainer, int step) {
      if (step == 2) {
        trainer.save(folder.path()).wait();
      }
    };
    auto const restores = [&](Trainer& trainer) { trainer.restore_latest(folder.path()); };
    auto const marked = train_on_threads(2, config, words_program(Head::own), {.after_step = saves});
    CHECK(bits_of(train_on_threads(2, config, words_program(Head::own, unmarked))) == bits_of(marked));
    auto const resumed =
        train_on_threads(2, config, words_program(Head::own, unmarked), {.steps = 2, .begin = restores});
    CHECK(resumed.weights == marked.weights);
    CHECK(resumed.planned == marked.planned);
  }
}

/// Newton and Schulz's iterations as docs/muon.md describes them, in fp32.
at::Tensor orthogonal(at::Tensor x) {
  bool const tall = x.size(0) > x.size(1);
  x = tall ? x.t() : x;
  x = x / x.norm();
  for (int i = 0; i < 5; ++i) {
    auto const a = x.mm(x.t());
    x = 3.4445 * x + (-4.7750 * a + 2.0315 * a.mm(a)).mm(x);
  }
  return tall ? x.t() : x;
}

TEST_CASE("a Linear's rows are its outputs, and the first step is along the orthogonal gradient") {
  constexpr double rate = 0.02;
  struct Case {
    std::string rule;
    double factor;
  };
  for (auto const& each : {Case{"original", std::sqrt(20.0 / 12)}, Case{"match_rms_adamw", 0.2 * std::sqrt(20.0)}}) {
    INFO(each.rule);
    at::Tensor moved, expected;
    auto const outcome = run_job(1, [&](Job& job) {
      auto plain = make_words(Head::own), net = make_words(Head::own);
      loss_of(plain, 0, 2).backward();
      auto const& weight = plain->first->up->weight;
      expected = orthogonal(weight.grad()) * (-rate * each.factor);
      File const file{.optimizer = R"("type": "Muon", "params": {"lr": 0.02, "weight_decay": 0, "adjust_lr_fn": ")" +
                                   each.rule + R"("})"};
      Trainer trainer{job, file.config(), *net};
      for (auto micro : trainer.micro_steps()) {
        micro.backward(loss_of(net, micro.first_sample(), trainer.micro_batch()));
      }
      trainer.step();
      trainer.finish();
      moved = trainer.read("first.up.weight") - weight.detach();
    });
    REQUIRE(messages_of(outcome).empty());
    // For tiny gradients the direction depends on their rounding. This compares the other directions.
    auto const along = (moved * expected).sum().item<double>() / expected.square().sum().item<double>();
    CHECK(along == Approx(1).epsilon(0.03));
  }
}

}  // namespace zeroth::testing
