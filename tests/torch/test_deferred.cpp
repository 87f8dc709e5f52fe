// SPDX-License-Identifier: Apache-2.0
/// Modules that deferred_init() makes without memory.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/folder.hpp"
#include "support/job.hpp"
#include "support/resident.hpp"
#include "support/thrown.hpp"
#include "torch_catch.hpp"
#include "train.hpp"

namespace zeroth::testing::deferred_modules {
namespace {

namespace nn = torch::nn;
using torch_adapter::deferred;
using torch_adapter::deferred_init;
using torch_adapter::seeded;
using torch_adapter::Trainer;
using torch_adapter::TrainerOptions;
using torch_adapter::units;

auto contains(std::string const& text) { return Catch::Contains(text); }

TEST_CASE("modules of deferred_init() train like those of seeded(), bit for bit, at every stage") {
  for (auto const& [plain, without_memory] :
       {std::pair{&gpt_program, &gpt_deferred}, {&odd_program, &odd_deferred}, {&views_program, &views_deferred}}) {
    auto const expected = bits_of(train_on_threads(2, File{}.config(), *plain));
    for (int stage : {0, 1, 2, 3}) {
      INFO("stage " << stage);
      CHECK(bits_of(train_on_threads(2, File{.stage = stage}.config(), *without_memory)) == expected);
    }
  }
}

/// A layer whose constructor has arguments of all kinds.
struct LayerImpl : nn::Module {
  nn::Linear linear{nullptr};
  nn::BatchNorm1d norm{register_module("norm", nn::BatchNorm1d{8})};
  LayerImpl(std::atomic<int>& made, nn::LinearOptions const& options, std::unique_ptr<float> const* gain = nullptr)
      : linear{register_module("linear", nn::Linear{options})} {
    ++made;
    if (gain != nullptr) {
      at::NoGradGuard const no_grad;
      static_cast<void>(linear->weight.mul_(**gain));
    }
  }
  at::Tensor forward(at::Tensor const& x) { return at::tanh(norm(linear(x))); }
};
ZEROTH_TORCH_UNIT(Layer);
struct NetImpl : nn::Module {
  nn::ModuleList layers{register_module("layers", nn::ModuleList{})};
  nn::Sequential head;
  explicit NetImpl(std::atomic<int>& made)
      : head{register_module("head", deferred([] {
                               return nn::Sequential{nn::Linear{8, 8}, nn::Tanh{}};
                             }))} {
    for (int i = 0; i < 3; ++i) {
      layers->push_back(Layer{made, nn::LinearOptions{8, 8}.bias(i > 0)});
    }
  }
};
TORCH_MODULE(Net);

bool has_memory(at::Tensor const& tensor) {
  try {
    return tensor.data_ptr() != nullptr;
  } catch (c10::Error const&) {
    return false;
  }
}

TEST_CASE("only what is in no unit has memory after deferred_init(), and buffers") {
  std::atomic<int> made = 0;
  auto const net = deferred_init(3, [&] { return Net{made}; });
  auto const same = seeded(3, [&] { return Net{made}; });
  CHECK(std::ranges::none_of(net->parameters(), has_memory));
  CHECK(std::ranges::all_of(net->buffers(), has_memory));
  CHECK(std::ranges::all_of(same->parameters(), has_memory));
  CHECK(made == 6);
  auto const alone = deferred_init(3, [] { return nn::Linear{3, 3}; });
  CHECK(has_memory(alone->weight));
}

TEST_CASE("each unit of deferred_init() is made again a few times only, and gives the values of seeded()") {
  std::atomic<int> made = 0;
  auto const values_of = [&](bool is_deferred) {
    std::vector<at::Tensor> values;
    auto const outcome = run_job(1, [&](Job& job) {
      auto const make = [&] { return Net{made}; };
      auto net = is_deferred ? deferred_init(3, make) : seeded(3, make);
      made = 0;
      Trainer trainer{job, File{.stage = 3}.config(), *net, {.units = units(*net, {"layers.*", "head"})}};
      for (auto const& item : net->named_parameters()) {
        values.push_back(trainer.read(item.key()));
      }
    });
    REQUIRE(messages_of(outcome) == "");
    return values;
  };
  auto const expected = values_of(false);
  CHECK(made == 0);
  auto const values = values_of(true);
  CHECK(made >= 3);
  CHECK(made <= 9);
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(at::equal(values[i], expected[i]));
  }
}

TEST_CASE("a weight file or TrainerOptions::start gives values without making units again") {
  Folder const folder;
  std::atomic<int> made = 0;
  auto const outcome = run_job(1, [&](Job& job) {
    auto const train = [&](std::uint64_t seed, TrainerOptions options) {
      auto net = deferred_init(seed, [&] { return Net{made}; });
      options.units = units(*net, {"layers.*", "head"});
      made = 0;
      return std::make_pair(net, std::make_unique<Trainer>(job, File{.stage = 3}.config(), *net, options));
    };
    auto const first = train(3, {});
    first.second->save_weights(folder / "w");
    made = 0;
    auto const loaded = train(4, {.weights = folder / "w"});
    auto const started = train(4, {.start = [](std::string const&) { return Constant{0.5F}; }});
    if (made != 0 || !at::equal(loaded.second->read("head.0.weight"), first.second->read("head.0.weight")) ||
        !at::equal(started.second->read("head.0.bias"), at::full({8}, 0.5))) {
      throw std::runtime_error{"not the values of the file, or units were made again"};
    }
  });
  CHECK(messages_of(outcome) == "");
}

// ---- memory ---------------------------------------------------------------------------------------------------------

TEST_CASE("ranks that make a module by deferred_init() never hold more than their shards and one unit") {
  constexpr int world = 2, layers = 16;
  auto const construct = [](bool is_deferred) {
    std::atomic<std::int64_t> before = 0;
    auto const outcome = run_job(world, [&](Job& job) {
      at::set_num_threads(1);
      double one = 1;
      if (job.rank() == 0) {
        ::malloc_trim(0);
        forget_peak();
        before = resident_bytes();
      }
      job.sum({&one, 1});
      make_wide_trainer(job, layers, is_deferred);
      job.sum({&one, 1});
    });
    REQUIRE(messages_of(outcome) == "");
    return peak_resident_bytes() - before;
  };
  static_cast<void>(construct(true));  // pages of libtorch's code are loaded
  auto const plain = construct(false), without_memory = construct(true);
  INFO("grown by " << plain << ", and by " << without_memory << " with deferred_init()");
  CHECK(plain > world * layers * wide_bytes);                                         // the modules
  CHECK(without_memory < layers * wide_bytes + world * wide_bytes + wide_bytes / 2);  // shards, and a unit on each rank
}

// ---- misuse ---------------------------------------------------------------------------------------------------------

TEST_CASE("use of a parameter of deferred_init() before its Trainer is rejected by name") {
  std::atomic<int> made = 0;
  CHECK_THAT(thrown<c10::Error>([&] {
               return deferred_init(3, [&] {
                 Net net{made};
                 nn::init::normal_(net->layers->ptr<LayerImpl>(1)->linear->weight);
                 return net;
               });
             }),
             contains("parameter \"linear.weight\" of a module that deferred_init() makes has no memory until a "
                      "Trainer is made") &&
                 contains("TrainerOptions::start"));
  auto net = deferred_init(3, [&] { return Net{made}; });
  CHECK_THAT(thrown<c10::Error>([&] {
               return net->head->forward(at::ones({2, 8}));
             }),
             contains("parameter \"0.") && contains("has no memory until a Trainer is made"));
}

TEST_CASE("units that cannot be made again are rejected by deferred_init()") {
  struct ViewedImpl : nn::Module {
    nn::Linear linear{register_module("linear", nn::Linear{4, 4})};
    at::Tensor transposed{linear->weight.t()};
  };
  struct Viewed : torch_adapter::UnitHolder<ViewedImpl> {};
  CHECK_THAT(thrown<ContractError>([] { return deferred_init(1, [] { return Viewed{}; }); }),
             contains("parameter \"linear.weight\" shares its memory with another tensor"));
  struct OwnerImpl : nn::Module {
    explicit OwnerImpl(std::unique_ptr<int> /*value*/) {}
  };
  using Owner = torch_adapter::UnitHolder<OwnerImpl>;
  CHECK_THAT(thrown<ContractError>([] { return deferred_init(1, [] { return Owner{std::make_unique<int>(1)}; }); }),
             contains("is given an object that can only be moved"));
  CHECK(thrown<ContractError>([] { return seeded(1, [] { return Owner{std::make_unique<int>(1)}; }); }) == "");
  int calls = 0;
  auto const outcome = run_job(1, [&](Job& job) {
    auto root = deferred_init(1, [&] {
      nn::ModuleList list;
      list->push_back(deferred([&calls] { return nn::Linear{4, 4 + calls++}; }));
      return list;
    });
    Trainer{job, File{}.config(), *root, {.units = units(*root, {"0"})}};
  });
  CHECK_THAT(messages_of(outcome), contains("was made again, with other parameters than the first time"));
}

}  // namespace
}  // namespace zeroth::testing::deferred_modules
