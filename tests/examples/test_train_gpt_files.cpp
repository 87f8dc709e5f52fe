// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>
#include <zeroth/core/error.hpp>

#include "files.hpp"
#include "model_folder.hpp"
#include "options.hpp"
#include "report.hpp"
#include "run_record.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "units.hpp"
#include "zeroth/model/description.hpp"

using namespace gpt;
using Catch::Contains;
using nlohmann::json;
using zeroth::testing::thrown;

namespace {

struct Parsed {
  CommandLine command_line;
  std::string out, err;
};
Parsed parse_words(std::initializer_list<char const*> words) {
  std::vector<char const*> argv{"train_gpt"};
  argv.insert(argv.end(), words);
  std::ostringstream out, err;
  auto const command_line = parse(static_cast<int>(argv.size()), argv.data(), out, err);
  return {command_line, out.str(), err.str()};
}

Shape const shape{.layers = 2, .heads = 3, .channels = 12, .context = 8, .vocabulary = 300};

/// A model folder of `shape`, with `changes`.
std::filesystem::path model_folder(Folder const& folder, json const& changes = json::object()) {
  ModelFolder{folder / "model"}.publish(shape);
  auto config = json::parse(read_all(folder / "model/config.json"));
  config.merge_patch(changes);
  folder.write("model/config.json", config.dump());
  return folder / "model";
}
std::filesystem::path publish_weights(Folder const& folder, std::string_view text) {
  auto const path = folder / "model";
  ModelFolder model{path};
  std::ofstream{model.weights()} << text;
  model.publish(shape);
  return path;
}

}  // namespace

TEST_CASE("options: every option is parsed") {
  auto const o = parse_words({"--config",     "c.json",      "--data",    "text", "--ranks",         "4",
                              "--steps",      "7",           "--layers",  "2",    "--heads",         "3",
                              "--channels",   "12",          "--context", "8",    "--seed",          "9",
                              "--order",      "shuffled",    "--report",  "r",    "--save-initial",  "i",
                              "--save-final", "f",           "--init",    "m",    "--comm",          "mpi",
                              "--plan",       "--recompute", "--device",  "cuda", "--share-devices", "--tf32",
                              "--vocabulary", "300",         "--dropout", "0.25", "--algorithms",    "a.json"})
                     .command_line.options;
  REQUIRE(o);
  CHECK(o->stage_file.config == "c.json");
  CHECK(o->data == "text");
  CHECK(o->ranks == 4);
  CHECK(o->steps == 7);
  CHECK(o->shape.layers == 2);
  CHECK(o->shape.heads == 3);
  CHECK(o->shape.channels == 12);
  CHECK(o->shape.context == 8);
  CHECK(o->seed == 9);
  CHECK(o->order == Order::shuffled);
  CHECK(o->report == "r");
  CHECK(o->save_initial == "i");
  CHECK(o->save_final == "f");
  CHECK(o->init == "m");
  CHECK(o->transport == zeroth::comm::Transport::mpi);
  CHECK(o->plan);
  CHECK(o->recompute);
  CHECK(o->device == zeroth::DeviceKind::cuda);
  CHECK(o->share_devices);
  CHECK(o->tf32);
  CHECK(o->algorithms == "a.json");
  CHECK(o->shape.vocabulary == 300);
  CHECK(o->dropout == 0.25F);
  CHECK_FALSE(o->step_graph);
  auto const graphs = parse_words({"--config", "c.json", "--data", "text", "--device", "cuda", "--step-graph"});
  REQUIRE(graphs.command_line.options);
  CHECK(graphs.command_line.options->step_graph);
  CHECK(o->attention == AttentionLibrary::own);
  auto const cudnn =
      parse_words({"--config", "c.json", "--data", "text", "--device", "cuda", "--attention", "cudnn"}).command_line;
  REQUIRE(cudnn.options);
  CHECK(cudnn.options->attention == AttentionLibrary::cudnn);
}

