// SPDX-License-Identifier: Apache-2.0
/// Tensor ranks on GPUs train as those on CPUs do, bit for bit: verbs, sums of partial gradients, norms and checks.
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/cuda_access.hpp"
#include "cuda/gpus.hpp"
#include "cuda/trained.hpp"
#include "parity/tensor.hpp"
#include "support/sanitized.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::testing {
namespace {

using Catch::Matchers::Contains;

Types const types_of_parts[] = {fp32_types, bf16_types, fp16_types, bf16_masters};

std::string file_of(Types const& types, int stage, int tensor, bool overlap, std::string const& more = "") {
  return fmt::format(R"({{
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, {} "gradient_clipping": 0.5,
    "zero_optimization": {{"stage": {}, "reduce_bucket_size": 150, "overlap_comm": {}}},
    "optimizer": {{"type": "AdamW", "params": {{"lr": 0.01, "weight_decay": 0.1}}}},
    "zeroth": {{"timeout_ms": 120000, "check": true, "reduce_gradients": "every_micro_step",
                "mesh": {{"tensor": {}}} {}}} }})",
                     types.keys, stage, overlap, tensor, more);
}

/// Requires the same results on all ranks, each of which must have used the planned memory.
Trained train(RunJob const& run, int world, std::string const& text, DividedOptions const& options) {
  auto const config = Config::from_json(text);
  std::vector<Trained> all(static_cast<std::size_t>(world));
  auto const outcome =
      run(world, [&](Job& job) { all[static_cast<std::size_t>(job.rank())] = train_divided(job, config, options); });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& each : all) {
    REQUIRE(bits_of(each) == bits_of(all.front()));
    REQUIRE(each.planned == each.peak);
  }
  return all.front();
}

/// All ranks on one GPU, or one on each of two.
RunJob on_gpus(Gpus const& gpus) {
  return threads_on([gpus](int rank) { return device::make_cuda_device(rank % gpus.count); });
}

}  // namespace

TEST_CASE("tensor ranks on GPUs give the CPU's bits") {
  auto const types = GENERATE(from_range(std::begin(types_of_parts), std::end(types_of_parts)));
  bool const sequence = GENERATE(false, true);
  for (int stage = 0; stage <= 3; ++stage) {
    for (int const tensor : {2, 4}) {
      static Sample sample{23, 3};
      if (sample.leaves_out()) {
        continue;
      }
      int const world = 4;
      INFO(fmt::format("{}, stage {}, {} tensor ranks, sequence {}", types.name, stage, tensor, sequence));
      DividedOptions options{.sequence = sequence, .overflow_at_step = types.keys == fp16_types.keys ? 2 : 0};
      auto const text = file_of(types, stage, tensor, stage % 2 == 0);
      auto const cpu = train(threads_on({}), world, text, options);
      REQUIRE(cpu.reports.size() == 4);
      Gpus const gpus{.count = stage % 2 + 1, .delays = 5};
      if (!are_there(gpus.count)) {
        continue;
      }
      begin_on(gpus);
      options.access = CudaAccess::make;
      auto const gpu = train(on_gpus(gpus), world, text, options);
      REQUIRE(left_on_gpus() == "");
      REQUIRE(bits_of(gpu) == bits_of(cpu));
    }
  }
}

TEST_CASE("a mesh on GPUs computes on the stream that the job was given, and otherwise on one of its own", "[host]") {
  begin_on({});
  auto const config = Config::from_json(file_of(fp32_types, 3, 2, true));
  auto const outcome = on_gpus({})(2, [&](Job& job) {
    auto const given = job.make_device();
    bool const gives = job.world() == 2;
    for (bool const own : {true, false}) {
      if (!own && gives) {
        job.compute_on(given->compute().native());
      }
      Mesh mesh{job, config};
      Divided const divided{mesh.tensor_part(), false};
      Engine<float> const engine{mesh, divided.model, config};
      Engine<float> const other{mesh, divided.model, config};
      Collectives beside{mesh.tensor(), "beside"};
      if (engine.compute_stream().native != beside.compute_stream().native ||
          engine.compute_stream().native != other.compute_stream().native ||
          (engine.compute_stream().native == given->compute().native().native) == own) {
        throw std::runtime_error{"another compute stream"};
      }
    }
  });
  CHECK(messages_of(outcome) == "");
  CHECK(left_on_gpus() == "");
}

TEST_CASE("if a tensor rank on a GPU throws before a verb, the others end, and report the verb", "[host]") {
  begin_on({});
  auto const config = Config::from_json(file_of(fp32_types, 1, 2, true));
  auto const outcome = on_gpus({})(2, [&](Job& job) {
    Mesh mesh{job, config};
    auto const device = mesh.tensor().make_device();
    auto const memory = device->allocate_host(64);
    TensorParallel tp{mesh.tensor()};
    View<float, 2> const matrix{reinterpret_cast<float*>(memory->data()), {4, 4}};
    static_cast<void>(tp.leave(matrix).wait());
    if (tp.index() == 1) {
      throw std::runtime_error{"no more verbs"};
    }
    static_cast<void>(tp.enter_backward(matrix).wait());
    static_cast<void>(tp.leave(matrix).wait());
  });
  CHECK_THAT(messages_of(outcome), Contains("no more verbs") && Contains("all_reduce (enter_backward()"));
  CHECK(left_on_gpus() == "");
}

TEST_CASE("zeroth plan accepts tensor ranks on GPUs", "[host]") {
  auto const config = Config::from_json(file_of(bf16_types, 3, 2, true));
  Divided const divided{{0, 2}, true};
  auto const planned = plan(divided.model, config, 4, {.transport = comm::Transport::nccl, .device = DeviceKind::cuda});
  CHECK(planned.tensor_ranks == 2);
  CHECK(planned.bytes.total() > 0);
  for (auto const& note : planned.notes) {
    CHECK_THAT(note, !Contains("zeroth.mesh"));
  }
}

TEST_CASE("a pipeline on GPUs, and a cross-entropy of host memory there, are refused by name", "[host]") {
  begin_on({});
  auto text = file_of(fp32_types, 1, 1, true);
  text.replace(text.find(R"("tensor": 1)"), 11, R"("pipeline": 2)");
  auto const outcome = on_gpus({})(2, [&](Job& job) {
    auto const config = Config::from_json(text);
    Mesh mesh{job, config};
    Divided const divided{mesh.tensor_part(), false};
    Engine<float> const engine{mesh, divided.model, config};
  });
  CHECK_THAT(messages_of(outcome),
             Contains("zeroth.mesh.pipeline is 2 on transport local of device cuda: pipelines are "
                      "for CPUs; allowed here is 1"));
  auto const of_loss = on_gpus({})(2, [&](Job& job) {
    Mesh mesh{job, Config::from_json(file_of(fp32_types, 1, 2, true))};
    TensorParallel tp{mesh.tensor()};
    float const logits[4] = {};
    std::int64_t const targets[1] = {1};
    CrossEntropyTape tape;
    static_cast<void>(tp.cross_entropy<float>({logits, {1, 4}}, targets, {4 * tp.index(), 4, 4, 8}, tape));
  });
  CHECK_THAT(messages_of(of_loss), Contains("cross_entropy() on a GPU: it reads logits in host memory"));
  CHECK(left_on_gpus() == "");
}

}  // namespace zeroth::testing
