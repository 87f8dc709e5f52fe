// SPDX-License-Identifier: Apache-2.0
/// config.json of models with exactly known parameters.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "source_support.hpp"
#include "support/catch.hpp"

namespace zeroth::tools {
namespace {

struct Known {
  char const* name;
  char const* config;
  std::int64_t parameters;
};

// The relevant keys of the models' own files; counts are from the models' safetensors headers.
Known const known[] = {
    {"gpt2", R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
                 "vocab_size": 50257, "n_inner": null})",
     124'439'808},
    {"Llama-2-7b", R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
                       "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
                       "num_key_value_heads": 32, "vocab_size": 32000, "tie_word_embeddings": false})",
     6'738'415'616},
    {"Llama-2-70b", R"({"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
                        "max_position_embeddings": 4096, "num_attention_heads": 64, "num_hidden_layers": 80,
                        "num_key_value_heads": 8, "vocab_size": 32000})",
     68'976'648'192},
    {"Meta-Llama-3-8B", R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
                            "max_position_embeddings": 8192, "num_attention_heads": 32, "num_hidden_layers": 32,
                            "num_key_value_heads": 8, "vocab_size": 128256, "attention_bias": false})",
     8'030'261'248},
    {"Llama-3.2-1B", R"({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "head_dim": 64,
                         "max_position_embeddings": 131072, "num_attention_heads": 32, "num_hidden_layers": 16,
                         "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": true})",
     1'235'814'400},
    {"Mistral-7B-v0.1", R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
                            "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32,
                            "num_key_value_heads": 8, "vocab_size": 32000, "tie_word_embeddings": false})",
     7'241'732'096},
    {"Qwen2.5-0.5B", R"({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
                         "max_position_embeddings": 32768, "num_attention_heads": 14, "num_hidden_layers": 24,
                         "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": true})",
     494'032'768},
    {"Qwen2-7B", R"({"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
                     "max_position_embeddings": 131072, "num_attention_heads": 28, "num_hidden_layers": 28,
                     "num_key_value_heads": 4, "vocab_size": 152064, "tie_word_embeddings": false})",
     7'615'616'512},
    {"Qwen3-0.6B", R"({"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "head_dim": 128,
                       "max_position_embeddings": 40960, "num_attention_heads": 16, "num_hidden_layers": 28,
                       "num_key_value_heads": 8, "vocab_size": 151936, "tie_word_embeddings": true,
                       "attention_bias": false})",
     596'049'920},
    {"Qwen3-8B", R"({"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "head_dim": 128,
                     "max_position_embeddings": 40960, "num_attention_heads": 32, "num_hidden_layers": 36,
                     "num_key_value_heads": 8, "vocab_size": 151936, "tie_word_embeddings": false})",
     8'190'735'360},
};

TEST_CASE("A config.json gives exactly the model's known parameters") {
  Files const files;
  for (auto const& [name, config, parameters] : known) {
    INFO(name);
    CHECK(count_of(read(files.write("config.json", config))) == parameters);
    CHECK(count_of(read(files.path())) == parameters);  // the folder works too
  }
}

TEST_CASE("A config.json gives units by layer, the work in them, and the context") {
  Files const files;
  auto const tied = read(files.write("config.json", known[4].config));
  CHECK(tied.context == 131072);
  CHECK(tied.model.description().units.size() == 18);
  CHECK(unit_names(tied)[1] == "model.layers.0");
  CHECK(unit_names(tied).back() == "model.head");
  CHECK(tied.model.description().units.back().ties.size() == 1);
  CHECK(tied.facts[0].matmul_count == 0);
  CHECK(tied.facts[1].matmul_count == 2048 * (2048 + 2 * 512 + 2048 + 3 * 8192));
  CHECK(tied.facts[1].attention_channels == 32 * 64);
  CHECK(tied.facts.back().matmul_count == 128256 * 2048);

  auto const untied = read(files.write("config.json", known[3].config));
  CHECK(untied.model.description().units.back().ties.empty());
  CHECK(untied.facts.back().matmul_count == 128256 * 4096);
}

