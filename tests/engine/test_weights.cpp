// SPDX-License-Identifier: Apache-2.0
/// Weights saved at one stage and world size have the same bits at every other, in a file that other programs can read.
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <vector>

#include "engine/safetensors_file.hpp"
#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/sanitized.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

constexpr int numbers_of_ranks[] = {1, 2, 3, 4};

Config config_of(int stage, std::string const& more = "") {
  return small_config(stage, {.accumulation = 1, .more = more});
}

/// Trains the synthetic model for `steps` steps, then saves.
template <Element T>
Outcome save(int stage, int world, int steps, std::filesystem::path const& file, std::string const& more = "") {
  return run_job(world, [&](Job& job) {
    SyntheticModel const synthetic;
    Trainer<T, T> trainer{job, synthetic, config_of(stage, more), {.steps = steps}};
    trainer.run();
    trainer.engine().save_weights(file);
  });
}

/// Loads and saves without training.
template <Element T>
Outcome load_and_save(int stage, int world, std::filesystem::path const& from, std::filesystem::path const& to,
                      std::string const& more = "") {
  return run_job(world, [&](Job& job) {
    SyntheticModel const synthetic;
    Engine<T> engine{job, synthetic.model, config_of(stage, more)};
    engine.load_weights(from);
    engine.save_weights(to);
  });
}

Outcome load_small(int stage, int world, std::filesystem::path const& file) {
  return run_job(world, [&](Job& job) {
    SmallModel const small;
    Engine<float> engine{job, small.model, config_of(stage)};
    engine.load_weights(file);
  });
}

/// A file that fits the small model: element i of parameter p is 4 p + (i % 16) / 4, exact in bf16 and fp16.
SafetensorsFile fitting(std::string const& dtype = "F32") {
  SafetensorsFile file;
  SmallModel const small;
  int p = 0;
  for (auto const& param : small.model.description().params) {
    auto const value_at = [&](std::int64_t i) { return static_cast<float>(p) * 4 + static_cast<float>(i % 16) / 4; };
    auto const fill = [&]<class T>(T) {
      std::vector<T> values;
      for (std::int64_t i = 0; i < param.count; ++i) {
        values.push_back(from_float<T>(value_at(i)));
      }
      file.add(param.name, dtype, param.shape, values);
    };
    dtype == "F32" ? fill(float{}) : dtype == "BF16" ? fill(bf16{}) : fill(fp16{});
    ++p;
  }
  return file;
}

}  // namespace

TEST_CASE("a file saved at any stage and world loads at any other, bit for bit") {
  Folder const folder;
  for (auto const world : numbers_of_ranks) {
    std::string first;
    for (int stage = 0; stage <= 3; ++stage) {
      auto const file = folder / "saved";
      INFO(fmt::format("saved at stage {}, {} ranks", stage, world));
      REQUIRE(messages_of(save<float>(stage, world, 2, file)).empty());
      auto const bytes = read_file(file);
      first = stage == 0 ? bytes : first;
      CHECK((bytes == first));
      for (int other_stage = 0; other_stage <= 3; ++other_stage) {
        for (auto const other_world : numbers_of_ranks) {
          static Sample sample{11, 5};
          if (sample.leaves_out()) {
            continue;
          }
          INFO(fmt::format("loaded at stage {}, {} ranks", other_stage, other_world));
          REQUIRE(messages_of(load_and_save<float>(other_stage, other_world, file, folder / "again")).empty());
          CHECK((read_file(folder / "again") == bytes));
        }
      }
    }
  }
}