TEST_CASE("options: values for a stage file's open keys") {
  auto const o =
      parse_words({"--config", "c.json", "--data",        "text", "--given",        "g.json", "--set",    "a.b=1",
                   "--set",    "c=2",    "--micro-batch", "2",    "--accumulation", "3",      "--lr",     "0.5",
                   "--dtype",  "bf16",   "--warmup",      "10",   "--weight-decay", "0.25",   "--verbose"})
          .command_line.options;
  REQUIRE(o);
  auto const& file = o->stage_file;
  CHECK(file.given == "g.json");
  CHECK(file.set == std::vector<std::string>{"a.b=1", "c=2"});
  CHECK(file.micro_batch == 2);
  CHECK(file.accumulation == 3);
  CHECK(file.lr == 0.5);
  CHECK(file.dtype == "bf16");
  CHECK(file.warmup == 10);
  CHECK(file.weight_decay == 0.25);
  CHECK(file.verbose);
}

TEST_CASE("options: absent options have a default or stay open") {
  auto const o = parse_words({"--config", "c.json", "--data", "text"}).command_line.options;
  REQUIRE(o);
  CHECK_FALSE(o->ranks);
  CHECK(o->steps == 100);
  CHECK_FALSE(o->shape.layers);
  CHECK_FALSE(o->shape.context);
  CHECK(o->order == Order::sequential);
  CHECK_FALSE(o->transport);
  CHECK_FALSE(o->plan);
  CHECK_FALSE(o->recompute);
  CHECK(o->dropout == 0);
  CHECK(o->device == zeroth::DeviceKind::cpu);
  CHECK_FALSE(o->share_devices);
  CHECK_FALSE(o->tf32);
  CHECK(parse_words({"--config", "c.json", "--plan"}).command_line.options);
  auto const by_nccl = parse_words({"--config", "c.json", "--plan", "--comm", "nccl"}).command_line.options;
  REQUIRE(by_nccl);
  CHECK(by_nccl->transport == zeroth::comm::Transport::nccl);
}

