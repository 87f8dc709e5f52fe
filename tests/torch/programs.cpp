// SPDX-License-Identifier: Apache-2.0
#include <torch/script.h>

#include <map>
#include <sstream>
#include <tuple>
#include <utility>

#include "torch_gpt/gpt.hpp"
#include "torch_vision/resnet.hpp"
#include "train.hpp"

namespace zeroth::testing {
namespace {

namespace nn = torch::nn;
using torch_adapter::seeded;

/// The same module by seeded() or deferred_init().
template <class F>
auto made(bool deferred, std::uint64_t seed, F const& make) {
  return deferred ? torch_adapter::deferred_init(seed, make) : seeded(seed, make);
}

/// Numbers in [0, below) that depend only on their place.
at::Tensor numbers(std::int64_t first, std::int64_t rows, std::int64_t columns, std::int64_t below) {
  auto const places = at::arange(first * columns, (first + rows) * columns, at::kLong);
  return places.mul(7919).add(places.square().mul(104729)).remainder(below).view({rows, columns});
}
at::Tensor noise(std::int64_t first, std::int64_t rows, std::int64_t columns) {
  return numbers(first, rows, columns, 1009).to(at::kFloat).div(1009).sub(0.5);
}

// ---- unusual modules ------------------------------------------------------------------------------------------------

constexpr std::int64_t width = 24, words = 40;

/// A structure that the program defines.
struct Split {
  at::Tensor left, right;
  int calls = 0;
  template <class F>
  void each_tensor(F const& f) {
    f(left);
    f(right);
  }
};

struct EmbedImpl : nn::Module {
  at::Tensor weight{register_parameter("weight", at::randn({words, width}) * 0.3)};
  at::Tensor forward(at::Tensor const& tokens) { return at::embedding(weight, tokens); }
};
/// Two tensors in, a structure out.
struct SplitterImpl : nn::Module {
  nn::Linear a{register_module("a", nn::Linear{width, width})}, b{register_module("b", nn::Linear{width, width})};
  at::Tensor gain{register_parameter("gain", at::tensor(0.7F))};  // a single number
  Split forward(at::Tensor const& x, std::optional<at::Tensor> const& y) {
    return {at::tanh(a(x)) * gain, y ? b(*y) : b(x), 1};
  }
};
/// A structure and a dictionary in, a tuple out.
struct MergerImpl : nn::Module {
  nn::Linear merge{register_module("merge", nn::Linear{width, width})};
  std::tuple<at::Tensor, std::vector<at::Tensor>> forward(Split const& split,
                                                          std::map<std::string, at::Tensor> const& more) {
    auto const x = at::tanh(merge(split.left)) + split.right + more.at("x");
    return {x, {x * 0.5, split.right}};
  }
};
/// Used several times in a micro-step.
struct CellImpl : nn::Module {
  nn::Linear linear{register_module("linear", nn::Linear{width, width})};
  at::Tensor forward(at::Tensor const& x) { return x + 0.5 * at::tanh(linear(x)); }
};
ZEROTH_TORCH_UNIT(Embed);
ZEROTH_TORCH_UNIT(Splitter);
ZEROTH_TORCH_UNIT(Merger);
ZEROTH_TORCH_UNIT(Cell);
/// Units inside a unit with its own parameters, which it uses before, between and after them.
struct OuterImpl : nn::Module {
  nn::LayerNorm before{register_module("before", nn::LayerNorm{nn::LayerNormOptions({width})})};
  at::Tensor scale{register_parameter("scale", at::full({width}, 0.9))};
  Cell first{register_module("first", Cell{})}, second{register_module("second", Cell{})};
  at::Tensor forward(at::Tensor const& x) { return second(first(before(x)) * scale) * scale + x; }
};
ZEROTH_TORCH_UNIT(Outer);
/// Also uses the table of the embedding.
struct HeadImpl : nn::Module {
  at::Tensor weight, offset{register_parameter("offset", at::zeros({words}))};
  explicit HeadImpl(at::Tensor const& tied) : weight{register_parameter("weight", tied)} {}
  at::Tensor forward(at::Tensor const& x) { return at::matmul(x, weight.t()) + offset; }
};
ZEROTH_TORCH_UNIT(Head);

struct OddImpl : nn::Module {
  at::Tensor shift{register_parameter("shift", at::full({width}, 0.1))};  // of the root
  Embed embed{register_module("embed", Embed{})};
  Cell frozen{register_module("frozen", Cell{})};
  Splitter splitter{register_module("splitter", Splitter{})};
  Merger merger{register_module("merger", Merger{})};
  Cell cell{register_module("cell", Cell{})};
  Cell sometimes{register_module("sometimes", Cell{})};
  Cell no_gradient{register_module("no_gradient", Cell{})};
  Cell never{register_module("never", Cell{})};
  Outer outer{register_module("outer", Outer{})};
  Head head{register_module("head", Head{embed->weight})};
  OddImpl() {
    for (auto& parameter : frozen->parameters()) {
      parameter.set_requires_grad(false);
    }
    merger->merge->bias.set_requires_grad(false);
  }
  at::Tensor forward(at::Tensor const& tokens, int call) {
    auto x = frozen(embed(tokens)) + shift;
    auto split = splitter(x, call % 3 == 0 ? std::optional<at::Tensor>{x * 2} : std::nullopt);
    auto [y, parts] = merger(split, std::map<std::string, at::Tensor>{{"x", x}});
    bool const swapped = call % 2 == 1;  // another order in some steps, the same on all ranks
    y = swapped ? cell(outer(y)) : outer(cell(y));
    for (int use = 0; use < 2; ++use) {
      y = cell(y);
    }
    if (swapped) {
      y = sometimes(y);
    }
    y = y + parts[0] * no_gradient(y).detach();
    return head(y + parts[1] * shift);
  }
};
TORCH_MODULE(Odd);

Program odd(std::vector<torch_adapter::UnitPolicy> recompute, bool deferred = false) {
  auto net = made(deferred, 3, [] { return Odd{}; });
  Program program{net.ptr(), {}, {}};
  program.options.recompute = std::move(recompute);
  program.loss = [net, call = 0](std::int64_t first, std::int64_t count) mutable {
    auto const tokens = numbers(first, count, 5, words);
    auto const targets = numbers(first + 1, count, 5, words);
    return nn::functional::cross_entropy(net(tokens, call++).to(at::kFloat).flatten(0, 1), targets.flatten());
  };
  return program;
}

// ---- views that autograd saves ------------------------------------------------------------------------------------

/// Its forward reads its parameter through views of every kind, which autograd keeps for backward.
struct StripImpl : nn::Module {
  at::Tensor planes{register_parameter("planes", at::randn({3, width, width}) * 0.2)};
  at::Tensor forward(at::Tensor const& x) {
    auto const parts = planes.unbind(0);
    auto y = at::matmul(x, parts[0].t());                                       // a transposed part
    y = at::tanh(y * planes.select(0, 1).diagonal());                           // every width + first element
    y = y * planes[1].index({at::indexing::Slice(0, 4)}).mean(0).exp();         // a slice
    y = y * planes.narrow(2, 1, 1).squeeze(2).select(0, 0).expand_as(y).exp();  // one that is expanded
    return x + at::matmul(y, planes.view({-1, width}).narrow(0, 2 * width, width));
  }
};
ZEROTH_TORCH_UNIT(Strip);
struct StripsImpl : nn::Module {
  Strip first{register_module("first", Strip{})}, second{register_module("second", Strip{})};
  Strip third{register_module("third", Strip{})}, fourth{register_module("fourth", Strip{})};
  at::Tensor forward(at::Tensor const& x) { return fourth(third(second(first(x)))); }
};
TORCH_MODULE(Strips);

// ---- features of processes only, and differences between ranks ------------------------------------------------------

// ---- TorchScript ----------------------------------------------------------------------------------------------------

/// A loaded TorchScript module, whose parameters it registers as its own.
struct ScriptedImpl : nn::Module {
  torch::jit::Module script;
  ScriptedImpl() {
    torch::jit::Module source{"layer"};
    source.register_parameter("weight", at::randn({width, width}) * 0.3, /*is_buffer=*/false);
    source.register_parameter("bias", at::zeros({width}), /*is_buffer=*/false);
    source.define(R"(
      def forward(self, x):
          for i in range(2):
              x = x + torch.tanh(torch.matmul(x, self.weight) + self.bias)
          return x
    )");
    std::stringstream file;
    source.save(file);
    script = torch::jit::load(file);
    for (auto const& parameter : script.named_parameters()) {
      register_parameter(parameter.name, parameter.value);
    }
  }
  at::Tensor forward(at::Tensor const& x) { return script.forward({x}).toTensor(); }
};
ZEROTH_TORCH_UNIT(Scripted);
struct ScriptsImpl : nn::Module {
  Scripted first{register_module("first", Scripted{})}, second{register_module("second", Scripted{})};
  Scripted third{register_module("third", Scripted{})};
  at::Tensor forward(at::Tensor const& x) { return third(second(first(x))); }
};
TORCH_MODULE(Scripts);

struct WideImpl : nn::Module {
  nn::Linear linear{register_module("linear", nn::Linear{nn::LinearOptions{1024, 4096}.bias(false)})};
};
ZEROTH_TORCH_UNIT(Wide);

struct DropImpl : nn::Module {
  nn::Linear linear{register_module("linear", nn::Linear{width, width})};
  at::Tensor forward(at::Tensor const& x) { return x + at::dropout(at::tanh(linear(x)), 0.5, is_training()); }
};
ZEROTH_TORCH_UNIT(Drop);
struct DropsImpl : nn::Module {
  Drop first{register_module("first", Drop{})}, second{register_module("second", Drop{})};
  at::Tensor forward(at::Tensor const& x) { return second(first(x)); }
};
TORCH_MODULE(Drops);

Program dropout(std::vector<torch_adapter::UnitPolicy> recompute, bool seeds = true) {
  auto net = seeded(11, [] { return Drops{}; });
  Program program{net.ptr(), {}, {}};
  program.options.recompute = std::move(recompute);
  program.loss = [net, seeds](std::int64_t first, std::int64_t count) mutable {
    if (seeds) {
      torch::manual_seed(static_cast<std::uint64_t>(first));
    }
    return torch::mse_loss(net(noise(first, count, width)), noise(first + 1, count, width));
  };
  return program;
}

struct ExpertsImpl : nn::Module {
  Cell trunk{register_module("trunk", Cell{})};
  Cell left{register_module("left", Cell{})}, right{register_module("right", Cell{})};
  Cell top{register_module("top", Cell{})};
  at::Tensor scale{
      register_parameter("scale", at::ones({width}))};  // the root's, used before and after what is skipped
  at::Tensor forward(at::Tensor const& x, bool uses_left, bool uses_right) {
    auto y = trunk(x * scale);
    y = uses_left ? left(y) : y;
    return top(uses_right ? right(y) : y) * scale;
  }
};
TORCH_MODULE(Experts);

Program views(bool deferred) {
  auto net = made(deferred, 17, [] { return Strips{}; });
  Program program{net.ptr(), {}, {}};
  program.loss = [net](std::int64_t first, std::int64_t count) mutable {
    auto const type = net->first->planes.scalar_type();
    return torch::mse_loss(net(noise(first, count, width).to(type)).to(at::kFloat), noise(first + 1, count, width));
  };
  return program;
}

Program gpt(std::vector<torch_adapter::UnitPolicy> recompute, bool deferred = false) {
  ::gpt::Shape const shape{.layers = 3, .heads = 2, .channels = 32, .context = 16, .vocabulary = 256};
  auto net = made(deferred, 5, [&] { return torch_gpt::Gpt{shape}; });
  Program program{net.ptr(), {}, {}};
  program.options.matrix = torch_gpt::options_of(shape).matrix;
  program.options.recompute = std::move(recompute);
  program.loss = [net, shape](std::int64_t first, std::int64_t count) mutable {
    auto const tokens = numbers(first, count, shape.context + 1, 97);
    return torch_gpt::loss_of(net(tokens.slice(1, 0, shape.context)), tokens.slice(1, 1));
  };
  return program;
}

}  // namespace

Program scripted_program(Job& /*job*/) {
  auto net = seeded(19, [] { return Scripts{}; });
  Program program{net.ptr(), {}, {}};
  program.loss = [net](std::int64_t first, std::int64_t count) mutable {
    return torch::mse_loss(net(noise(first, count, width)), noise(first + 1, count, width));
  };
  return program;
}

Program gpt_program(Job& /*job*/) { return gpt({}); }
Program gpt_deferred(Job& /*job*/) { return gpt({}, true); }
Program odd_deferred(Job& /*job*/) { return odd({}, true); }
Program views_program(Job& /*job*/) { return views(false); }
Program views_deferred(Job& /*job*/) { return views(true); }
Program gpt_recomputed(Job& /*job*/) { return gpt({"transformer.h.*"}); }
Program odd_program(Job& /*job*/) { return odd({}); }
Program odd_recomputed(Job& /*job*/) {
  return odd({"splitter", "merger", "cell", "outer", "embed", "head", "no_gradient", "frozen"});
}

void make_wide_trainer(Job& job, int units, bool is_deferred) {
  at::set_num_threads(1);
  auto net = made(is_deferred, 1, [units] {
    nn::ModuleList list;
    for (int i = 0; i < units; ++i) {
      list->push_back(Wide{});
    }
    return list;
  });
  File const file{.stage = 3, .slots = 2, .optimizer = R"("type": "SGD", "params": {"lr": 1e-3})"};
  torch_adapter::Trainer const trainer{job, file.config(), *net};
}

Program dropout_program(Job& /*job*/) { return dropout({}); }
Program dropout_recomputed(Job& /*job*/) { return dropout({"*"}); }
Program dropout_going_on(Job& /*job*/) { return dropout({}, false); }

Program experts_program(Job& /*job*/) {
  auto net = seeded(13, [] { return Experts{}; });
  auto const is_left = [](std::int64_t first, std::int64_t count) { return first / count % 2 == 0; };
  Program program{net.ptr(), {}, {}};
  program.skipped = [is_left](std::int64_t first, std::int64_t count) -> std::string {
    return is_left(first, count) ? "right" : "left";
  };
  program.loss = [net, is_left](std::int64_t first, std::int64_t count) mutable {
    bool const left = is_left(first, count), both = !net->is_training();  // no rank skips in evaluation
    return torch::mse_loss(net(noise(first, count, width), left || both, !left || both),
                           noise(first + 1, count, width));
  };
  return program;
}

Program vision_program(Job& job) {
  auto net = seeded(9, [&] { return torch_vision::ResNet{job, 4, 10}; });
  Program program{net.ptr(), {}, {}};
  program.options.units = torch_adapter::units(*net, {"blocks.*"});
  program.loss = [net](std::int64_t first, std::int64_t count) mutable {
    auto const type = net->conv->weight.scalar_type();
    auto const images = noise(first, count, 64).view({count, 1, 8, 8}).to(type);
    return nn::functional::cross_entropy(net(images).to(at::kFloat), numbers(first, count, 1, 10).flatten());
  };
  return program;
}

}  // namespace zeroth::testing
