// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint diff` and `export`, against other runs and against save_weights().
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/hashes.hpp"
#include "checkpoint_support.hpp"
#include "support/sanitized.hpp"
#include "weight_shards.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;
using Json = nlohmann::json;

ToolResult checkpoint_tool(std::string const& words, Folder const& folder) {
  return zeroth_tool("checkpoint " + words, folder.path());
}

/// Tensor by tensor: names, dtypes, shapes, bytes.
std::map<std::string, std::string> tensors_in(fs::path const& file) {
  auto const parsed = SafetensorsFile::parse(read_file(file));
  std::map<std::string, std::string> tensors;
  for (auto const& [name, entry] : parsed.header.items()) {
    if (name == "__metadata__") {
      CHECK(entry.at("format") == "pt");
      continue;
    }
    auto const begin = entry.at("data_offsets").at(0).get<std::size_t>();
    auto const end = entry.at("data_offsets").at(1).get<std::size_t>();
    tensors[name] = entry.at("dtype").dump() + entry.at("shape").dump() + parsed.data.substr(begin, end - begin);
  }
  return tensors;
}

}  // namespace

TEST_CASE("diff prints \"same\" and returns 0 for checkpoints of another stage and number of ranks") {
  Folder const folder;
  auto const from = save_run(folder / "two", {.world = 2, .stage = 1});
  for (int const world : {1, 3, 5}) {
    auto const to =
        save_run(folder / fmt::format("other{}", world),
                 {.world = world, .stage = 3, .zero = R"(, "reduce_bucket_size": 100)", .steps = 0, .from = from});
    auto const result = checkpoint_tool(fmt::format("diff {} {}", from.string(), to.string()), folder);
    INFO(result.output);
    CHECK(result.status == 0);
    CHECK_THAT(result.output, Contains("same: ") && Contains("in the second's stage file") &&
                                  Contains("zero_optimization.stage: 3, was 1"));
    CHECK(Json::parse(
        checkpoint_tool(fmt::format("diff {} {} --json", from.string(), to.string()), folder).output)["same"]);
  }
}

TEST_CASE("diff prints states, elements and the largest difference, and returns 1") {
  Folder const folder;
  auto const a = save_run(folder / "a", {.world = 2});
  auto const b = save_run(folder / "b", {.world = 3, .stage = 0, .steps = 0, .from = a});
  // Changes an element of wte.weight by hand, in the file and in its table of hashes.
  auto const record = checkpoint::read_record(b);
  auto const found = record.contents.by_name().find("wte.weight").front();
  auto const& space = record.contents.spaces[found.space];
  auto const& state = space.states[1];
  constexpr std::int64_t element = 777;
  auto const piece = checkpoint::pieces_of(space, state, space.params[found.param].at + element, 1).front();
  auto const file = b / checkpoint::file_name(piece.place);
  auto bytes = read_file(file);
  auto const data = bytes.size() - 8 - static_cast<std::size_t>(record.contents.state_bytes(piece.place));
  auto const at = data + static_cast<std::size_t>(piece.begin);
  float value = 0;
  std::memcpy(&value, &bytes[at], 4);
  float const other = value + 0.5F;
  std::memcpy(&bytes[at], &other, 4);
  auto const hash = checkpoint::xxh3(std::as_bytes(std::span{bytes}.subspan(data, bytes.size() - 8 - data)));
  std::memcpy(&bytes[bytes.size() - 8], &hash, 8);
  write_file(file, bytes);
  auto const result = checkpoint_tool("diff a b --json", folder);
  INFO(result.output);
  REQUIRE(result.status == 1);
  auto const json = Json::parse(result.output);
  CHECK(json["same"] == false);
  CHECK(json["values"].empty());
  REQUIRE(json["states"].size() == 1);
  auto const& difference = json["states"][0];
  CHECK(difference["state"] == state.name);
  CHECK(difference["parameter"] == "wte.weight");
  CHECK(difference["differing"] == 1);
  CHECK(difference["first"] == element);
  CHECK(difference["largest_difference"].get<double>() == static_cast<double>(other) - static_cast<double>(value));
  CHECK_THAT(checkpoint_tool("diff b a", folder).output,
             Contains("different: b/step_00000002 and a/step_00000002") && Contains(state.name + " of wte.weight"));
}

