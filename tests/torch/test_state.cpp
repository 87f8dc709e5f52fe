// SPDX-License-Identifier: Apache-2.0
/// Saving, restoring, reading and writing; and SyncBatchNorm compared with BatchNorm on the whole batch.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
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
using torch_adapter::SyncBatchNorm;
using torch_adapter::Trainer;

std::vector<std::byte> bytes_of(std::string const& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

TEST_CASE("training resumes from a checkpoint with its buffers, bit for bit, at any stage and number of ranks") {
  for (int stage : {0, 3}) {
    Folder const folder;
    File const file{.stage = stage};
    auto const whole = train_on_threads(2, file.config(), vision_program, {.steps = 5});
    Run saving{.steps = 3, .evaluates = false};
    saving.after_step = [&](Trainer& trainer, int step) {
      if (step == 3) {
        auto const state = bytes_of("mine");
        SaveOptions with_state;
        with_state.program_state = state;
        trainer.save(folder.path(), with_state).wait();
      }
    };
    static_cast<void>(train_on_threads(2, file.config(), vision_program, saving));
    Run resuming{.steps = 2};
    resuming.begin = [&](Trainer& trainer) {
      auto const restored = trainer.restore_latest(folder.path());
      if (!restored || restored->step != 3 || restored->program_state != bytes_of("mine")) {
        throw std::runtime_error{"not what was saved"};
      }
    };
    auto const resumed = train_on_threads(2, file.config(), vision_program, resuming);
    CHECK(resumed.weights == whole.weights);
    CHECK(resumed.buffers == whole.buffers);
    CHECK(resumed.evaluation == whole.evaluation);
    CHECK(resumed.losses == std::vector(whole.losses.begin() + 3, whole.losses.end()));
    resuming.steps = 1;
    auto const alone = train_on_threads(1, File{.stage = 3 - stage}.config(), vision_program, resuming);
    CHECK(alone.losses.size() == 1);
  }
}

/// The text that `run` writes to standard error.
std::string logged_by(std::function<void()> const& run) {
  Folder const folder;
  auto const file = folder / "log";
  int const before = ::dup(STDERR_FILENO);
  int const log = ::open(file.c_str(), O_CREAT | O_WRONLY, 0600);
  ::dup2(log, STDERR_FILENO);
  run();
  ::dup2(before, STDERR_FILENO);
  ::close(log);
  ::close(before);
  std::ifstream stream{file};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

TEST_CASE("dropout after a resume has the masks of the uninterrupted run") {
  Folder const folder;
  auto const config = File{}.config();
  Run whole{.steps = 5, .evaluates = false};
  whole.begin = [](Trainer&) { torch::manual_seed(5); };
  auto const expected = train_on_threads(1, config, dropout_going_on, whole);
  auto saving = whole;
  saving.steps = 3;
  saving.after_step = [&](Trainer& trainer, int step) {
    if (step == 3) {
      trainer.save(folder.path()).wait();
    }
  };
  static_cast<void>(train_on_threads(1, config, dropout_going_on, saving));
  auto const resume = [&](int world) {
    Run run{.steps = 2, .evaluates = false};
    run.begin = [&](Trainer& trainer) {
      torch::manual_seed(6);
      trainer.restore_latest(folder.path());
    };
    return train_on_threads(world, config, dropout_going_on, run);
  };
  Trained resumed;
  CHECK_THAT(logged_by([&] { resumed = resume(1); }), !Catch::Contains("generators"));
  CHECK(resumed.losses == std::vector(expected.losses.begin() + 3, expected.losses.end()));
  CHECK(resumed.weights == expected.weights);
  auto const log = logged_by([&] { static_cast<void>(resume(2)); });
  std::string const says = "[rank 0/2] restore(): the checkpoint has the generators of 1 ranks, but 2 ranks resume: ";
  CHECK_THAT(log, Catch::Contains(says));
  CHECK(log.find(says) == log.rfind(says));
}

TEST_CASE("buffers that are too large for a checkpoint, or differ from it, are rejected by name") {
  struct MaskedImpl : nn::Module {
    nn::Linear linear{register_module("linear", nn::Linear{4, 4})};
    at::Tensor mask;
    explicit MaskedImpl(std::int64_t size) : mask{register_buffer("mask", at::ones({size, size}))} {}
  };
  Folder const folder;
  auto const with = [&](std::int64_t size, std::vector<torch_adapter::UnitPolicy> not_saved, auto const& use) {
    auto const outcome = run_job(1, [&](Job& job) {
      auto net = torch_adapter::seeded(1, [&] { return std::make_shared<MaskedImpl>(size); });
      Trainer trainer{job,
                      File{}.config(),
                      *net,
                      {.units = torch_adapter::units(*net, {"linear"}), .buffers_not_saved = std::move(not_saved)}};
      use(trainer);
    });
    return messages_of(outcome);
  };
  auto const save = [&](Trainer& trainer) { trainer.save(folder.path()).wait(); };
  CHECK_THAT(with(600, {}, save), Catch::Contains("The largest buffer is \"mask\", Float [600, 600]"));
  CHECK(with(600, {"mask"}, save) == "");
  CHECK_THAT(with(10, {}, [&](Trainer& trainer) { trainer.restore_latest(folder.path()); }),
             Catch::Contains("the checkpoint has no buffer \"mask\""));
  CHECK(with(10, {}, save) == "");
  CHECK_THAT(with(12, {}, [&](Trainer& trainer) { trainer.restore_latest(folder.path()); }),
             Catch::Contains("buffer \"mask\" is Float [10, 10] in the checkpoint, the module's is Float [12, 12]"));
}

TEST_CASE("weights are read, written, saved and loaded by the module's names") {
  Folder const folder;
  Run run{.steps = 1, .evaluates = false};
  run.after_step = [&](Trainer& trainer, int) {
    trainer.write("transformer.ln_f.bias", at::full({32}, 0.25));
    auto const values = trainer.read("transformer.ln_f.bias");
    if (!at::equal(values, at::full({32}, 0.25))) {
      throw std::runtime_error{"what was written is not what is read"};
    }
    trainer.save_weights(folder / "model.safetensors");
  };
  auto const saved = train_on_threads(2, File{.stage = 3}.config(), gpt_program, run);
  auto const from_file = [&](Job& job) {
    auto program = gpt_program(job);
    program.options.weights = folder / "model.safetensors";
    return program;
  };
  auto const loaded = train_on_threads(2, File{.stage = 2}.config(), from_file, {.steps = 0, .evaluates = false});
  CHECK(loaded.weights == saved.weights);
}

TEST_CASE("weight files have buffers in their own types, aligned, and load at any stage and number of ranks") {
  Folder const folder;
  auto const file = folder / "model.safetensors";
  auto const with_buffers = [](std::vector<torch_adapter::UnitPolicy> const& not_saved) {
    return [=](Job& job) {
      auto program = vision_program(job);
      program.module->register_buffer("odd", at::arange(3, at::kByte));
      program.options.buffers_not_saved = not_saved;
      return program;
    };
  };
  for (auto const& [dtype, element_bytes] : {std::pair{"F32", 4}, {"BF16", 2}}) {
    INFO(dtype);
    Run run{.steps = 2, .evaluates = false};
    run.after_step = [&](Trainer& trainer, int) { trainer.save_weights(file); };
    File saving{.stage = 3};
    if (element_bytes == 2) {
      saving.more = R"("bf16": {"enabled": true})";
      saving.zero = R"("stage3_gather_16bit_weights_on_model_save": true)";
    }
    auto const saved = train_on_threads(2, saving.config(), with_buffers({}), run);
    InputFile const written{file};
    auto const [header, begin] = torch_adapter::detail::header_and_data_begin(written, file);
    std::map<std::string, int> counts;
    for (auto const& tensor : header.tensors) {
      auto const type = torch_adapter::detail::stored_type(tensor.dtype);
      REQUIRE(type);
      CHECK((begin + tensor.offset) % static_cast<std::int64_t>(c10::elementSize(*type)) == 0);
      ++counts[tensor.dtype];
    }
    CHECK(counts["I64"] > 0);  // num_batches_tracked
    CHECK(counts["U8"] == 1);
    CHECK(counts[dtype] > 8);
    CHECK(written.bytes() == begin + header.data_bytes);
    CHECK(std::distance(std::filesystem::directory_iterator{folder.path()}, {}) == 1);  // nothing is left over
    auto const from_file = [&](Job& job) {
      auto program = with_buffers({})(job);
      program.module->buffers().back().zero_();
      program.options.weights = file;
      return program;
    };
    auto const loaded = train_on_threads(3, File{.stage = 1}.config(), from_file, {.steps = 0, .evaluates = false});
    CHECK(loaded.buffers == saved.buffers);
    CHECK((element_bytes == 2 || loaded.weights == saved.weights));
  }
  Run run{.steps = 1, .evaluates = false};
  run.after_step = [&](Trainer& trainer, int) { trainer.save_weights(file); };
  static_cast<void>(train_on_threads(2, File{}.config(), with_buffers({"*", "*.*", "*.*.*", "*.*.*.*"}), run));
  auto const [header, begin] = torch_adapter::detail::header_and_data_begin(InputFile{file}, file);
  CHECK(std::ranges::all_of(header.tensors, [](auto const& tensor) { return tensor.dtype == "F32"; }));
  CHECK(std::ranges::none_of(header.tensors, [](auto const& tensor) { return tensor.name.ends_with("mean"); }));
}

TEST_CASE("a weight file with buffers that cannot be written is one error on all ranks, and training goes on") {
  Folder const folder;
  std::filesystem::create_directory(folder / "taken");
  std::vector<std::string> messages(2);
  auto const outcome = run_job(2, [&](Job& job) {
    auto const program = vision_program(job);
    Trainer trainer{job, File{.stage = 3}.config(), *program.module, program.options};
    auto& message = messages[static_cast<std::size_t>(job.rank())];
    message = thrown<SystemError>([&] { trainer.save_weights(folder / "taken"); });
    message += thrown<SystemError>([&] { trainer.save_weights(folder / "nowhere" / "file"); });
    trainer.save_weights(folder / "good");
  });
  CHECK(messages_of(outcome) == "");
  for (auto const& message : messages) {
    CHECK_THAT(message, Catch::Contains("save_weights() failed and changed nothing") &&
                            Catch::Contains((folder / "taken").string()) && Catch::Contains("nowhere"));
  }
  CHECK(std::filesystem::exists(folder / "good"));
  CHECK(std::distance(std::filesystem::directory_iterator{folder.path()}, {}) == 2);
}

struct NormedImpl : nn::Module {
  nn::Conv2d conv{register_module("conv", nn::Conv2d{nn::Conv2dOptions{2, 6, 3}})};
  SyncBatchNorm sync{nullptr};
  nn::BatchNorm2d plain{nullptr};
  explicit NormedImpl(Job* job) {
    if (job != nullptr) {
      sync = register_module("norm", SyncBatchNorm{*job, 6});
    } else {
      plain = register_module("norm", nn::BatchNorm2d{6});
    }
  }
  at::Tensor forward(at::Tensor const& x) {
    auto const y = conv(x);
    return at::tanh(sync ? sync(y) : plain(y));
  }
};

/// Rows of images on each rank; loss and gradients are those of a mean over all rows.
void expect_equal_to_whole_batch(std::vector<std::int64_t> const& rows) {
  std::int64_t all = 0;
  for (auto const each : rows) {
    all += each;
  }
  auto const images = torch_adapter::seeded(2, [&] { return at::randn({all, 2, 5, 5}) * 3 + 10; });
  auto const make = [](Job* job) {
    return torch_adapter::seeded(1, [&] { return std::make_shared<NormedImpl>(job); });
  };
  auto const whole = make(nullptr);
  for (int step = 0; step < 3; ++step) {
    whole->zero_grad();
    whole->forward(images).square().sum().backward();
  }
  std::vector<std::vector<at::Tensor>> gradients(rows.size()), buffers(rows.size());
  auto const outcome = run_job(static_cast<int>(rows.size()), [&](Job& job) {
    auto const rank = static_cast<std::size_t>(job.rank());
    auto const net = make(&job);
    std::int64_t first = 0;
    for (std::size_t before = 0; before < rank; ++before) {
      first += rows[before];
    }
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      net->forward(images.narrow(0, first, rows[rank])).square().sum().backward();
    }
    for (auto const& parameter : net->parameters()) {
      gradients[rank].push_back(parameter.grad());
    }
    buffers[rank] = net->buffers();
  });
  REQUIRE(messages_of(outcome) == "");
  for (std::size_t p = 0; p < whole->parameters().size(); ++p) {
    auto sum = at::zeros_like(whole->parameters()[p]);
    for (auto const& of_rank : gradients) {
      sum += of_rank[p];
    }
    auto const expected = whole->parameters()[p].grad();
    // The gradient of a bias before a normalisation is 0 except for rounding.
    auto const scale = std::max(expected.abs().max().item<float>(), 1.0F);
    CHECK((sum - expected).abs().max().item<float>() < 2e-4F * scale);
  }
  for (auto const& of_rank : buffers) {
    for (std::size_t b = 0; b < of_rank.size(); ++b) {
      CHECK(at::allclose(of_rank[b], whole->buffers()[b], 1e-5, 1e-5));
      CHECK(at::equal(of_rank[b], buffers[0][b]));
    }
  }
}

TEST_CASE("SyncBatchNorm is BatchNorm on all ranks' batches together, however they are divided") {
  expect_equal_to_whole_batch({8});
  expect_equal_to_whole_batch({4, 4});
  expect_equal_to_whole_batch({5, 1, 2});
  expect_equal_to_whole_batch({7, 0, 1});  // a rank without samples
}

TEST_CASE("SyncBatchNorm trains and evaluates in every type, with and without weights of its own") {
  auto const values = torch_adapter::seeded(2, [] { return at::randn({6, 3}) * 3 + 1; });
  for (auto const type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (bool const affine : {true, false}) {
      CAPTURE(c10::toString(type), affine);
      auto const options = nn::BatchNormOptions{3}.affine(affine);
      auto const x = values.to(type);
      at::Tensor trained, evaluated, gradient;
      auto const outcome = run_job(1, [&](Job& job) {
        SyncBatchNorm norm{job, options};
        for (auto& parameter : norm->parameters()) {
          parameter.set_data(parameter.to(type));
        }
        auto const input = x.clone().requires_grad_();
        trained = norm(input);
        trained.to(at::kFloat).pow(3).sum().backward();
        gradient = input.grad();
        norm->eval();
        evaluated = norm(x);
      });
      REQUIRE(messages_of(outcome) == "");
      nn::BatchNorm1d plain{options};
      auto const input = x.to(at::kFloat).clone().requires_grad_();
      auto const expected = plain(input);
      expected.pow(3).sum().backward();
      plain->eval();
      double const tolerance = type == at::kFloat ? 1e-5 : 2e-2;
      auto const is_close = [&](at::Tensor const& actual, at::Tensor const& wanted) {
        return actual.scalar_type() == type && at::allclose(actual.to(at::kFloat), wanted, tolerance, tolerance);
      };
      CHECK(is_close(trained, expected));
      CHECK(is_close(evaluated, plain(x.to(at::kFloat))));
      CHECK(
          at::allclose(gradient.to(at::kFloat), input.grad(), 0, tolerance * input.grad().abs().max().item<double>()));
    }
  }
}

TEST_CASE("SyncBatchNorm rejects batches without variance, and other shapes") {
  auto const of = [](at::Tensor const& input) {
    return messages_of(run_job(1, [&](Job& job) { SyncBatchNorm{job, 3}(input); }));
  };
  CHECK_THAT(of(at::zeros({1, 3})), Catch::Contains("fewer than two values per channel over all ranks"));
  CHECK_THAT(of(at::zeros({4, 2})), Catch::Contains("SyncBatchNorm of 3 channels got an input of shape [4, 2]"));
}

}  // namespace
}  // namespace zeroth::testing
