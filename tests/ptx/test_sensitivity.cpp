// SPDX-License-Identifier: Apache-2.0
/// Mistakes in the kernels' PTX are found: the cases are run on kernels with one line changed, and must fail.
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/children.hpp"

namespace zeroth::testing {
namespace {

struct Mistake {
  std::string what;
  std::string program, cases;  ///< The program and the cases that find it.
  std::string kernel;          ///< A part of its name.
  std::string pattern, replacement;
  int which;          ///< Index among the places that the pattern matches.
  std::string found;  ///< A word of the message.
};

std::string const adamw = "zeroth::cuda::Update<zeroth::optim::Adam, zeroth::bf16, zeroth::bf16, float, float>",
                  adamw_cases = "an update gives the CPU's bits for every dtype*";
std::string const ranks = "zeroth::cuda::FoldRanks<zeroth::bf16, (zeroth::Reduce)0>", rank_cases = "rank_fold gives*";
std::string const sums = "zeroth::cuda::MoveAndSum<zeroth::bf16, zeroth::bf16>",
                  sum_cases = "reduce_epilogue in place only reads*";
std::string const collect = "zeroth::cuda::Collect", collect_cases = "collect adds up*";
std::string const attention = "gpt::gpu::TensorAttentionForward<zeroth::bf16, 64, gpt::gpu::ReadsAll>",
                  attention_cases = "attention on tensor cores is the CPU's*";
std::string const listed = "gpt::gpu::TensorAttentionBackwardKeys<zeroth::bf16, 64, gpt::gpu::ReadsListed>",
                  listed_cases = "attention with layouts on tensor cores*";

std::string const barrier = R"(bar\.sync\s+0;)";

std::vector<Mistake> const mistakes{
    {"a product becomes a sum", LIBRARY_CASES, adamw_cases, adamw, R"(mul\.rn\.f32)", "add.rn.f32", 0,
     "first_difference"},
    {"operands are swapped", LIBRARY_CASES, adamw_cases, adamw, R"((sub\.rn\.f32\s+%[fr]\d+, )([^,]+), ([^;]+);)",
     "$1$3, $2;", 0, "first_difference"},
    {"a constant has another bit", LIBRARY_CASES, adamw_cases, adamw, "0d3FF0000000000000", "0d3FF0000010000000", 0,
     "first_difference"},
    {"an offset is half of what it was", LIBRARY_CASES, adamw_cases, adamw,
     R"((ld\.global\.v4\.[bfu]32[^\n]*\+-?)16\])", "$018]", 0, "multiple"},
    {"a sum becomes a difference", LIBRARY_CASES, rank_cases, ranks, R"(add\.rn\.f32)", "sub.rn.f32", 0, "equal("},
    {"a barrier is gone", LIBRARY_CASES, sum_cases, sums, barrier, "", 0, "race"},
    {"a barrier is gone", LIBRARY_CASES, collect_cases, collect, barrier, "", 1, "race"},
    {"a sum becomes a difference", LIBRARY_CASES, collect_cases, collect, R"(add\.rn\.f64)", "sub.rn.f64", 1, "memcmp"},
    {"a quotient becomes a product", LIBRARY_CASES, "matrices are divided by their norm*",
     "zeroth::cuda::NormaliseElements", R"(div\.rn\.f32)", "mul.rn.f32", 0, "first_difference"},
    {"a barrier is gone", TRAIN_GPT_CASES, attention_cases, attention, barrier, "", 0, "race"},
    {"a copy is not waited for", TRAIN_GPT_CASES, attention_cases, attention, R"(cp\.async\.wait_group 0)",
     "cp.async.wait_group 1", 0, "brought"},
    {"a matrix is not transposed", TRAIN_GPT_CASES, attention_cases, attention, R"(x4\.trans)", "x4", 0, "error_of"},
    {"registers of a matrix are swapped", TRAIN_GPT_CASES, attention_cases, attention,
     R"((mma\.sync[^;]*\}, \{%r\d+, )(%r\d+), (%r\d+))", "$1$3, $2", 0, "error_of"},
    {"an exponential is its argument", TRAIN_GPT_CASES, attention_cases, attention, R"(ex2\.approx\.ftz\.f32)",
     "neg.f32", 0, "error_of"},
    {"a barrier is gone", TRAIN_GPT_CASES, "cross-entropy and its gradient*",
     "gpt::gpu::CrossEntropyBackward<zeroth::bf16>", barrier, "", 0, "values_in_place"},
    {"a list's next tile is the current one", TRAIN_GPT_CASES, listed_cases, listed,
     R"((ld\.global\.u32\s+%r\d+, \[%rd\d+)\+8\])", "$1]", 0, "error_of"},
    {"a list's row and cells are swapped", TRAIN_GPT_CASES, listed_cases, listed,
     R"((ld\.global\.v2\.u32\s+\{)(%r\d+), (%r\d+)\})", "$1$3, $2}", 0, "error_of"},
};

}  // namespace

TEST_CASE("a mistake in the PTX makes a case fail") {
  for (auto const& mistake : mistakes) {
    INFO(mistake.what << " in " << mistake.kernel);
    Children children;
    auto const edit =
        mistake.kernel + "\n" + mistake.pattern + "\n" + mistake.replacement + "\n" + std::to_string(mistake.which);
    auto& child = children.start({mistake.program, mistake.cases, "--abort"}, {{"ZEROTH_PTX_EDIT", edit}});
    auto const ending = child.wait();
    CHECK(ending.status > 0);
    CHECK_THAT(child.output(), Catch::Contains("FAILED") && Catch::Contains(mistake.found));
    CHECK_THAT(child.output(), !Catch::Contains("ZEROTH_PTX_EDIT"));
  }
}

TEST_CASE("without a mistake the same cases pass") {
  for (auto const& mistake : {mistakes.front(), mistakes.back()}) {
    Children children;
    auto const edit = mistake.kernel + "\nret;\nret;\n0";
    auto& child = children.start({mistake.program, mistake.cases}, {{"ZEROTH_PTX_EDIT", edit}});
    CHECK(child.wait().status == 0);
    CHECK_THAT(child.output(), Catch::Contains("All tests passed"));
  }
}

}  // namespace zeroth::testing
