// SPDX-License-Identifier: Apache-2.0
/// DeepSpeed's batch sizes: train = micro x accumulation x world, whichever of them the file leaves out.
#include "config/config_support.hpp"
#include "support/catch.hpp"

namespace zeroth {
namespace {

using testing::problems_of;

std::string member(char const* key, std::optional<std::int64_t> value) {
  return value ? fmt::format(R"("{}": {}, )", key, *value) : std::string{};
}

std::string batch_file(std::optional<std::int64_t> train, std::optional<std::int64_t> micro,
                       std::optional<std::int64_t> steps) {
  return fmt::format("{{{}{}{}\"bf16\": {{}}}}", member("train_batch_size", train),
                     member("train_micro_batch_size_per_gpu", micro), member("gradient_accumulation_steps", steps));
}

TEST_CASE("Any two batch sizes, or one of the first two, determine the others") {
  bool const with_train = GENERATE(true, false);
  bool const with_micro = GENERATE(true, false);
  bool const with_steps = GENERATE(true, false);
  int const world = GENERATE(1, 2, 3, 5, 64, 1024);
  // Accumulation is 1 if it cannot be inferred; otherwise any number.
  bool const steps_known = with_steps || (with_train && with_micro);
  std::int64_t const micro = 6;
  std::int64_t const steps = steps_known ? 7 : 1;
  std::int64_t const train = micro * steps * world;
  auto const text =
      batch_file(with_train ? std::optional{train} : std::nullopt, with_micro ? std::optional{micro} : std::nullopt,
                 with_steps ? std::optional{steps} : std::nullopt);
  INFO(text << " for " << world);
  if (!with_train && !with_micro) {
    CHECK(Config::from_json(text).open().size() == 1);  // one of the two is open
    return;
  }
  auto const batch = Config::from_json(text).settings(world, 1).batch;
  CHECK(batch.train == train);
  CHECK(batch.micro == micro);
  CHECK(batch.accumulation == steps);
}

TEST_CASE("Batch sizes are inferred as in DeepSpeed, and rejected if its assertion fails") {
  // DeepSpeed divides with truncation, then asserts the product. It accepts the same files, with the same values.
  auto const deepspeed = [](std::int64_t train, std::int64_t micro, std::int64_t steps,
                            std::int64_t world) -> std::optional<BatchSettings> {
    if (train != 0 && micro != 0 && steps == 0) {
      steps = train / micro / world;
    } else if (train != 0 && micro == 0) {
      steps = steps == 0 ? 1 : steps;
      micro = train / world / steps;
    } else if (train == 0 && micro != 0) {
      steps = steps == 0 ? 1 : steps;
      train = micro * steps * world;
    }
    bool const holds = train > 0 && micro > 0 && steps > 0 && train == micro * steps * world;
    return holds ? std::optional{BatchSettings{train, micro, steps}} : std::nullopt;
  };
  auto const given = [](std::int64_t value) { return value == 0 ? std::nullopt : std::optional{value}; };
  int passed = 0;
  for (std::int64_t const train : {0, 1, 4, 6, 12, 24, 30}) {
    for (std::int64_t const micro : {0, 1, 2, 3, 4, 12}) {
      for (std::int64_t const steps : {0, 1, 2, 3}) {
        for (int const world : {1, 2, 3, 4}) {
          auto const text = batch_file(given(train), given(micro), given(steps));
          auto const expected = deepspeed(train, micro, steps, world);
          INFO(text << " for " << world);
          CHECK(problems_of(text, world).empty() == expected.has_value());
          if (expected) {
            ++passed;
            auto const batch = Config::from_json(text).settings(world, 1).batch;
            CHECK(batch.train == expected->train);
            CHECK(batch.micro == expected->micro);
            CHECK(batch.accumulation == expected->accumulation);
          }
        }
      }
    }
  }
  CHECK(passed > 100);
}

TEST_CASE("\"auto\" and null mean the same as an absent key") {
  auto const batch = Config::from_json(R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 3,
                                           "gradient_accumulation_steps": null})")
                         .settings(4, 1)
                         .batch;
  CHECK(batch.train == 12);
  CHECK(batch.accumulation == 1);
}

TEST_CASE("The largest batch is accepted, and one more is rejected") {
  CHECK(Config::from_json(R"({"train_micro_batch_size_per_gpu": 2147483647})").settings(1, 1).batch.train ==
        2147483647);
  CHECK(problems_of(R"({"train_micro_batch_size_per_gpu": 2147483648})") ==
        "  train_micro_batch_size_per_gpu (line 1): 2147483648 is out of range; allowed: an integer from 1 to "
        "2147483647");
  CHECK(problems_of(R"({"train_micro_batch_size_per_gpu": 2147483647, "gradient_accumulation_steps": 2147483647})",
                    2147483647)
            .find("is out of range; allowed: a train_batch_size up to 2147483647") != std::string::npos);
  CHECK(problems_of(R"({"train_batch_size": 2147483647, "train_micro_batch_size_per_gpu": 2147483647,
                        "gradient_accumulation_steps": 2147483647})",
                    2147483647)
            .find("is less than") != std::string::npos);
}

}  // namespace
}  // namespace zeroth