TEST_CASE("a parameter larger than one read of a file is loaded whole") {
  Folder const folder;
  for (int const stage : {0, 3}) {
    auto const saved = folder / "saved", again = folder / "again";
    auto const outcome = run_job(2, [&](Job& job) {
      auto const engine_of = [&](Init const& initial) {
        Model model{5};
        static_cast<void>(model.param(model.unit("u"), "w", {200'000}, initial));
        return Engine<float>{job, model, config_of(stage)};
      };
      engine_of(Normal{1}).save_weights(saved);
      auto zeros = engine_of(Constant{0});
      zeros.load_weights(saved);
      zeros.save_weights(again);
    });
    CHECK(messages_of(outcome) == "");
    CHECK((read_file(again) == read_file(saved)));
  }
}

TEST_CASE("the file holds the masters in fp32, exactly, and loads at any stage and world") {
  bool const narrow = GENERATE(false, true);  // masters in bf16
  Folder const folder;
  auto const more = fmt::format(R"(, "bf16": {{"enabled": true, "bf16_master_weights_and_grads": {}}})", narrow);
  std::string first;
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage << more);
    REQUIRE(messages_of(save<bf16>(stage, 3, 2, folder / "saved", more)).empty());
    auto const bytes = read_file(folder / "saved");
    first = stage == 0 ? bytes : first;
    CHECK((bytes == first));
    auto const w = SafetensorsFile::parse(bytes).floats("first.w");
    CHECK(narrow ==
          std::ranges::all_of(w, [](float value) { return (std::bit_cast<std::uint32_t>(value) & 0xffffU) == 0; }));
    for (int other = 0; other <= 3; ++other) {
      REQUIRE(messages_of(load_and_save<bf16>(other, 2, folder / "saved", folder / "again", more)).empty());
      CHECK((read_file(folder / "again") == bytes));
    }
  }
}

TEST_CASE("the file is in the compute dtype if the stage file says so, at every stage and world, and loads") {
  struct Row {
    char const* keys;
    char const* dtype;  // the format's name
  };
  auto const& [keys, dtype] =
      GENERATE(Row{"", "F32"}, Row{R"(, "bf16": {"enabled": true})", "BF16"},
               Row{R"(, "fp16": {"enabled": true, "initial_scale_power": 4})", "F16"},
               Row{R"(, "bf16": {"enabled": true, "bf16_master_weights_and_grads": true})", "BF16"});
  auto const config = [keys = keys](int stage, char const* zero) {
    return small_config(stage, {.accumulation = 1, .zero = zero, .more = keys});
  };
  Folder const folder;
  auto const run = [&](int stage, int world, char const* zero, auto const& each) {
    std::int64_t planned = 0;
    REQUIRE(messages_of(run_job(world, [&](Job& job) {
              SmallModel const small;
              with_precision(config(stage, zero), [&]<Element T, GradientOf<T> G>(Precision<T, G>) {
                Engine<T, G> engine{job, small.model, config(stage, zero)};
                each(engine, small);
                if (job.rank() == 0) {
                  planned = engine.planned().total();
                }
              });
            })).empty());
    return planned;
  };
  auto const train_and_save = [&](int stage, int world, char const* zero, char const* name) {
    return run(stage, world, zero, [&](auto& engine, auto const& small) {
      train(engine, small, 2);
      engine.save_weights(folder / name);
    });
  };
  std::string first;
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage << keys);
    auto const planned = train_and_save(stage, 2, "", "wide");
    auto const wide = SafetensorsFile::parse(read_file(folder / "wide"));
    for (auto const* const key : {"stage3_gather_16bit_weights_on_model_save", "gather_16bit_weights_on_model_save",
                                  "stage3_gather_fp16_weights_on_model_save"}) {
      auto const zero = fmt::format(R"(, "{}": true)", key);
      CHECK(train_and_save(stage, 2, zero.c_str(), "saved") == planned);
      auto const bytes = read_file(folder / "saved");
      first = first.empty() ? bytes : first;
      CHECK((bytes == first));
      run(3 - stage, 3, zero.c_str(), [&](auto& engine, auto const&) {
        engine.load_weights(folder / "saved");
        engine.save_weights(folder / "again");
      });
      CHECK((read_file(folder / "again") == bytes));
    }
    auto const saved = SafetensorsFile::parse(first);
    SafetensorsFile expected;
    SmallModel const small;
    for (auto const& param : small.model.description().params) {
      auto const floats = wide.floats(param.name);
      auto const add = [&, dtype = dtype]<class T>(T) {
        std::vector<T> values;
        std::ranges::transform(floats, std::back_inserter(values), from_float<T>);
        expected.add(param.name, dtype, param.shape, values);
      };
      std::string_view{dtype} == "F32" ? add(float{}) : std::string_view{dtype} == "BF16" ? add(bf16{}) : add(fp16{});
      CHECK(saved.header.at(param.name) == expected.header.at(param.name));
    }
    CHECK((saved.data == expected.data));
  }
}

TEST_CASE("the file is a safetensors file like those of Hugging Face") {
  Folder const folder;
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    REQUIRE(messages_of(run_job(3, [&](Job& job) {
              SyntheticModel const synthetic;
              Engine<float> engine{job, synthetic.model, config_of(stage)};
              engine.save_weights(folder / "model.safetensors");
            })).empty());
    CHECK(folder.contents() == "model.safetensors ");
    auto const bytes = read_file(folder / "model.safetensors");
    auto const file = SafetensorsFile::parse(bytes);
    CHECK((bytes.size() - file.data.size()) % 8 == 0);
    CHECK(file.header.at("__metadata__").at("format") == "pt");
    SyntheticModel const synthetic;
    auto const& d = synthetic.model.description();
    REQUIRE(file.header.size() == d.params.size() + 1);
    std::size_t end = 0;
    for (auto const& param : d.params) {
      auto const& entry = file.header.at(param.name);
      CHECK(entry.at("dtype") == "F32");
      CHECK(entry.at("shape").get<std::vector<std::int64_t>>() == param.shape);
      CHECK(entry.at("data_offsets").at(0) == end);
      end += 4 * static_cast<std::size_t>(param.count);
      CHECK(entry.at("data_offsets").at(1) == end);
      std::vector<float> initial(static_cast<std::size_t>(param.count));
      model::initialise(d.seed, param, 0, initial);
      CHECK((file.floats(param.name) == initial));
    }
    CHECK(file.data.size() == end);
  }
}