TEST_CASE("Keys of a config.json change the parameters like in transformers") {
  Files const files;
  auto const count = [&](char const* type, std::string const& more) {
    return count_of(
        read(files.write("config.json", fmt::format(R"({{"model_type": "{}", "hidden_size": 64, "intermediate_size": 96,
          "max_position_embeddings": 10, "num_attention_heads": 4, "num_hidden_layers": 1, "num_key_value_heads": 2,
          "vocab_size": 100, "head_dim": 16{}}})",
                                                    type, more))));
  };
  std::int64_t const plain = 2 * 100 * 64 + 3 * 64 + 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96;
  CHECK(count("llama", "") == plain);
  CHECK(count("llama", R"(, "tie_word_embeddings": true)") == plain - 100 * 64);
  CHECK(count("llama", R"(, "attention_bias": true)") == plain + 64 + 2 * 32 + 64);
  CHECK(count("llama", R"(, "mlp_bias": true)") == plain + 2 * 96 + 64);
  CHECK(count("mistral", R"(, "attention_bias": true)") == plain);  // Mistral has no such key
  CHECK(count("qwen2", "") == plain + 64 + 2 * 32);
  CHECK(count("qwen3", "") == plain + 2 * 16);
}

TEST_CASE("An unknown model_type is refused with those that are known") {
  Files const files;
  CHECK(refusal_of(files.write("config.json", R"({"model_type": "gemma3"})")) ==
        R"(config.json: model_type is "gemma3"; allowed: "gpt2", "llama", "mistral", "qwen2" or "qwen3"; of another )"
        "model give its .safetensors file, or a list of its parameters");
}

TEST_CASE("An invalid config.json is rejected with file, key, value and what is allowed") {
  Files const files;
  auto const refusal = [&](std::string const& changes) {
    auto config = nlohmann::json::parse(known[1].config);
    config.merge_patch(nlohmann::json::parse(changes));
    return refusal_of(files.write("config.json", config.dump()));
  };
  std::string const extent = "; allowed: a whole number from 1 to 1000000000";
  CHECK(refusal(R"({"hidden_size": "big"})") == "config.json: hidden_size is \"big\"" + extent);
  CHECK(refusal(R"({"hidden_size": 0})") == "config.json: hidden_size is 0" + extent);
  CHECK(refusal(R"({"hidden_size": -1})") == "config.json: hidden_size is -1" + extent);
  CHECK(refusal(R"({"hidden_size": 1.5})") == "config.json: hidden_size is 1.5" + extent);
  CHECK(refusal(R"({"hidden_size": null})") == "config.json: hidden_size is missing" + extent);  // merging removes it
  CHECK(refusal(R"({"vocab_size": 1e30})") == "config.json: vocab_size is 1e+30" + extent);
  CHECK(refusal(R"({"num_hidden_layers": 20000})") == "config.json: num_hidden_layers is 20000; allowed: at most 9998");
  CHECK(refusal(R"({"num_attention_heads": 33})") ==
        "config.json: num_attention_heads is 33; allowed: a divisor of hidden_size, 4096, or a head_dim");
  CHECK(refusal(R"({"num_key_value_heads": 5})") ==
        "config.json: num_key_value_heads is 5; allowed: a divisor of num_attention_heads, 32");
  CHECK(refusal(R"({"tie_word_embeddings": 1})") == "config.json: tie_word_embeddings is 1; allowed: true or false");
  CHECK(refusal(R"({"model_type": 7})") == "config.json: model_type is 7; allowed: a string that is not empty");
  CHECK(contains(refusal(R"({"model_type": "mistral", "num_key_value_heads": null})"),
                 "config.json: num_key_value_heads is missing; allowed: a whole number"));
  CHECK(contains(
      refusal(
          R"({"hidden_size": 1000000000, "num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": 1000000000})"),
      "config.json: parameter \"model.embed_tokens.weight\" is 1000000000 x 1000000000; allowed: "));
  CHECK(refusal_of(files.write("config.json",
                               R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_positions": 1024,
                                   "vocab_size": 50257, "add_cross_attention": true})")) ==
        "config.json: add_cross_attention is true; allowed: false");
}

}  // namespace
}  // namespace zeroth::tools
