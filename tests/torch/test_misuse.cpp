// SPDX-License-Identifier: Apache-2.0
/// Every misuse has a message with a remedy.
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "support/job.hpp"
#include "support/thrown.hpp"
#include "torch_catch.hpp"
#include "two_layers.hpp"

namespace zeroth::testing {
namespace {

namespace nn = torch::nn;
using torch_adapter::Trainer;
using torch_adapter::units;

Net make_net() {
  return torch_adapter::seeded(1, [] { return Net{}; });
}
at::Tensor loss_of(Net& net) { return net(input()).square().mean(); }

/// The error of `use` on one rank.
template <class E = ContractError>
std::string said(std::function<void(Job&, Net&)> const& use) {
  std::string message;
  auto const outcome = run_job(1, [&](Job& job) {
    auto net = make_net();
    message = thrown<E>([&] { use(job, net); });
  });
  return message + messages_of(outcome);
}
template <class E = ContractError>
std::string said_in_training(std::function<void(Trainer&, Net&)> const& use) {
  return said<E>([&](Job& job, Net& net) {
    Trainer trainer{job, File{.stage = 3}.config(), *net};
    use(trainer, net);
  });
}
std::string said_of_module(nn::Module& root, torch_adapter::TrainerOptions const& options = {}) {
  return said([&](Job& job, Net&) { Trainer{job, File{}.config(), root, options}; });
}
auto contains(std::string const& text) { return Catch::Contains(text); }

}  // namespace

TEST_CASE("the error about a parameter read outside of passes names it, and says how to get its values") {
  auto const read =
      said_in_training<c10::Error>([](Trainer&, Net& net) { static_cast<void>(net->b->linear->weight.sum()); });
  CHECK_THAT(read, contains("[rank 0/1] parameter \"b.linear.weight\" of unit \"b\" was read outside of a micro-step"));
  CHECK_THAT(read, contains("Trainer::read()"));
  CHECK_THAT(said_in_training<c10::Error>([](Trainer&, Net& net) { static_cast<void>(loss_of(net)); }),
             contains("parameter \"a.linear."));
  CHECK_THAT(said_in_training<c10::Error>([](Trainer&, Net& net) {
               std::ostringstream file;
               torch::save(net, file);
             }),
             contains("was read outside"));
  CHECK_THAT(said_in_training<c10::Error>(
                 [](Trainer&, Net& net) { static_cast<void>(net->a->linear->bias.data_ptr<float>()); }),
             contains("parameter \"a.linear.bias\""));
  // Also in a pass while its unit is closed: by code that is not an operation, or on another thread.
  auto const in_pass = [](std::function<void(Net&)> const& use) {
    return said_in_training<c10::Error>([&](Trainer& trainer, Net& net) {
      for (auto micro : trainer.micro_steps()) {
        auto const loss = loss_of(net);
        use(net);
        micro.backward(loss);
      }
    });
  };
  CHECK_THAT(in_pass([](Net& net) { static_cast<void>(net->a->linear->bias.data_ptr<float>()); }),
             contains("parameter \"a.linear.bias\" of unit \"a\" was read") && contains("does not dispatch"));
  CHECK_THAT(in_pass([](Net& net) {
               std::exception_ptr error;
               std::thread{[&] {
                 try {
                   static_cast<void>(net->a->linear->weight.sum());
                 } catch (...) {
                   error = std::current_exception();
                 }
               }}.join();
               if (error) {
                 std::rethrow_exception(error);
               }
             }),
             contains("parameter \"a.linear.weight\" of unit \"a\" was read"));
  CHECK_THAT(said_in_training<Error>([](Trainer&, Net& net) {
               torch_adapter::detail::without_backtrace([&] { static_cast<void>(net->b->linear->weight.sum()); });
             }),
             Catch::StartsWith("[rank 0/1] parameter \"b.linear.weight\""));
  CHECK_THAT(said<c10::Error>([](Job& job, Net& net) {
               { Trainer const trainer{job, File{}.config(), *net}; }
               static_cast<void>(loss_of(net));
             }),
             contains("has no memory: its Trainer was destroyed"));
}

TEST_CASE("a parameter that the program changes without its Trainer is rejected by name") {
  for (int const stage : {0, 3}) {
    CAPTURE(stage);
    auto const step = [stage](std::function<void(Net&)> const& before, std::function<void(Net&)> const& within) {
      return said([&](Job& job, Net& net) {
        Trainer trainer{job, File{.stage = stage}.config(), *net};
        before(net);
        for (auto micro : trainer.micro_steps()) {
          auto const loss = loss_of(net);
          within(net);
          micro.backward(loss);
        }
      });
    };
    auto const nothing = [](Net&) {};
    auto const set_data = [](Net& net) { net->a->linear->weight.set_data(at::ones({8, 8})); };
    auto const freeze = [](Net& net) { net->b->linear->bias.requires_grad_(false); };
    auto const clamp = [](Net& net) {
      at::NoGradGuard const no_grad;
      static_cast<void>(net->b->linear->weight.clamp_(-0.1, 0.1));
    };
    CHECK_THAT(step(set_data, nothing), contains("parameter \"a.linear.weight\" was given other memory"));
    CHECK_THAT(step(nothing, set_data), contains("parameter \"a.linear.weight\" was given other memory"));
    CHECK_THAT(step(nothing, clamp), contains("parameter \"b.linear.weight\" was written to inside of a pass"));
    CHECK_THAT(step(freeze, nothing), contains("requires_grad of parameter \"b.linear.bias\" was set to false"));
  }
}

TEST_CASE("parameters and modules that are registered after the Trainer was made are refused by name") {
  auto const after = [](std::function<void(Net&)> const& change) {
    return said_in_training([&](Trainer& trainer, Net& net) {
      for (int step = 0; step < 2; ++step) {
        for (auto micro : trainer.micro_steps()) {
          micro.backward(loss_of(net));
        }
        trainer.step();
        change(net);
      }
    });
  };
  CHECK(after([](Net&) {}).empty());
  CHECK_THAT(after([](Net& net) { net->b->register_parameter("gate", at::ones({1})); }),
             contains("parameter \"b.gate\" was registered after the Trainer was made"));
  CHECK_THAT(after([](Net& net) {
               net->register_module("c", nn::Linear{2, 2});
             }),
             contains("parameter \"c.weight\" was registered after"));
  CHECK_THAT(after([](Net& net) {
               net->b->replace_module("linear", nn::Linear{8, 8});
             }),
             contains("parameter \"b.linear.weight\" was registered after"));
  CHECK_THAT(after([](Net& net) { net->unregister_module("b"); }), contains("are no longer registered"));
}

TEST_CASE("invalid losses are rejected") {
  auto const of = [](std::function<void(torch_adapter::MicroStep&, Net&)> const& use) {
    return said_in_training([&](Trainer& trainer, Net& net) {
      for (auto micro : trainer.micro_steps()) {
        use(micro, net);
      }
    });
  };
  CHECK_THAT(of([](auto& micro, Net& net) { micro.backward(net(input()).square()); }),
             contains("the loss has shape [2, 8]; it must be one number"));
  CHECK_THAT(of([](auto& micro, Net&) { micro.backward({}); }), contains("undefined tensor"));
  CHECK_THAT(of([](auto& micro, Net& net) { micro.backward(loss_of(net).detach()); }),
             contains("does not depend on a parameter that is trained"));
  CHECK_THAT(of([](auto& micro, Net& net) { micro.backward(net(input()).to(at::kBFloat16).mean()); }),
             contains("the loss is of type BFloat16: take the mean in Float"));
  CHECK_THAT(of([](auto&, Net& net) { loss_of(net).backward(); }),
             contains("came by loss.backward(): call backward(loss)"));
  CHECK_THAT(of([](auto& micro, Net& net) {
               micro.backward(loss_of(net));
               micro.backward(loss_of(net));
             }),
             contains("report_loss() for the second time"));
  CHECK_THAT(of([](auto& micro, Net&) { micro.skip("c"); }),
             contains("skip() of \"c\", which is not a unit; the units are: \"a\", \"b\""));
}

TEST_CASE("a torch optimizer is rejected, because it has nothing to work on") {
  auto const after_backward = [](std::function<void(Net&)> const& use) {
    return said_in_training<c10::Error>([&](Trainer& trainer, Net& net) {
      for (auto micro : trainer.micro_steps()) {
        micro.backward(loss_of(net));
      }
      trainer.step();
      use(net);
    });
  };
  auto const* const refusal =
      "The stage file's optimizer makes the updates: one of torch::optim has nothing to work on";
  CHECK_THAT(after_backward([](Net& net) { torch::optim::SGD{net->parameters(), 0.1}.step(); }), contains(refusal));
  CHECK_THAT(after_backward([](Net& net) { torch::optim::AdamW{net->parameters()}.step(); }), contains(refusal));
  CHECK_THAT(after_backward([](Net& net) { static_cast<void>(net->a->linear->weight.grad().sum()); }),
             contains("the gradient of \"a.linear.weight\" belongs to its engine"));
  CHECK_THAT(after_backward([](Net& net) { nn::utils::clip_grad_norm_(net->parameters(), 1.0); }),
             contains("gradient_clipping"));
}

TEST_CASE("invalid units are rejected") {
  struct PlainImpl : nn::Module {
    nn::Linear one{register_module("one", nn::Linear{4, 4})}, two{register_module("two", nn::Linear{4, 4})};
  };
  PlainImpl plain;
  CHECK_THAT(said_of_module(plain), contains("a Trainer was given a module without units"));
  CHECK_THAT(thrown<ContractError>([&] { return units(plain, {"three.*"}); }),
             contains("units(): \"three.*\" picks no submodule; the submodules are: one, two"));
  CHECK_THAT(said_of_module(plain, {.units = units(plain, {"one"}), .recompute = {"one"}}),
             contains("recompute of unit \"one\", which is not in a holder made by ZEROTH_TORCH_UNIT"));
  CHECK_THAT(said_of_module(plain, {.units = units(plain, {"one"}), .recompute = {"two"}}),
             contains("TrainerOptions::recompute: \"two\" picks no unit"));
  CHECK_THAT(thrown<ContractError>([] { Layer{std::make_shared<LayerImpl>()}; }), contains("that would not be a unit"));
  CHECK(said_of_module(plain, {.units = units(plain, {})}).empty());
}

TEST_CASE("modules that cannot be trained are refused") {
  auto const with = [](std::function<void(nn::Module&)> const& change) {
    nn::Linear linear{4, 4};
    nn::Module root;
    root.register_module("linear", linear);
    change(*linear);
    return said_of_module(root, {.units = units(root, {"linear"})});
  };
  CHECK_THAT(with([](auto& module) { module.to(at::kDouble); }),
             contains("parameter \"linear.weight\" is of type Double"));
  CHECK_THAT(with([](auto& module) { module.register_parameter("more", module.parameters()[0].view({16})); }),
             contains("parameters \"linear.weight\" and \"linear.more\" share memory and are different tensors"));
  at::Tensor kept;
  auto const shares = "\"linear.weight\" shares its memory with a tensor that is not a parameter";
  CHECK_THAT(with([&](auto& module) { kept = module.parameters()[0].t(); }), contains(shares));
  CHECK_THAT(with([&](auto& module) { kept = module.parameters()[0].detach(); }), contains(shares));
  CHECK(with([&](auto& module) { kept = module.parameters()[0]; }).empty());  // the same tensor follows
  CHECK(with([&](auto& module) { static_cast<void>(module.parameters()[0].t()); }).empty());
  struct Hook : torch::autograd::PostAccumulateGradHook {
    void operator()(at::Tensor const& /*tensor*/) override {}
  };
  CHECK_THAT(with([](auto& module) {
               torch::autograd::impl::set_post_acc_grad_hooks(module.parameters()[1], std::make_unique<Hook>());
             }),
             contains("parameter \"linear.bias\" has a post-accumulate hook"));
  CHECK_THAT(said_in_training([](Trainer& trainer, Net& net) {
               auto const outcome = run_job(1, [&](Job& job) { Trainer{job, File{}.config(), *net}; });
               CHECK_THAT(messages_of(outcome), contains("parameter \"a.linear.weight\" has a Trainer already"));
               for (auto micro : trainer.micro_steps()) {  // the first Trainer continues
                 micro.backward(loss_of(net));
               }
               trainer.step();
               trainer.finish();
             }),
             Catch::Equals(""));
  nn::Module empty;
  CHECK_THAT(said_of_module(empty, {.units = units(empty, {})}), contains("a module without parameters"));
  CHECK_THAT(said_in_training([](Trainer& trainer, Net&) { static_cast<void>(trainer.read("c")); }),
             contains("read() of \"c\", which is not a parameter of the module"));
  CHECK_THAT(said_in_training([](Trainer& trainer, Net&) { trainer.write("a.linear.bias", at::zeros({3})); }),
             contains("the values have shape [3], the parameter has [8]"));
}

TEST_CASE("parameters and buffers on another device than the CPU are refused with what to do") {
  auto const with = [](auto const& change, torch_adapter::TrainerOptions options = {}) {
    nn::Module root;
    nn::Linear linear{4, 4};
    root.register_module("linear", linear);
    change(*linear);
    options.units = units(root, {"linear"});
    return said_of_module(root, options);
  };
  auto const add_parameter = [](auto& module) { module.register_parameter("more", at::empty({2}, at::kMeta)); };
  auto const add_buffer = [](auto& module) { module.register_buffer("mask", at::empty({2}, at::kMeta)); };
  CHECK_THAT(with(add_parameter), contains("parameter \"linear.more\" is on the device meta, where it has no values"));
  CHECK_THAT(with(add_buffer), contains("buffer \"linear.mask\" is on the device meta") &&
                                   contains("A buffer must then hold what forward reads"));
  CHECK_THAT(with(add_buffer, {.buffers_not_saved = {"linear.mask"}}), contains("is on the device meta"));
  auto const refused = [](c10::Device device) {
    return thrown<ContractError>([&] { torch_adapter::detail::expect_on_cpu("buffer \"mask\"", device); });
  };
  CHECK_THAT(refused({at::kCUDA, 1}), contains("buffer \"mask\" is on cuda:1: this adapter supports CPUs only") &&
                                          contains("module.to(torch::kCPU)"));
  CHECK(refused(at::kCPU) == "");
}

TEST_CASE("different initial values of a rank are detected") {
  auto const outcome = run_job(2, [](Job& job) {
    auto net = torch_adapter::seeded(static_cast<std::uint64_t>(job.rank()), [] { return Net{}; });
    Trainer{job, File{}.config(), *net};
  });
  CHECK_THAT(messages_of(outcome), contains("rank"));
  CHECK(message_of(outcome[0]) != "");
}

TEST_CASE("an exception of libtorch in forward ends all ranks with its message, without a backtrace") {
  for (bool const in_backward : {false, true}) {
    auto const outcome = run_job(2, [&](Job& job) {
      torch_adapter::detail::without_backtrace([&] {
        auto net = make_net();
        Trainer trainer{job, File{.stage = 3}.config(), *net};
        for (int step = 0; step < 3; ++step) {
          for (auto micro : trainer.micro_steps()) {
            auto out = net(input());
            if (step == 1 && job.rank() == 1) {
              if (!in_backward) {
                static_cast<void>(net->a(at::zeros({2, 7})));
              }
              out.register_hook([](at::Tensor const& gradient) { return at::matmul(gradient, at::zeros({7, 7})); });
            }
            micro.backward(out.square().mean());
          }
          trainer.step();
        }
      });
    });
    INFO(messages_of(outcome));
    CHECK_THAT(message_of(outcome[1]), contains("mat1 and mat2 shapes cannot be multiplied"));
    CHECK_THAT(message_of(outcome[1]), Catch::StartsWith("[rank 1/2] "));
    CHECK_THAT(message_of(outcome[1]), !contains("frame #"));
    CHECK_THAT(message_of(outcome[0]), contains("rank 1"));
  }
}

TEST_CASE("an exception in backward that is caught ends training, and nothing of the pass is sent") {
  CHECK_THAT(said_in_training([](Trainer& trainer, Net& net) {
               for (auto micro : trainer.micro_steps()) {
                 auto out = net(input());
                 out.register_hook([](at::Tensor const& gradient) { return at::matmul(gradient, at::zeros({7, 7})); });
                 try {
                   micro.backward(out.square().mean());
                 } catch (Error const&) {  // and continues
                 }
               }
               trainer.step();
             }),
             contains("the engine failed before"));
}

TEST_CASE("a pass of another Trainer is refused while one is under way") {
  CHECK_THAT(said([](Job& job, Net& net) {
               auto other = make_net();
               Trainer one{job, File{}.config(), *net}, two{job, File{}.config(), *other};
               for (auto micro : one.micro_steps()) {
                 for (auto within : two.micro_steps()) {
                   within.skip();
                 }
                 micro.skip();
               }
             }),
             contains("a pass begins while one of another Trainer is under way"));
}

TEST_CASE("an engine's error in forward keeps its type and message") {
  auto const outcome = run_job(2, [](Job& job) {
    torch_adapter::detail::without_backtrace([&] {
      auto net = make_net();
      Trainer trainer{job, File{.stage = 3}.config(), *net};
      for (auto micro : trainer.micro_steps()) {
        if (job.rank() == 1) {
          throw std::runtime_error{"a program's own"};
        }
        micro.backward(loss_of(net));
      }
    });
  });
  CHECK(message_of(outcome[1]) == "a program's own");
  CHECK_THROWS_AS(std::rethrow_exception(outcome[0]), PeerError);
  CHECK_THAT(message_of(outcome[0]), contains("rank 1"));
}

TEST_CASE("a unit with recompute must be called by its holder") {
  struct SequenceImpl : nn::Module {
    nn::Sequential layers{register_module("layers", nn::Sequential{Layer{}, Layer{}})};
  };
  auto const outcome = run_job(1, [](Job& job) {
    auto net = torch_adapter::seeded(1, [] { return std::make_shared<SequenceImpl>(); });
    Trainer trainer{job, File{}.config(), *net, {.recompute = {"layers.*"}}};
    torch_adapter::detail::without_backtrace([&] {
      for (auto micro : trainer.micro_steps()) {
        micro.backward(net->layers->forward(input()).square().mean());
      }
    });
  });
  CHECK_THAT(messages_of(outcome),
             contains("unit \"layers.0\" is to be run again in backward, but was called without its holder"));
}

TEST_CASE("dropout with recompute is rejected if ranks are threads, and works on one rank") {
  struct DropImpl : nn::Module {
    nn::Linear linear{register_module("linear", nn::Linear{8, 8})};
    at::Tensor forward(at::Tensor const& x) { return at::dropout(linear(x), 0.5, true); }
  };
  struct Drop : torch_adapter::UnitHolder<DropImpl> {};
  struct TwoImpl : nn::Module {
    Drop a, b;
    TwoImpl() : a{register_module("a", Drop{})}, b{register_module("b", Drop{})} {}
    at::Tensor forward(at::Tensor const& x) { return b(a(x)); }
  };
  auto const train = [](int ranks, bool again) {
    float norm = 0;
    auto const outcome = run_job(ranks, [&](Job& job) {
      auto net = torch_adapter::seeded(1, [] { return std::make_shared<TwoImpl>(); });
      torch_adapter::TrainerOptions options;
      if (again) {
        options.recompute = {"*"};
      }
      Trainer trainer{job, File{}.config(), *net, options};
      double one = 1;
      job.sum({&one, 1});  // all Trainers exist
      for (auto micro : trainer.micro_steps()) {
        torch::manual_seed(4);
        micro.backward(net->forward(input()).square().mean());
      }
      trainer.step();
      norm = trainer.finish()->grad_norm;
    });
    return std::pair{norm, messages_of(outcome)};
  };
  auto const kept = train(1, false), again = train(1, true);
  CHECK(kept.second + again.second == "");
  CHECK(kept.first == again.first);
  CHECK_THAT(train(2, true).second, contains("share libtorch's generator"));
}

}  // namespace zeroth::testing