TEST_CASE("diff compares the program's own state, unless an option excludes it") {
  Folder const folder;
  auto const path = save_run(folder / "a", {});
  fs::copy(folder / "a", folder / "b", fs::copy_options::recursive);
  auto record = checkpoint::read_record(path);
  record.program_state.pop_back();
  write_file(path / checkpoint::record_name, checkpoint::to_text(record));
  auto const differ = checkpoint_tool("diff a b", folder);
  CHECK(differ.status == 1);
  CHECK_THAT(differ.output, Contains("program state: 25 B, and 26 B"));
  auto const same = checkpoint_tool("diff a b --without-program-state", folder);
  INFO(same.output);
  CHECK(same.status == 0);
  CHECK_THAT(same.output, Contains("same: "));
}

TEST_CASE("diff reports different positions, models and dtypes, and returns 2 if it cannot compare") {
  Folder const folder;
  save_run(folder / "a", {});
  save_run(folder / "later", {.steps = 1, .from = folder / "a"});
  auto const later = checkpoint_tool("diff a later", folder);
  CHECK(later.status == 1);
  CHECK_THAT(later.output, Contains("step: 2, and 3") && Contains("samples: 8, and 12") &&
                               Contains("master of wte.weight") && !Contains("of wpe.weight"));
  save_run(folder / "bf16", {.keys = R"(, "bf16": {"enabled": true, "bf16_master_weights_and_grads": true})"});
  auto const narrow = checkpoint_tool("diff a bf16", folder);
  CHECK(narrow.status == 1);
  CHECK_THAT(narrow.output, Contains("fp32, bf16"));
  auto const errors = run_job(1, [&](Job& job) {
    Model model{3};
    auto const unit = model.unit("embedding");
    static_cast<void>(model.param(unit, "wte.weight", {16, 65}, Normal{0.02F}));
    static_cast<void>(model.param(unit, "wpe.weight", {128}, Normal{0.02F}));
    Engine<float> engine{job, model, small_config(1)};
    engine.save(folder / "other").wait();
  });
  REQUIRE(messages_of(errors) == "");
  auto const other = checkpoint_tool("diff a other", folder);
  CHECK(other.status == 1);
  CHECK_THAT(other.output, Contains("shape of parameter wte.weight: [65, 16], and [16, 65]") &&
                               Contains("parameter ln_f.weight: is there, and is not") &&
                               Contains("frozen of parameter wpe.weight: is there, and is not") &&
                               Contains("master of parameter wpe.weight: is not there, and is"));
  CHECK_THAT(checkpoint_tool("diff other a", folder).output, Contains("parameter ln_f.weight: is not there, and is"));

  CHECK(checkpoint_tool("diff a nowhere", folder).status == 2);
  CHECK(checkpoint_tool("diff a", folder).status == 2);
  flip(folder / "later/step_00000003/place_00001.safetensors", 9);
  auto const damaged = checkpoint_tool("diff a later", folder);
  CHECK(damaged.status == 2);
  CHECK_THAT(damaged.output, Contains("zeroth: checkpoint later/step_00000003: place_00001.safetensors: is damaged"));
}

TEST_CASE("export equals save_weights() at the same step, in each dtype") {
  struct Row {
    std::string keys;
    char const* master;
    char const* compute;
  };
  auto const& [keys, master, compute] =
      GENERATE(Row{"", "F32", "fp32"}, Row{R"(, "bf16": {"enabled": true})", "F32", "bf16"},
               Row{R"(, "fp16": {"enabled": true, "initial_scale_power": 4})", "F32", "fp16"},
               Row{R"(, "bf16": {"enabled": true, "bf16_master_weights_and_grads": true})", "BF16", "bf16"});
  INFO(keys);
  for (int stage = 0; stage <= 3; ++stage) {
    Folder const folder;
    SavedRun run{.world = 1 + stage, .stage = stage, .keys = keys, .weights = folder / "fp32.safetensors"};
    save_run(folder / "saved", run);
    run.weights = folder / "compute.safetensors";
    run.zero = R"(, "stage3_gather_16bit_weights_on_model_save": true)";
    save_run(folder / "again", run);
    auto const exported = [&](std::string const& options) {
      auto const result = checkpoint_tool("export saved out.safetensors " + options, folder);
      INFO(result.output);
      REQUIRE(result.status == 0);
      return tensors_in(folder / "out.safetensors");
    };
    CHECK((exported("--dtype fp32") == tensors_in(folder / "fp32.safetensors")));
    CHECK((exported("--dtype compute") == tensors_in(folder / "compute.safetensors")));
    CHECK((exported(fmt::format("--dtype {}", compute)) == tensors_in(folder / "compute.safetensors")));
    auto const as_saved = exported("");
    CHECK(
        (as_saved == tensors_in(folder / (std::string{master} == "F32" ? "fp32.safetensors" : "compute.safetensors"))));
    CHECK_THAT(as_saved.at("wte.weight"), Catch::StartsWith(fmt::format("\"{}\"[65,16]", master)));
    CHECK(folder.contents() == "again compute.safetensors fp32.safetensors out.safetensors saved ");
  }
}