TEST_CASE("options: mistakes are named with value and what is allowed") {
  struct Row {
    std::initializer_list<char const*> words;
    std::vector<std::string> expected;
  };
  for (auto const& row : std::initializer_list<Row>{
           {{"--data", "text"}, {"--config", "required"}},
           {{"--config", "c"}, {"--data", "required"}},
           {{"--config", "c", "--data", "t", "--ranks", "0"}, {"--ranks", "0", "at least 1"}},
           {{"--config", "c", "--data", "t", "--steps", "-1"}, {"--steps", "-1", "at least 0"}},
           {{"--config", "c", "--data", "t", "--steps", "1e3"}, {"--steps", "1e3", "whole number"}},
           {{"--config", "c", "--data", "t", "--heads", "2.5"}, {"--heads", "2.5", "whole number"}},
           {{"--config", "c", "--data", "t", "--layers", "0"}, {"--layers", "0", "whole number from 1 to 10000"}},
           {{"--config", "c", "--data", "t", "--layers", "1000000000000"},
            {"--layers", "1000000000000", "from 1 to 10000"}},
           {{"--config", "c", "--data", "t", "--heads", "2000000"}, {"--heads", "2000000", "from 1 to 1048576"}},
           {{"--config", "c", "--data", "t", "--channels", "2000000"}, {"--channels", "from 1 to 1048576"}},
           {{"--config", "c", "--data", "t", "--context", "2000000"}, {"--context", "from 1 to 1048576"}},
           {{"--config", "c", "--data", "t", "--vocabulary", "20000000"}, {"--vocabulary", "from 256 to 16777216"}},
           {{"--config", "c", "--data", "t", "--channels", "x"}, {"--channels", "x"}},
           {{"--config", "c", "--data", "t", "--context", ""}, {"--context"}},
           {{"--config", "c", "--data", "t", "--seed", "-3"}, {"--seed", "-3", "at least 0"}},
           {{"--config", "c", "--data", "t", "--ranks", "99999999999"}, {"--ranks", "99999999999"}},
           {{"--config", "c", "--data", "t", "--dropout", "1"}, {"--dropout", "1 is not a number from 0 to below 1"}},
           {{"--config", "c", "--data", "t", "--dropout", "-0.1"}, {"--dropout", "-0.1 is not a number from 0 to"}},
           {{"--config", "c", "--data", "t", "--dropout", "nan"}, {"--dropout", "nan is not a number from 0 to"}},
           {{"--config", "c", "--data", "t", "--dropout", "some"}, {"--dropout", "some is not a number from 0 to"}},
           {{"--config", "c", "--data", "t", "--order", "random"}, {"--order", "random", "sequential", "shuffled"}},
           {{"--config", "c", "--data", "t", "--comm", "gloo"}, {"--comm", "gloo", "auto", "local", "mpi", "nccl"}},
           {{"--config", "c", "--data", "t", "--device", "gpu"}, {"--device", "gpu", "cpu", "cuda"}},
           {{"--config", "c", "--data", "t", "--tf32"}, {"--tf32", "--device cuda"}},
           {{"--config", "c", "--data", "t", "--share-devices"}, {"--share-devices", "--device cuda"}},
           {{"--config", "c", "--data", "t", "--algorithms", "a"}, {"--algorithms", "--device cuda"}},
           {{"--config", "c", "--data", "t", "--step-graph"}, {"--step-graph", "--device cuda"}},
           {{"--config", "c", "--data", "t", "--attention", "cudnn"}, {"--attention", "--device cuda"}},
           {{"--config", "c", "--data", "t", "--device", "cuda", "--attention", "flash"},
            {"--attention", "flash", "own", "cudnn"}},
           {{"--config", "c", "--data", "t", "--device", "cuda", "--step-graph", "--dropout", "0.5"},
            {"--step-graph", "--dropout is 0.5", "allowed: 0"}},
           {{"--config", "c", "--data", "t", "--device", "cuda", "--step-graph", "--trace", "f"},
            {"--step-graph", "--trace"}},
           {{"--config", "c", "--data", "t", "--device", "cuda", "--algorithms", ""}, {"--algorithms", "is empty"}},
           {{"--config", "c", "--data", "t", "--math", "mkl"}, {"--math", "mkl", "auto", "eigen", "onednn"}},
           {{"--config", "c", "--data", "t", "--device", "cuda", "--math", "eigen"}, {"--math", "--device cpu"}},
           {{"--config", "c", "--data", "t", "--device", "cuda", "--show-products"},
            {"--show-products", "--device cpu"}},
           {{"--config", "c", "--data", "t", "--vocabulary", "255"}, {"--vocabulary", "255", "from 256 to"}},
           {{"--config", "c", "--data", "t", "--layer", "2"}, {"--layer"}},
           {{"--config", "c", "--data", "t", "--dtype", "fp8"}, {"--dtype", "fp8", "fp32", "bf16", "fp16"}},
           {{"--config", "c", "--data", "t", "--lr", "fast"}, {"--lr", "fast"}},
           {{"--config", "c", "--data", "t", "more"}, {"more"}},
           {{"--config", "c", "--data", "t", "--save-every", "2"}, {"--save-every: needs --checkpoint, the folder of"}},
           {{"--config", "c", "--data", "t", "--keep", "2"}, {"--keep: needs --checkpoint"}},
           {{"--config", "c", "--data", "t", "--max-restarts", "2"}, {"--max-restarts: needs --checkpoint"}},
           {{"--config", "c", "--data", "t", "--resume", "auto"}, {"--resume auto: needs --checkpoint"}},
           {{"--config", "c", "--data", "t", "--checkpoint", "d", "--save-every", "0"}, {"--save-every", "at least 1"}},
           {{"--config", "c", "--data", "t", "--checkpoint", "d", "--save-every", "2.5"},
            {"--save-every: 2.5 is neither"}},
           {{"--config", "c", "--data", "t", "--checkpoint", "d", "--save-every", "10m"},
            {"--save-every: 10m", "10min"}},
           {{"--config", "c", "--data", "t", "--checkpoint", "d", "--save-every", "min"}, {"--save-every: min"}},
           {{"--config", "c", "--data", "t", "--save-every", "2h"},
            {"--save-every: needs --checkpoint, the folder of"}},
           {{"--config", "c", "--data", "t", "--checkpoint", "d", "--keep", "-1"}, {"--keep", "at least 0"}},
           {{"--config", "c", "--data", "t", "--resume", ""}, {"--resume", "is empty; allowed: a path"}},
           {{"--config", "c", "--data", "t", "--checkpoint", ""}, {"--checkpoint", "is empty; allowed: a path"}},
           {{"--config", "c", "--data", "t", "--resume", "d", "--init", "m"}, {"--init", "those of --resume d: leave"}},
           {{"--config", "c", "--data", "t", "--resume", "d", "--save-initial", "m"}, {"--save-initial", "--resume d"}},
           {{"--config", "c", "--data", "t", "--checkpoint", "d", "--resume", "d", "--max-restarts", "1"},
            {"--max-restarts", "--resume d always begins with the same: give --resume auto"}},
           {{"--config", "c", "--data", "t", "--checkpoint", "d", "--comm", "mpi", "--max-restarts", "1"},
            {"use zeroth run --max-restarts, which restarts processes"}},
           {{"--config", "c", "--data", "t", "--save-initial", "m", "--save-final", "m"},
            {"--save-final", "m is also the folder of --save-initial"}},
       }) {
    auto const got = parse_words(row.words);
    INFO(got.err);
    CHECK_FALSE(got.command_line.options);
    CHECK(got.command_line.exit_status == 2);
    for (auto const& text : row.expected) {
      CHECK_THAT(got.err, Contains(text));
    }
  }
}

