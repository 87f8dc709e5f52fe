// SPDX-License-Identifier: Apache-2.0
/// cuBLASLt's algorithms from a file: measured, written, and used by train_gpt on the tests' own cuBLASLt.
#include <algorithm>
#include <functional>
#include <string>

#include "cuda/gpus.hpp"
#include "examples/gpu/device_pass.hpp"
#include "examples/gpu/training.hpp"
#include "examples/random_batch.hpp"
#include "gpu/measure.hpp"
#include "support/fake_cuda/cublas_lt.hpp"
#include "support/thrown.hpp"
#include "zeroth/device/cuda.hpp"

namespace gpt {
namespace {

using namespace testing;
namespace fake = zeroth::testing::fake_cuda;
using Catch::Contains;
using zeroth::bf16;
using zeroth::testing::thrown;

/// The model and the micro-batch are those of train_in().
constexpr std::int64_t sequences = 2;

/// The algorithms of the model's products, with bf16 gradients or with others.
template <class T = bf16, class G = T>
gpu::Algorithms measured(Shape const& of = shape) {
  fake::reset({.timed_event_us = 1});
  gpu::Algorithms algorithms{"measured", gpu::origin_here(false)};
  {
    Stream const stream;
    auto const largest = std::max(of.vocabulary, of.context) * of.channels * 4;
    auto const values = on_device(stream, random_values<T>(largest, 1), of.channels);
    auto gradients = on_device(stream, random_values<G>(largest, 2), of.channels);
    gpu::measure_products<T, G>(of, random_batch(sequences * of.context, 256, 3), values.data(), gradients.data(),
                                stream.raw(), false, algorithms);
    stream.wait();
  }
  CHECK(fake::leftovers() == "");
  return algorithms;
}

std::string replaced(std::string text, std::string const& from, std::string const& to) {
  auto const at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// The result of train_in() with algorithms from `text`, or with cuBLASLt's choice if that is empty.
Left trained(std::string const& text, Run run) {
  fake::reset();
  Folder const folder;
  run.algorithms = text.empty() ? std::filesystem::path{} : folder.write("algorithms.json", text);
  auto left = train_in(folder, run, as_threads([](int) { return zeroth::device::make_cuda_device(0); }), train_on_gpu);
  CHECK(fake::leftovers() == "");
  return left;
}

/// The error of a run whose ranks have the algorithms in these files; an empty path leaves the choice to cuBLASLt.
std::string error_of(Folder const& folder, std::vector<std::filesystem::path> const& files, bool tf32 = false) {
  Run const run{.precision = bf16_keys};
  Corpus const corpus{folder.write("text", squares())};
  auto const config = config_of(run);
  Batches const batches{corpus, shape.context, Order::sequential, 0};
  auto const outcome = zeroth::testing::run_job(
      static_cast<int>(files.size()),
      [&](zeroth::Job& job) {
        Options options;
        options.steps = 1;
        options.tf32 = tf32;
        options.algorithms = files[static_cast<std::size_t>(job.rank())];
        Task const task{options, config, shape, batches};
        train_on_gpu(job, task);
      },
      {}, [](int) { return zeroth::device::make_cuda_device(0); });
  return zeroth::testing::messages_of(outcome);
}
std::string error_of(std::string const& text) {
  fake::reset();
  Folder const folder;
  return error_of(folder, {folder.write("algorithms.json", text)});
}

}  // namespace

TEST_CASE("each product of a model gets the fastest of eight algorithms, which the file keeps") {
  auto const fastest = GENERATE(0, 3, 7);
  fake::make_fastest(fastest);
  auto const algorithms = measured();
  fake::make_fastest(0);
  // Products of forward, inputs' gradients and weights' gradients: for four layers of a block, without those of equal
  // shape, and for the head.
  CHECK(algorithms.all().size() == 15);
  for (auto const& [kind, algorithm] : algorithms.all()) {
    INFO(describe(kind));
    CHECK(algorithm.result == fastest);
    REQUIRE(algorithm.us.size() == 8);
    CHECK(std::ranges::min_element(algorithm.us) - algorithm.us.begin() == fastest);
    CHECK(algorithm.workspace_bytes == gpu::workspace_bytes >> fastest);
    CHECK_FALSE(algorithm.separate_gelu);
    CHECK_FALSE((kind.adds || kind.adds_other));
  }
  auto const text = algorithms.to_json();
  CHECK_THAT(text, Contains(R"("gpu": "Made-up GPU")") && Contains(R"("cublaslt": 130100)"));
  CHECK(gpu::Algorithms::parse(text, "file").to_json() == text);
}

TEST_CASE("in fp32, GELU of a measured product stays a kernel of its own") {
  auto const algorithms = measured<float>();
  int with_gelu = 0;
  for (auto const& [kind, algorithm] : algorithms.all()) {
    CHECK(algorithm.separate_gelu == has_gelu(kind.epilogue));
    with_gelu += has_gelu(kind.epilogue) ? 1 : 0;
  }
  CHECK(with_gelu == 2);
  CHECK(gpu::Algorithms::parse(algorithms.to_json(), "file").to_json() == algorithms.to_json());
}

TEST_CASE("train_gpt uses the algorithms of the file, and by default cuBLASLt's first", "[host]") {
  fake::make_fastest(5);
  auto const text = measured().to_json();
  fake::make_fastest(0);
  Run const run{.ranks = 2, .steps = 3, .precision = bf16_keys};
  auto const counts = [](Run const& of, std::string const& file) {
    auto const first = fake::products_by_result(0);
    auto const sixth = fake::products_by_result(5);
    auto const asked = fake::heuristics_asked();
    auto left = trained(file, of);
    return std::tuple{fake::products_by_result(0) - first, fake::products_by_result(5) - sixth,
                      fake::heuristics_asked() - asked, std::move(left)};
  };
  auto const [first, none, asked, base] = counts(run, "");
  CHECK(first > 0);
  CHECK(none == 0);
  CHECK(asked > 0);
  auto const [never, all, not_asked, chosen] = counts(run, text);
  CHECK(never == 0);
  CHECK(all == first);
  CHECK(not_asked == 0);
  CHECK(chosen.weights == base.weights);  // the tests' algorithms round alike
  CHECK(base.run["math"] == "cuBLASLt");
  CHECK_THAT(chosen.run["math"].get<std::string>(), Catch::Matches("cuBLASLt, algorithms [0-9a-f]{16}"));
}

TEST_CASE("a file for another GPU, cuBLASLt or precision is refused") {
  auto const text = measured().to_json();
  fake::reset({.name = "Another GPU"});
  Folder const folder;
  auto const file = folder.write("algorithms.json", text);
  CHECK_THAT(error_of(folder, {file}),
             Contains(R"(algorithms.json: gpu is "Made-up GPU", but this rank has "Another GPU": measure again with)"));
  fake::reset();
  fake::set_cublas_lt_version(130200);
  CHECK_THAT(error_of(folder, {file}), Contains("algorithms.json: cublaslt is 130100, but this rank has 130200"));
  fake::set_cublas_lt_version(130100);
  CHECK_THAT(error_of(folder, {file}, true), Contains("algorithms.json: tf32 is false, but this rank has true"));
  CHECK(error_of(folder, {file}).empty());
}

TEST_CASE("a product that the file lacks is refused by name") {
  auto other = shape;
  other.context = 24;
  CHECK_THAT(
      error_of(measured(other).to_json()),
      Contains("algorithms.json: products has no choice for a product 24 x 48 x 16, bf16 to bf16, strides 16, 48 "
               "and 48, adding nothing, bias; allowed are the shapes"));
  // The file's gradients are in fp32, those of the run in bf16.
  CHECK_THAT((error_of(measured<bf16, float>().to_json())),
             Contains("products has no choice for a product ") && Contains("(transposed)") && Contains("bf16 to bf16"));
}

TEST_CASE("an algorithm that cuBLASLt rejects, or that needs too much memory, is refused") {
  auto const text = measured().to_json();
  auto const at = text.find(R"("algorithm": ")") + 14;
  auto const broken = text.substr(0, at) + "00" + text.substr(at + 2);
  auto whole = text;
  // Changes every product's algorithm, because the first one that is used differs from the file's first.
  for (auto each = whole.find(R"("algorithm": ")"); each != std::string::npos;
       each = whole.find(R"("algorithm": ")", each + 1)) {
    whole.replace(each + 14, 16, "0000000000000000");
  }
  CHECK(broken != text);
  CHECK_THAT(error_of(broken), Contains("cuBLASLt rejects it (CUBLAS_STATUS_INVALID_VALUE)"));
  CHECK_THAT(error_of(whole), Contains("algorithms.json: algorithm for a product 24 x 48 x 16") &&
                                  Contains("cuBLASLt rejects it (CUBLAS_STATUS_INVALID_VALUE); allowed are"));
  fake::grow_workspaces(1);
  CHECK_THAT(error_of(text), Contains("algorithms.json: algorithm for a product 24 x 48 x 16") &&
                                 Contains("it needs 33554433 bytes of workspace; allowed: up to 33554432"));
  fake::grow_workspaces(0);
}

TEST_CASE("ranks with different files are refused, and so is a file that cannot be read") {
  auto const text = measured().to_json();
  fake::reset();
  Folder const folder;
  auto const file = folder.write("algorithms.json", text);
  auto const same = folder.write("same.json", text);
  auto const other = folder.write("other.json", replaced(text, R"("tf32": false)", R"("tf32":  false)"));
  auto const differ = Catch::Matches(
      "(.|\n)*--algorithms: the file of rank 0 has the hash [0-9a-f]{16}, that of rank 1 ([0-9a-f]{16}|none), but all "
      "ranks must round alike: give all ranks the same file(.|\n)*");
  CHECK(error_of(folder, {file, same}).empty());
  CHECK_THAT(error_of(folder, {file, other}), differ);
  CHECK_THAT(error_of(folder, {file, {}}), differ);
  CHECK_THAT(error_of(folder, {folder.path() / "missing.json"}),
             Contains("--algorithms") && Contains("missing.json: cannot be opened: No such file or directory"));
}

TEST_CASE("a file's mistakes are named with key, value and what is allowed") {
  auto const text = measured().to_json();
  auto const error = [&](std::string const& from, std::string const& to) {
    return thrown<zeroth::ConfigError>(
        [&] { static_cast<void>(gpu::Algorithms::parse(replaced(text, from, to), "chosen.json")); });
  };
  CHECK(error("Made-up", "Other").empty());
  CHECK_THAT(thrown<zeroth::ConfigError>([] { static_cast<void>(gpu::Algorithms::parse("{", "chosen.json")); }),
             Contains("chosen.json"));
  CHECK_THAT(thrown<zeroth::ConfigError>([] { static_cast<void>(gpu::Algorithms::parse("{}", "chosen.json")); }),
             Contains("gpu: is missing, must be a string") && Contains("cublaslt: is missing") &&
                 Contains("products: is missing, must be an array of objects"));
  CHECK_THAT(error(R"("gpu": "Made-up GPU")", R"("gpu": 3)"), Contains("gpu") && Contains("is 3, must be a string"));
  CHECK_THAT(error(R"("tf32": false)", R"("tf32": 0)"), Contains("is 0, must be true or false"));
  CHECK_THAT(error(R"("tf32": false)", R"("tf32": false, "more": 1)"),
             Contains("more") && Contains("unknown; allowed: gpu,cublaslt,tf32,products"));
  CHECK_THAT(error(R"("m": )", R"("m": -)"),
             Contains("products[0].m") && Contains("whole number from 1 to 2147483647"));
  CHECK_THAT(error(R"("factors": "bf16")", R"("factors": "fp8")"),
             Contains("products[0].factors") && Contains(R"(is "fp8", must be "fp32" or "bf16" or "fp16")"));
  CHECK_THAT(error(R"("algorithm": ")", R"("algorithm": "0)"),
             Contains("products[0].algorithm") && Contains("must be a string of 128 hexadecimal digits in lower case"));
  CHECK_THAT(
      error(R"("workspace_bytes": 33554432)", R"("workspace_bytes": 33554433)"),
      Contains("products[0].workspace_bytes") && Contains("is 33554433, must be a whole number from 0 to 33554432"));
  CHECK_THAT(error(R"("result": 0)", R"("result": 8)"), Contains("is 8, must be a whole number from 0 to 7"));
  CHECK_THAT(error(R"("epilogue": "none")", R"("epilogue": "relu")"), Contains(R"("none" or "bias" or "bias_gelu")"));
  CHECK_THAT(error(R"("us": [)", R"("us": [-1,)"), Contains("must be an array of 1 to 8 numbers of at least 0"));
  CHECK_THAT(error(R"("separate_gelu": false)", R"("separate_gelu": true)"),
             Contains("products[0].separate_gelu") && Contains("is true, must be false without GELU"));
  auto const first = text.substr(text.find("    {"), text.find("    },") + 7 - text.find("    {"));
  CHECK_THAT(error(first, first + first), Contains("products[1]") && Contains("occurs twice; allowed: once"));
}

}  // namespace gpt