TEST_CASE("export writes averages in place of masters where it is asked to and they are there") {
  for (int stage = 0; stage <= 3; ++stage) {
    Folder const folder;
    save_run(folder / "saved", {.world = 1 + stage,
                                .stage = stage,
                                .keys = R"(, "bf16": {"enabled": true})",
                                .weights = folder / "averages.safetensors",
                                .zeroth = R"(, "ema": {"decay": 0.5})",
                                .averages = true});
    REQUIRE(checkpoint_tool("export saved masters.safetensors", folder).status == 0);
    REQUIRE(checkpoint_tool("export saved ema.safetensors --ema", folder).status == 0);
    CHECK((tensors_in(folder / "ema.safetensors") == tensors_in(folder / "averages.safetensors")));
    CHECK((tensors_in(folder / "ema.safetensors") != tensors_in(folder / "masters.safetensors")));
  }
  Folder const folder;
  save_run(folder / "saved", {});
  auto const refused = checkpoint_tool("export saved ema.safetensors --ema", folder);
  CHECK(refused.status == 1);
  CHECK_THAT(refused.output, Contains("has no averages; its run had no zeroth.ema.decay"));
}

TEST_CASE("a folder has one file, or several with an index that Hugging Face's libraries read") {
  Folder const folder;
  save_run(folder / "saved", {.world = 3, .weights = folder / "whole.safetensors"});
  auto const whole = tensors_in(folder / "whole.safetensors");
  REQUIRE(checkpoint_tool("export saved one/", folder).status == 0);
  CHECK((tensors_in(folder / "one/model.safetensors") == whole));
  auto const result = checkpoint_tool("export saved deep/several --max-shard-bytes 4.5KB --json", folder);
  INFO(result.output);
  REQUIRE(result.status == 0);
  auto const index = Json::parse(read_file(folder / "deep/several/model.safetensors.index.json"));
  CHECK(index["metadata"]["total_size"] == 4 * 2272);
  std::map<std::string, std::string> all;
  std::set<std::string> files{"model.safetensors.index.json"};
  for (auto const& [name, file] : index["weight_map"].items()) {
    files.insert(file.get<std::string>());
    all[name] = tensors_in(folder / "deep/several" / file.get<std::string>()).at(name);
  }
  CHECK((all == whole));
  CHECK(files.size() == 4);
  CHECK(files.contains("model-00001-of-00003.safetensors"));
  CHECK(Json::parse(result.output)["files"].size() == 4);
  CHECK(Json::parse(result.output)["bytes"] == 4 * 2272);
  std::size_t entries = 0;
  for (auto const& entry : fs::directory_iterator{folder / "deep/several"}) {
    CHECK(files.contains(entry.path().filename().string()));
    ++entries;
  }
  CHECK(entries == files.size());
}