TEST_CASE("options: help lists all of them and is not an error") {
  auto const got = parse_words({"--help"});
  CHECK_FALSE(got.command_line.options);
  CHECK(got.command_line.exit_status == 0);
  for (char const* option :
       {"--config",        "--data",    "--ranks",       "--steps",        "--layers",        "--heads",
        "--channels",      "--context", "--seed",        "--order",        "--report",        "--save-initial",
        "--save-final",    "--init",    "--comm",        "--plan",         "--recompute",     "--device",
        "--share-devices", "--tf32",    "--vocabulary",  "--math",         "--show-products", "--checkpoint",
        "--save-every",    "--keep",    "--resume",      "--max-restarts", "--given",         "--set",
        "--micro-batch",   "--lr",      "--dtype",       "--warmup",       "--accumulation",  "--weight-decay",
        "--dropout",       "--verbose", "--untied-head", "--algorithms",   "--step-graph"}) {
    CHECK_THAT(got.out, Contains(option));
  }
}

TEST_CASE("a model folder contains what Hugging Face expects") {
  Folder const folder;
  publish_weights(folder, "weights");
  CHECK(read_all(folder / "model/model.safetensors") == "weights");
  auto const config = json::parse(read_all(folder / "model/config.json"));
  CHECK(config["architectures"] == json::array({"GPT2LMHeadModel"}));
  CHECK(config["model_type"] == "gpt2");
  CHECK(config["activation_function"] == "gelu_new");
  CHECK(config["n_layer"] == 2);
  CHECK(config["n_head"] == 3);
  CHECK(config["n_embd"] == 12);
  CHECK(config["n_positions"] == 8);
  CHECK(config["vocab_size"] == 300);
  CHECK(config["layer_norm_epsilon"] == 1e-5);
  for (char const* dropout : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
    CHECK(config[dropout] == 0.0);
  }
  CHECK(folder.contents() == "model ");
  CHECK(resolve_shape({}, folder / "model") == shape);
}

TEST_CASE("config.json has the dtype of the weights") {
  Folder const folder;
  for (auto const& [dtype, name] : {std::pair{zeroth::Dtype::fp32, "float32"},
                                    {zeroth::Dtype::bf16, "bfloat16"},
                                    {zeroth::Dtype::fp16, "float16"}}) {
    ModelFolder model{folder / "model"};
    std::ofstream{model.weights()} << "weights";
    model.publish(shape, dtype);
    CHECK(json::parse(read_all(folder / "model/config.json"))["torch_dtype"] == name);
  }
}

TEST_CASE("a model folder replaces an older one and keeps what else is in it") {
  Folder const folder;
  publish_weights(folder, "old");
  folder.write("model/tokenizer.json", "mine");
  publish_weights(folder, "new");
  CHECK(read_all(folder / "model/model.safetensors") == "new");
  CHECK(read_all(folder / "model/tokenizer.json") == "mine");
  CHECK(folder.contents() == "model ");
}