TEST_CASE("forward reads the loaded values, from fp32, bf16 and fp16 files with any order of tensors") {
  Folder const folder;
  for (std::string const dtype : {"F32", "BF16", "F16"}) {
    auto file = fitting(dtype);
    file.header["__metadata__"] = {{"format", "pt"}, {"more", "of it"}};
    write_file(folder / "weights", file.bytes());
    for (int stage = 0; stage <= 3; ++stage) {
      std::vector<float> read;
      auto const outcome = run_job(2, [&](Job& job) {
        SmallModel const small;
        Engine<float> engine{job, small.model, config_of(stage)};
        auto const before = read_weights(engine, small);  // gathers at stage 3, so that the load must invalidate it
        engine.load_weights(folder / "weights");
        auto const after = read_weights(engine, small);
        if (job.rank() == 0) {
          read = after;
        }
      });
      REQUIRE(messages_of(outcome).empty());
      std::vector<float> expected;
      for (std::size_t u = 0; u < 3; ++u) {
        for (std::size_t i = 0; i < 300; ++i) {
          expected.push_back(static_cast<float>(u * 4) + static_cast<float>(i % 16) / 4);
        }
      }
      INFO(fmt::format("{}, stage {}", dtype, stage));
      CHECK((read == expected));  // the extra brackets keep Catch from printing the values
    }
  }
}

TEST_CASE("training continues from loaded weights like from the same weights in memory") {
  Folder const folder;
  for (int stage = 0; stage <= 3; ++stage) {
    std::string saved[2];
    for (int const twice : {0, 1}) {
      REQUIRE(messages_of(run_job(2, [&](Job& job) {
                SmallModel const small;
                Engine<float> engine{job, small.model, config_of(stage)};
                engine.save_weights(folder / "start");
                if (twice == 1) {
                  engine.load_weights(folder / "start");
                }
                train(engine, small, 3);
                engine.save_weights(folder / "end");
              })).empty());
      saved[twice] = read_file(folder / "end");
    }
    INFO("stage " << stage);
    CHECK((saved[0] == saved[1]));
  }
}

TEST_CASE("all mismatches are listed at once") {
  Folder const folder;
  auto file = fitting();
  file.header["block0.weight"] = file.header["block0.w"];
  file.header.erase("block0.w");
  file.header["block1.w"]["shape"] = {150, 2};
  file.add("stranger", "F32", {2}, std::vector<float>{1, 2});
  write_file(folder / "weights", file.bytes());
  for (int stage = 0; stage <= 3; ++stage) {
    auto const outcome = load_small(stage, 2, folder / "weights");
    for (auto const& error : outcome) {
      CHECK(holds<ContractError>(error));
    }
    CHECK_THAT(messages_of(outcome), Contains("weights does not fit the model:") &&
                                         Contains("\"block0.w\" is missing") &&
                                         Contains("\"block1.w\" has shape [150, 2], the model's is [300]") &&
                                         Contains("\"block0.weight\" is not a parameter of the model") &&
                                         Contains("\"stranger\" is not a parameter of the model"));
  }
}