TEST_CASE("an export is complete or absent, and replaces nothing but a file") {
  Folder const folder;
  auto const path = save_run(folder / "saved", {.world = 2});
  fs::create_directory(folder / "full");
  write_file(folder / "full/notes", "mine");
  write_file(folder / "file", "mine");
  check_failed("checkpoint export saved full", "full: exists already; allowed: a new or an empty folder",
               folder.path());
  check_failed("checkpoint export saved file", "file: exists already", folder.path());
  check_failed("checkpoint export saved /proc/zeroth/out", "/proc/zeroth/out: cannot be created", folder.path());
  check_failed("checkpoint export saved /proc/out.safetensors", "weights /proc/out.safetensors: cannot be written",
               folder.path());
  fs::create_symlink("/dev/full", folder / "full.safetensors");
  check_failed("checkpoint export saved full.safetensors", "weights full.safetensors: cannot be written: No space left",
               folder.path());
  fs::remove(folder / "full.safetensors");
  REQUIRE(checkpoint_tool("export saved out.safetensors", folder).status == 0);
  auto const before = read_file(folder / "out.safetensors");
  auto const good = read_file(path / "place_00001.safetensors");
  flip(path / "place_00001.safetensors", 9);
  check_failed("checkpoint export saved out.safetensors",
               "checkpoint saved/step_00000002: place_00001.safetensors: is damaged", folder.path());
  check_failed("checkpoint export saved new", "checkpoint saved/step_00000002: place_00001.safetensors: is damaged",
               folder.path());
  fs::remove(path / "place_00001.safetensors");
  check_failed("checkpoint export saved new",
               "checkpoint saved/step_00000002: place_00001.safetensors: cannot be opened", folder.path());
  CHECK((read_file(folder / "out.safetensors") == before));
  CHECK(folder.contents() == "file full out.safetensors saved ");
  check_refused("checkpoint export saved out --dtype fp64", "--dtype: fp64 not in");
  check_refused("checkpoint export saved out --max-shard-bytes 5XB", "5XB: allowed: a number of bytes, or one with KB");
  check_refused("checkpoint export saved out.safetensors --max-shard-bytes 5GB", "goes with a folder");
}

TEST_CASE("a large parameter is compared and exported with little memory") {
  Folder const folder;
  constexpr std::int64_t count = sanitized ? 3'000'000 : 24'000'000;
  auto const outcome = run_job(2, [&](Job& job) {
    Model model{1};
    auto const unit = model.unit("large");
    static_cast<void>(model.param(unit, "large", {count}, Constant{1}, {.trainable = false}));
    static_cast<void>(model.param(unit, "small", {2}, Constant{1}));
    Engine<float> engine{job, model, small_config(3)};
    engine.save(folder / "saved").wait();
  });
  REQUIRE(messages_of(outcome) == "");
  // The peak of a child includes memory that it shared with this process at the fork, so Python in between starts it.
  std::string const measure =
      "import resource, subprocess, sys; status = subprocess.run(sys.argv[1:]).returncode; "
      "print('KiB:', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(status)";
  for (std::string const words : {"export saved out.safetensors --dtype bf16", "diff saved saved", "verify saved"}) {
    Child::Options options{.command = {ZEROTH_PYTHON, "-c", measure, ZEROTH_TOOL, "checkpoint"},
                           .folder = folder.path(),
                           .environment = {}};
    std::ranges::move(words_of(words), std::back_inserter(options.command));
    Child child{options};
    CHECK(child.wait().status == 0);
    INFO(words << "\n" << child.output());
    auto const at = child.output().find("KiB: ");
    REQUIRE(at != std::string::npos);
    if (!sanitized) {
      CHECK(std::stol(child.output().substr(at + 5)) < 56 * 1024);  // the state has 92 MiB
    }
  }
  CHECK(static_cast<std::int64_t>(fs::file_size(folder / "out.safetensors")) > 2 * count);
}

TEST_CASE("shards are filled in order, and a tensor larger than a shard is alone in one") {
  auto const sizes_of = [](std::vector<std::int64_t> const& bytes, std::optional<std::int64_t> most) {
    std::vector<std::size_t> sizes;
    for (auto const& shard : tools::divide(bytes, most)) {
      sizes.push_back(shard.last - shard.first);
    }
    return sizes;
  };
  using Sizes = std::vector<std::size_t>;
  CHECK(sizes_of({}, 5) == Sizes{0});
  CHECK(sizes_of({1, 2, 3}, {}) == Sizes{3});
  CHECK(sizes_of({1, 2, 3}, 6) == Sizes{3});
  CHECK(sizes_of({1, 2, 3}, 5) == Sizes{2, 1});
  CHECK(sizes_of({9, 1, 1, 9, 1}, 2) == Sizes{1, 2, 1, 1});
  CHECK(sizes_of({1, 1, 1}, 1) == Sizes{1, 1, 1});
}

}  // namespace zeroth::testing