TEST_CASE("a model folder that is not published leaves nothing behind") {
  Folder const folder;
  {
    ModelFolder const model{folder / "model/"};  // the same place as without the slash
    CHECK_THAT(model.weights().string(),
               Catch::StartsWith((folder / "model.").string()) && Catch::EndsWith(".partial/model.safetensors"));
    CHECK(std::filesystem::exists(model.weights().parent_path()));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("two jobs that save to one model folder do not conflict until it is in place") {
  Folder const folder;
  ModelFolder first{folder / "model"};
  ModelFolder second{folder / "model"};
  CHECK(first.weights() != second.weights());
  std::ofstream{first.weights()} << "first";
  std::ofstream{second.weights()} << "second";
  second.publish(shape);
  CHECK(read_all(folder / "model/model.safetensors") == "second");
  first.publish(shape);
  CHECK(read_all(folder / "model/model.safetensors") == "first");
}

TEST_CASE("a link to a model folder stays a link, and its target is written") {
  Folder const folder;
  std::filesystem::create_directory(folder / "elsewhere");
  for (char const* target : {"elsewhere/there", "elsewhere/not yet"}) {
    std::filesystem::create_directory_symlink(target, folder / "model");
    publish_weights(folder, "weights");
    CHECK(std::filesystem::is_symlink(folder / "model"));
    CHECK(read_all(folder / target / "model.safetensors") == "weights");
    std::filesystem::remove(folder / "model");
  }
  CHECK_THAT(thrown<zeroth::ConfigError>([] { ModelFolder{"/dev/null"}; }), Contains("is a device or a pipe"));
}

TEST_CASE("a model folder that cannot be created is refused before training") {
  Folder const folder;
  auto const file = folder.write("file", "");
  CHECK_THAT(thrown<zeroth::ConfigError>([&] { ModelFolder{file}; }), Contains("file") && Contains("is a file"));
  CHECK_THAT(thrown<zeroth::SystemError>([&] { ModelFolder{file / "model"}; }), Contains("cannot be created"));
}

TEST_CASE("shapes: options override defaults, the folder overrides both, and contradictions are errors") {
  Folder const folder;
  CHECK(resolve_shape({}, {}) == Shape{});
  CHECK(resolve_shape({.layers = 2, .heads = 3, .channels = 12, .context = 8}, {}) ==
        Shape{.layers = 2, .heads = 3, .channels = 12, .context = 8, .vocabulary = 256});
  CHECK_THAT(thrown<zeroth::ConfigError>([] { return resolve_shape({.heads = 5, .channels = 12}, {}); }),
             Contains("--channels 12 is not a multiple of --heads 5"));

  auto const init = model_folder(folder);
  CHECK(resolve_shape({}, init) == shape);
  CHECK(resolve_shape({.layers = 2, .context = 8}, init) == shape);
  struct Row {
    ShapeOptions asked;
    char const* expected;
  };
  for (auto const& row :
       {Row{{.layers = 3}, "--layers 3 contradicts"}, Row{{.heads = 4}, "--heads 4 contradicts"},
        Row{{.channels = 24}, "--channels 24 contradicts"}, Row{{.context = 4}, "--context 4 contradicts"}}) {
    CHECK_THAT(thrown<zeroth::ConfigError>([&] { return resolve_shape(row.asked, init); }),
               Contains(row.expected) && Contains(init.string()));
  }
}

TEST_CASE("a folder of another kind of model is rejected with the key") {
  struct Row {
    json changes;
    std::vector<std::string> expected;
  };
  for (auto const& row : std::vector<Row>{
           {{{"n_layer", nullptr}}, {"n_layer is missing", "from 1 to 10000"}},
           {{{"n_layer", 1000000000000}}, {"n_layer is 1000000000000", "from 1 to 10000"}},
           {{{"n_embd", 2000000}}, {"n_embd is 2000000", "from 1 to 1048576"}},
           {{{"n_head", 0}}, {"n_head is 0", "from 1 to"}},
           {{{"n_embd", "wide"}}, {"n_embd is \"wide\"", "whole number"}},
           {{{"n_positions", 8.5}}, {"n_positions is 8.5", "whole number"}},
           {{{"vocab_size", 255}}, {"vocab_size is 255", "from 256 to"}},
           {{{"model_type", "llama"}}, {"model_type is \"llama\"", "only \"gpt2\""}},
           {{{"n_inner", 47}}, {"n_inner is 47", "only 48"}},
           {{{"activation_function", "relu"}}, {"activation_function is \"relu\"", "gelu_new"}},
           {{{"layer_norm_epsilon", 1e-6}}, {"layer_norm_epsilon is 1e-06", "only 1e-05"}},
           {{{"scale_attn_weights", false}}, {"scale_attn_weights is false"}},
           {{{"scale_attn_by_inverse_layer_idx", true}}, {"scale_attn_by_inverse_layer_idx is true"}},
           {{{"add_cross_attention", true}}, {"add_cross_attention is true"}},
           {{{"tie_word_embeddings", "no"}}, {"tie_word_embeddings is \"no\"", "true or false"}},
       }) {
    Folder const folder;
    auto const init = model_folder(folder, row.changes);
    auto const message = thrown<zeroth::ConfigError>([&] { return resolve_shape({}, init); });
    CHECK_THAT(message, Contains("config.json"));
    for (auto const& text : row.expected) {
      CHECK_THAT(message, Contains(text));
    }
  }
}

TEST_CASE("a model folder written by Hugging Face is read, whatever other keys it has") {
  Folder const folder;
  CHECK(resolve_shape(
            {}, model_folder(folder, {{"n_inner", 48}, {"resid_pdrop", 0.1}, {"transformers_version", "4"}})) == shape);
}

TEST_CASE("a head is untied if the folder or the command line says so, unless the folder contradicts") {
  Folder const folder, other;
  auto untied = shape;
  untied.untied_head = true;
  auto const init = model_folder(folder, {{"tie_word_embeddings", false}});
  CHECK(resolve_shape({}, init) == untied);
  CHECK(resolve_shape({.untied_head = true}, init) == untied);
  CHECK(resolve_shape({.untied_head = true}, {}).untied_head);
  auto const tied = model_folder(other);
  CHECK_THAT(thrown<zeroth::ConfigError>([&] { return resolve_shape({.untied_head = true}, tied); }),
             Contains("--untied-head contradicts --init"));
  zeroth::Model model;
  GptParams const params{model, untied};
  CHECK(model.description().params.back().name == "lm_head.weight");
  CHECK(model.description().units.back().ties.empty());
}

TEST_CASE("a folder without a valid config.json is rejected") {
  Folder const folder;
  auto const resolve = [&] { return resolve_shape({}, folder.path()); };
  CHECK_THAT(thrown<zeroth::ConfigError>(resolve),
             Contains("--init") && Contains("config.json cannot be opened: No such file"));
  auto const refusal = [&](std::string const& text) {
    folder.write("config.json", text);
    return thrown<zeroth::ConfigError>(resolve);
  };
  CHECK_THAT(refusal("[1]"), Contains("config.json: 1 problem\n  holds an array; allowed: one JSON object"));
  CHECK_THAT(refusal("{\"n_layer\": "), Contains("config.json: 1 problem\n  line 1, column 13: not valid JSON"));
  CHECK_THAT(refusal(R"({"n_layer": 2, "n_layer": 3})"), Contains("n_layer (line 1): given twice"));
  CHECK_THAT(refusal("{\"n_layer\": " + std::string(200'000, '[')), Contains("nested deeper than 32 levels"));
  std::filesystem::remove(folder / "config.json");
  REQUIRE(::mkfifo((folder / "config.json").c_str(), 0600) == 0);
  CHECK_THAT(thrown<zeroth::ConfigError>(resolve), Contains("config.json is a pipe; allowed: a regular file"));
}

TEST_CASE("the record of a run has its math library and device") {
  Folder const folder;
  Options options;
  options.data = folder.write("text", "twenty-eight bytes of a text");
  Corpus const corpus{options.data};
  Batches const batches{corpus, 8, options.order, options.seed};
  auto const config = zeroth::Config::from_json(R"({"train_micro_batch_size_per_gpu": 1})");
  auto const record = [&] {
    return json::parse(run_record(options, config, shape, batches, {MathLibrary::eigen, "Eigen 3"}, 2));
  };
  CHECK(record()["device"] == "cpu");
  CHECK(record()["math"] == "Eigen 3");
  for (bool const each : {false, true}) {
    options.device = zeroth::DeviceKind::cuda;
    options.tf32 = each;
    options.share_devices = !each;
    auto const got = record();
    CHECK(got["device"] == "cuda");
    CHECK(got["tf32"] == each);
    CHECK(got["share_devices"] == !each);
  }
}

TEST_CASE("a resumed run lists its changes since the save, if train_gpt saved") {
  auto const now = [](std::string const& more) {
    return R"({"record":"run","world":3,"batch":{"train":12},"data":{"path":"a \"b\""},)"
           R"("config":{"zero.stage":{"value":3,"origin":"file"}},"resumed":null)" +
           more + "}\n";
  };
  auto const since = [&](std::string const& before) {
    zeroth::Restored restored;
    auto const bytes = std::as_bytes(std::span{before});
    restored.program_state.assign(bytes.begin(), bytes.end());
    return changes_since(restored, now(R"(,"new":1)"));
  };
  CHECK(since(now("")).empty());
  CHECK(since(R"({"record":"run","world":4,"batch":{"train":16},"data":{"path":null},"gone":1,)"
              R"("config":{"zero.stage":{"value":0,"origin":"default"}},"resumed":{"step":7}})") ==
        std::vector<std::string>{"batch.train: 12, was 16", "config.zero.stage: 3, was 0",
                                 R"(data.path: "a \"b\"", was null)", "world: 3, was 4"});
  for (auto const& other : {std::string{}, std::string{"\0\xff", 2}, std::string{"[1]"}, std::string(1 << 20, '['),
                            std::string{R"({"record":"run","wor)"}, std::string{R"({"world":4})"},
                            std::string{R"({"record":"another program's","world":4})"}}) {
    CHECK(since(other).empty());
  }
  auto const record = json::parse(resumed_record(
      now(""), {.path = "saved/step_00000007", .step = 7, .samples = 84, .program_state = {}}, {"world: 3, was 4"}));
  CHECK(record["resumed"] == json({{"checkpoint", "saved/step_00000007"},
                                   {"step", 7},
                                   {"samples", 84},
                                   {"changes", json::array({"world: 3, was 4"})}}));
  CHECK(record["world"] == 3);
}

TEST_CASE("a step is one line of JSON with nine significant digits") {
  zeroth::StepReport step;
  step.step = 3;
  step.loss = 5.54517746F;
  step.grad_norm = 1.0F / 3;
  step.learning_rate = 3e-4F;
  step.loss_scale = 65536;
  step.step_ms = 250;
  step.exposed_comm_ms = 0.125;
  step.exposed_io_ms = 2.5;
  step.activation_ms = 0.5;
  step.save_ms = 1.5;
  step.save_failed = true;
  step.staleness = 2;
  step.elapsed_s = 0.75;
  auto const line = step_record(step, 1024);
  CHECK(line ==
        R"({"record":"step","step":3,"loss":5.54517746,"grad_norm":0.333333343,"lr":0.000300000014,"loss_scale":65536,)"
        R"("nonfinite":false,"skipped":false,"step_ms":250,"tokens_per_s":4096,"exposed_comm_ms":0.125,)"
        R"("exposed_io_ms":2.5,"activation_ms":0.5,"save_ms":1.5,"save_failed":true,"elapsed_s":0.75,"staleness":2})"
        "\n");
  auto const record = json::parse(line);
  CHECK(record["loss"].get<float>() == step.loss);
  CHECK(record["grad_norm"].get<float>() == step.grad_norm);
  CHECK(record["lr"].get<float>() == step.learning_rate);
}

TEST_CASE("a step that overflowed is still JSON") {
  zeroth::StepReport step;
  step.loss = std::nanf("");
  step.grad_norm = std::numeric_limits<float>::infinity();
  step.nonfinite = true;
  step.skipped = true;
  step.step_ms = 1;
  auto const record = json::parse(step_record(step, 1));
  CHECK(record["loss"].is_null());
  CHECK(record["grad_norm"].is_null());
  CHECK(record["nonfinite"] == true);
  CHECK(record["skipped"] == true);
}

TEST_CASE("memory is one line of JSON per rank") {
  RankMemory const memory{{1, 2, 3, 4, 5}, {10, 20, 30, 40, 50}};
  auto const line = memory_record(2, memory);
  CHECK(line.ends_with("}\n"));
  CHECK(json::parse(line) == json::parse(R"({"record":"memory","rank":2,
          "planned":{"parameters":1,"gradients":2,"optimizer":3,"slots":4,"scratch":5,"total":15},
          "measured_peak":{"parameters":10,"gradients":20,"optimizer":30,"slots":40,"scratch":50,"total":150}})"));
}