TEST_CASE("a file that is damaged is refused, with the reason") {
  Folder const folder;
  auto const good = fitting().bytes();
  auto const with_header = [&](auto const& change) {
    auto file = fitting();
    change(file);
    return file.bytes();
  };
  std::map<std::string, std::pair<std::string, std::string>> const cases = {
      {"empty", {"", "does not begin with the length of a header, of at most 100000000 bytes"}},
      {"short", {"abc", "does not begin with the length of a header"}},
      {"header too long to be one", {std::string(7, '\0') + "\x7f{}", "does not begin with the length of a header"}},
      {"header longer than the file", {good.substr(0, 20), "ends within its header of"}},
      {"no JSON", {good.substr(0, 8) + std::string(good.size() - 8, 'x'), "line 1, column 1: not valid JSON"}},
      {"cut off in the data",
       {good.substr(0, good.size() - 5), "has 3795 bytes after its header, but its tensors take 3800"}},
      {"more than its data", {good + "x", "has 3801 bytes after its header, but its tensors take 3800"}},
      {"offsets that run backwards",
       {with_header([](auto& file) {
          file.header["block0.w"]["data_offsets"] = {1200, 0};
        }),
        "\"block0.w\".data_offsets: [1200, 0]; allowed: two whole numbers of at least 0, begin and end"}},
      {"offsets beyond the end",
       {with_header([](auto& file) {
          file.header["block2.w"]["data_offsets"] = {1 << 20, (1 << 20) + 1200};
        }),
        "begins at byte 1048576 of the data, but bytes 3800 to there belong to no tensor"}},
      {"offsets that overlap",
       {with_header([](auto& file) {
          file.header["block2.w"]["data_offsets"] = {1200, 2400};
        }),
        "begins at byte 1200 of the data, but \"block1.w\" ends at 2400"}},
      {"bytes that are not the shape's",
       {with_header([](auto& file) {
          file.header["block0.w"]["data_offsets"] = {0, 1204};
        }),
        "[0, 1204] are 1204 bytes; F32 of shape [300] takes 1200"}},
      {"an extent below zero",
       {with_header([](auto& file) { file.header["block0.w"]["shape"] = {-300}; }),
        "[-300]; allowed: an array of whole numbers"}},
      {"a shape beyond counting",
       {with_header([](auto& file) {
          file.header["block0.w"]["shape"] = {1LL << 40, 1LL << 40};
        }),
        "of less than 2^63 bits and of whole bytes together"}},
      {"an unknown dtype",
       {with_header([](auto& file) { file.header["block0.w"]["dtype"] = "F5"; }),
        "\"block0.w\".dtype: \"F5\"; allowed: BOOL, F4, "}},
      {"no dtype",
       {with_header([](auto& file) { file.header["block0.w"].erase("dtype"); }),
        "\"block0.w\".dtype: missing; allowed: BOOL"}},
      {"integers",
       {with_header([](auto& file) { file.header["block0.w"]["dtype"] = "I32"; }),
        "tensor \"block0.w\" has dtype I32; allowed: F32, BF16 or F16"}},
  };
  for (auto const& [what, file] : cases) {
    write_file(folder / "weights", file.first);
    auto const outcome = load_small(3, 1, folder / "weights");
    INFO(what);
    CHECK(holds<SystemError>(outcome.front()));
    CHECK_THAT(message_of(outcome.front()), Contains((folder / "weights").string()) && Contains(file.second));
  }
  auto const outcome = load_small(1, 2, folder / "none");
  CHECK_THAT(messages_of(outcome), Contains("none: cannot be opened: No such file or directory"));
}

TEST_CASE("a file that cannot be written is an error on all ranks, and leaves nothing behind") {
  Folder const folder;
  std::filesystem::create_directory(folder / "folder");
  auto const save_to = [&](int stage, std::filesystem::path const& file) {
    return run_job(3, [&](Job& job) {
      SmallModel const small;
      Engine<float> engine{job, small.model, config_of(stage)};
      engine.save_weights(file);
    });
  };
  auto const check = [&](Outcome const& outcome, std::string const& reason) {
    CHECK(holds<SystemError>(outcome[0]));
    CHECK_THAT(message_of(outcome[0]), Contains(reason));
    for (std::size_t const rank : {1U, 2U}) {
      CHECK(holds<SystemError>(outcome[rank]));
      CHECK_THAT(message_of(outcome[rank]), Contains("rank 0: ") && Contains(reason));
    }
  };
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    check(save_to(stage, folder / "missing" / "weights"), "cannot be written: No such file or directory");
    check(save_to(stage, folder / "folder"), "cannot be written: Is a directory");
    // /dev/full is a device that is always full.
    std::filesystem::create_symlink("/dev/full", folder / "full");
    check(save_to(stage, folder / "full"), "full: cannot be written: No space left on device");
    std::filesystem::remove(folder / "full");
    CHECK(folder.contents() == "folder ");
  }
}

TEST_CASE("a disk that fills up during the write is an error, and the earlier file stays") {
  Folder const folder;
  write_file(folder / "weights", "of before");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit const little{2000, before.rlim_max};  // room for the header and some of the data
  REQUIRE(setrlimit(RLIMIT_FSIZE, &little) == 0);
  std::vector<std::string> messages;
  for (int stage = 0; stage <= 3; ++stage) {
    auto const outcome = run_job(2, [&](Job& job) {
      SmallModel const small;
      Engine<float> engine{job, small.model, config_of(stage)};
      engine.save_weights(folder / "weights");
    });
    messages.push_back(message_of(outcome[0]));
    messages.push_back(message_of(outcome[1]));
  }
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  for (std::size_t i = 0; i < messages.size(); i += 2) {
    CHECK_THAT(messages[i], Contains("weights: cannot be written: File too large"));
    CHECK_THAT(messages[i + 1], Contains("rank 0: ") && Contains("weights: cannot be written: File too large"));
  }
  CHECK(folder.contents() == "weights ");
  CHECK(read_file(folder / "weights") == "of before");
}

}  // namespace zeroth::testing
