// SPDX-License-Identifier: Apache-2.0
/// A program's choices of units, initial values, samples and memory, and their effects.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/folder.hpp"
#include "support/job.hpp"
#include "support/resident.hpp"
#include "support/thrown.hpp"
#include "torch_catch.hpp"
#include "train.hpp"
#include "zeroth/data/sample_order.hpp"

namespace zeroth::testing {
namespace {

namespace nn = torch::nn;
using torch_adapter::seeded;
using torch_adapter::Trainer;
using torch_adapter::UnitPolicy;
using torch_adapter::units;

// ---- values to start from -------------------------------------------------------------------------------------------

TEST_CASE("ranks that are threads get the initial values of their seeds, whatever other threads draw") {
  auto const values = [] { return at::randn({64}); };
  auto const slow_values = [&] {  // two draws with time between them, in which another thread may draw
    auto const first = at::randn({32});
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
    return at::cat({first, at::randn({32}), seeded(5, values)});
  };
  auto const expected = seeded(3, values);
  auto const expected_slow = seeded(4, slow_values);
  std::atomic<int> wrong = 0;
  auto const repeat = [&wrong](std::uint64_t seed, auto const& make, at::Tensor const& result) {
    for (int i = 0; i < 20; ++i) {
      wrong += at::equal(seeded(seed, make), result) ? 0 : 1;
    }
  };
  std::thread other{[&] { repeat(4, slow_values, expected_slow); }};
  repeat(3, values, expected);
  repeat(4, slow_values, expected_slow);
  other.join();
  REQUIRE(wrong == 0);
}

// ---- units ----------------------------------------------------------------------------------------------------------

struct StoreyImpl : nn::Module {
  nn::Linear up{register_module("up", nn::Linear{12, 20})}, down{register_module("down", nn::Linear{20, 12})};
  at::Tensor forward(at::Tensor const& x) { return x + down(at::tanh(up(x))); }
};
ZEROTH_TORCH_UNIT(Storey);
TORCH_MODULE_IMPL(PlainStorey, StoreyImpl);

/// A model of Zeroth's holders or of libtorch's, which compute the same numbers.
template <class Holder>
struct TowerImpl : nn::Module {
  nn::Linear entrance{register_module("entrance", nn::Linear{12, 12})};
  nn::ModuleList storeys{register_module("storeys", nn::ModuleList{})};
  nn::Linear roof{register_module("roof", nn::Linear{12, 12})};
  TowerImpl() {
    for (int i = 0; i < 3; ++i) {
      storeys->push_back(Holder{});
    }
  }
  at::Tensor forward(at::Tensor x) {
    x = entrance(x);
    for (std::size_t i = 0; i < storeys->size(); ++i) {
      x = storeys->ptr<StoreyImpl>(i)->forward(x);
    }
    return roof(x);
  }
};

at::Tensor rows(std::int64_t first, std::int64_t count) {
  return at::sin(at::arange(first, first + count).unsqueeze(1) * 0.7 + at::arange(12) * 0.3);
}

template <class Holder>
MakeProgram tower(std::vector<UnitPolicy> const& policies) {
  return [policies](Job&) {
    auto const net = seeded(4, [] { return std::make_shared<TowerImpl<Holder>>(); });
    Program program{net, {}, {}};
    if (!policies.empty()) {
      program.options.units = units(*net, policies);
    }
    program.loss = [net](std::int64_t first, std::int64_t count) {
      return torch::mse_loss(net->forward(rows(first, count)), rows(first + 1, count));
    };
    return program;
  };
}

std::string names_of(nn::Module const& module, std::vector<UnitPolicy> const& policies) {
  std::string names;
  for (auto const& unit : units(module, policies)) {
    names += unit.name + " ";
  }
  return names;
}

TEST_CASE("policies pick units by names, types, sizes or a predicate") {
  TowerImpl<PlainStorey> const net;
  CHECK(names_of(net, {"storeys.*"}) == "storeys.0 storeys.1 storeys.2 ");
  CHECK(names_of(net, {"roof", "storeys.1.up", "entrance"}) == "roof storeys.1.up entrance ");  // the policies' order
  CHECK(names_of(net, {"storeys.*.up", "storeys.0"}) == "storeys.0 storeys.0.up storeys.1.up storeys.2.up ");
  CHECK(names_of(net, {torch_adapter::every<StoreyImpl>()}) == "storeys.0 storeys.1 storeys.2 ");
  CHECK(names_of(net, {torch_adapter::every<nn::LinearImpl>()}) ==
        "entrance storeys.0.up storeys.0.down storeys.1.up storeys.1.down storeys.2.up storeys.2.down roof ");
  CHECK(names_of(net, {torch_adapter::at_least(300)}) == "storeys.0 storeys.1 storeys.2 ");  // up has 260, down 252
  CHECK(names_of(net, {torch_adapter::at_least(255)}) == "storeys.0.up storeys.1.up storeys.2.up ");
  UnitPolicy const without_children{"what has no children", [](std::string const& name, nn::Module const& module) {
                                      return module.children().empty() && !name.starts_with("storeys");
                                    }};
  CHECK(names_of(net, {without_children}) == "entrance roof ");
  CHECK_THAT(thrown<ContractError>([&] { return units(net, {torch_adapter::at_least(100'000)}); }),
             Catch::Contains("at least 100000 elements picks no submodule; the submodules are: entrance, storeys"));
}

TEST_CASE("training does not depend on which modules are units") {
  auto const expected = bits_of(train_on_threads(2, File{}.config(), tower<Storey>({})));
  for (int stage : {0, 3}) {
    auto const config = File{.stage = stage}.config();
    INFO("stage " << stage);
    CHECK(bits_of(train_on_threads(2, config, tower<Storey>({}))) == expected);
    CHECK(bits_of(train_on_threads(2, config, tower<PlainStorey>({"storeys.*"}))) == expected);
    CHECK(bits_of(train_on_threads(2, config, tower<PlainStorey>({torch_adapter::every<StoreyImpl>()}))) == expected);
  }
}

// ---- values to start from -------------------------------------------------------------------------------------------

/// A safetensors file as Hugging Face's library lays it out, made by hand: 8 bytes of length, JSON, data.
class HandMade {
 public:
  void add(std::string const& name, at::Tensor const& values, std::string const& type = "F32") {
    auto const begin = data_.size();
    data_.append(static_cast<char const*>(values.const_data_ptr()), values.nbytes());
    std::string extents;
    for (auto const extent : values.sizes()) {
      extents += (extents.empty() ? "" : ",") + std::to_string(extent);
    }
    header_ += ",\"" + name + R"(":{"dtype":")" + type + R"(","shape":[)" + extents + R"(],"data_offsets":[)" +
               std::to_string(begin) + "," + std::to_string(data_.size()) + "]}";
  }
  void write(std::filesystem::path const& file) const {
    auto const text = R"({"__metadata__":{"format":"pt"})" + header_ + "}";
    auto const length = static_cast<std::uint64_t>(text.size());
    std::ofstream out{file, std::ios::binary};
    out.write(reinterpret_cast<char const*>(&length), sizeof length);
    out << text << data_;
  }

 private:
  std::string header_, data_;
};

/// All parameters of a tower, under names of another program's.
HandMade tower_weights() {
  HandMade file;
  std::uint64_t seed = 0;
  auto const add = [&](std::string const& name, std::int64_t out, std::int64_t in) {
    file.add(name + ".weight", seeded(seed++, [&] { return at::randn({out, in}) * 0.3; }));
    file.add(name + ".bias", seeded(seed++, [&] { return at::randn({out}) * 0.3; }));
  };
  add("entrance", 12, 12);
  add("roof", 12, 12);
  for (std::string const storey : {"h.0", "h.1", "h.2"}) {
    add(storey + ".up", 20, 12);
    add(storey + ".down", 12, 20);
  }
  return file;
}

/// Modules start with other values on each rank, which the file makes equal.
MakeProgram from_weights(std::filesystem::path const& file, std::vector<UnitPolicy> const& left_out = {}) {
  return [=](Job& job) {
    auto const net = seeded(static_cast<std::uint64_t>(100 + job.rank()), [] {
      auto tower = std::make_shared<TowerImpl<Storey>>();
      tower->register_buffer("seen", at::zeros({2}));
      return tower;
    });
    Program program{net, {}, {}};
    program.options.weights = file;
    program.options.weights_left_out = left_out;
    program.options.name = [](std::string const& name) {
      return name.starts_with("storeys.") ? "h" + name.substr(std::string{"storeys"}.size()) : name;
    };
    program.loss = [net](std::int64_t first, std::int64_t count) {
      return torch::mse_loss(net->forward(rows(first, count)), rows(first + 1, count));
    };
    return program;
  };
}

TEST_CASE("a safetensors file gives all values by name, whatever the ranks' modules started with") {
  Folder const folder;
  auto const file = folder / "model.safetensors";
  tower_weights().write(file);
  Run run{.steps = 0, .evaluates = false};
  run.begin = [](Trainer& trainer) {
    auto const first = seeded(0, [] { return at::randn({12, 12}) * 0.3; });
    if (!at::equal(trainer.read("entrance.weight"), first) || trainer.read("h.2.up.weight").size(0) != 20) {
      throw std::runtime_error{"not what is in the file"};
    }
  };
  for (int stage : {0, 3}) {
    static_cast<void>(train_on_threads(2, File{.stage = stage}.config(), from_weights(file), run));
  }
  CHECK(bits_of(train_on_threads(2, File{}.config(), from_weights(file))) ==
        bits_of(train_on_threads(2, File{.stage = 3}.config(), from_weights(file))));
}

TEST_CASE("a weight file may have buffers, and tensors that the program leaves out; others are refused by name") {
  Folder const folder;
  auto const file = folder / "model.safetensors";
  auto weights = tower_weights();
  weights.add("seen", at::tensor({3.0, 4.5}, at::kDouble), "F64");
  weights.add("h.1.attn.bias", at::ones({2, 2}, at::kByte), "U8");
  weights.write(file);
  Run const none{.steps = 0, .evaluates = false};
  auto const trained = train_on_threads(2, File{.stage = 3}.config(), from_weights(file, {"h.*.attn.bias"}), none);
  CHECK(trained.buffers == std::vector{3.0F, 4.5F});
  auto const refusal = [&](std::vector<UnitPolicy> const& left_out) {
    return thrown<std::runtime_error>(
        [&] { return train_on_threads(2, File{}.config(), from_weights(file, left_out), none); });
  };
  CHECK_THAT(refusal({}), Catch::Contains("load_weights() failed and changed nothing") &&
                              Catch::Contains("\"h.1.attn.bias\" is not a parameter of the model") &&
                              !Catch::Contains("seen"));
  auto odd = tower_weights();
  odd.add("seen", at::zeros({3}));
  odd.write(file);
  CHECK_THAT(refusal({}), Catch::Contains("buffer \"seen\" is F32 [3], the module's is Float [2]"));
}

// ---- samples --------------------------------------------------------------------------------------------------------

TEST_CASE("a data set of torch::data feeds ranks by SampleOrder as one rank, every sample once an epoch") {
  auto const train = [](int world, int micro) {
    std::vector<std::vector<std::int64_t>> taken(static_cast<std::size_t>(world));
    std::vector<float> losses;
    auto const outcome = run_job(world, [&](Job& job) {
      auto const net = seeded(4, [] { return std::make_shared<TowerImpl<Storey>>(); });
      Trainer trainer{job, File{.stage = 3, .micro = micro}.config(), *net};
      torch::data::datasets::TensorDataset data{rows(0, 24)};
      SampleOrder const order{static_cast<std::int64_t>(*data.size()), {.seed = 3}};
      for (int step = 0; step < 3; ++step) {
        for (auto micro_step : trainer.micro_steps()) {
          std::vector<std::size_t> places;
          for (std::int64_t i = 0; i < trainer.micro_batch(); ++i) {
            places.push_back(static_cast<std::size_t>(order[micro_step.first_sample() + i]));
            taken[static_cast<std::size_t>(job.rank())].push_back(static_cast<std::int64_t>(places.back()));
          }
          std::vector<at::Tensor> batch;
          for (auto& example : data.get_batch(places)) {
            batch.push_back(example.data);
          }
          auto const x = at::stack(batch);
          micro_step.backward(torch::mse_loss(net->forward(x), x.flip({1})));
        }
        if (auto const report = trainer.step(); report && job.rank() == 0) {
          losses.push_back(report->loss);
        }
      }
      if (auto const report = trainer.finish(); report && job.rank() == 0) {
        losses.push_back(report->loss);
      }
    });
    REQUIRE(messages_of(outcome) == "");
    std::vector<std::int64_t> all;
    for (auto const& of_rank : taken) {
      all.insert(all.end(), of_rank.begin(), of_rank.end());
    }
    std::ranges::sort(all);
    REQUIRE(all.size() == 24);
    for (std::size_t i = 0; i < all.size(); ++i) {
      CHECK(all[i] == static_cast<std::int64_t>(i));
    }
    return losses;
  };
  auto const one = train(1, 8), four = train(4, 2);
  REQUIRE(one.size() == 3);
  REQUIRE(four.size() == 3);
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(std::abs(one[i] - four[i]) < 1e-5F * std::abs(one[i]));
  }
}

// ---- memory ---------------------------------------------------------------------------------------------------------

struct WideImpl : nn::Module {
  nn::Linear linear{register_module("linear", nn::Linear{nn::LinearOptions{1024, 4096}.bias(false)})};
  at::Tensor forward(at::Tensor const& x) { return linear(x).narrow(1, 0, 1024); }
};
ZEROTH_TORCH_UNIT(Wide);

TEST_CASE("parameters and gradients are in memory only once") {
  constexpr std::int64_t each = 4LL * 1024 * 4096;
  constexpr int layers = 12;
  bool warm = false;  // pages of libtorch's code count as well, and are loaded when it first runs
  for (int stage : {0, 0, 3}) {
    std::int64_t planned = 0, grown = 0;
    auto const outcome = run_job(1, [&](Job& job) {
      at::set_num_threads(1);
      ::malloc_trim(0);
      auto const before = resident_bytes();
      auto net = seeded(1, [] {
        nn::ModuleList list;
        for (int i = 0; i < layers; ++i) {
          list->push_back(Wide{});
        }
        return list;
      });
      File const file{.stage = stage, .slots = 2, .optimizer = R"("type": "SGD", "params": {"lr": 1e-3})"};
      Trainer trainer{job, file.config(), *net};
      // Separate pages for all large tensors: glibc's heap has holes into which aligned memory of the same size does
      // not fit, and they would count.
      ::mallopt(M_MMAP_THRESHOLD, 4 << 20);
      REQUIRE(forget_peak());
      for (int step = 0; step < 3; ++step) {
        for (auto micro : trainer.micro_steps()) {
          auto x = at::ones({2, 1024});
          for (std::size_t i = 0; i < net->size(); ++i) {
            x = Wide{net->ptr<WideImpl>(i)}(x);
          }
          micro.backward(x.square().mean());
        }
        trainer.step();
      }
      trainer.finish();
      planned = trainer.engine().planned().total();
      grown = peak_resident_bytes() - before;
    });
    REQUIRE(messages_of(outcome) == "");
    INFO("stage " << stage << ": planned " << planned << ", grown by " << grown);
    CHECK(planned >= 2 * layers * each);
    CHECK(grown > planned / 2);
    CHECK((!warm || grown < planned + each + each / 2));  // one gradient is autograd's until it has been copied
    warm = true;
  }
}

}  // namespace
}  // namespace zeroth::testing
