#include "model_folder.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <zeroth/core/error.hpp>

#include "core/whole_file.hpp"

namespace gpt {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The config.json of a model folder.
class HubConfig {
 public:
  explicit HubConfig(fs::path const& folder) : file_{folder / "config.json"} {
    std::ifstream in{file_, std::ios::binary};
    if (!in) {
      throw zeroth::ConfigError{fmt::format("--init {}: cannot read {}", folder.string(), file_.string())};
    }
    json_ = Json::parse(std::string{std::istreambuf_iterator<char>{in}, {}}, nullptr, false);
    if (!json_.is_object()) {
      throw zeroth::ConfigError{fmt::format("{}: is not a JSON object", file_.string())};
    }
  }

  [[nodiscard]] std::int64_t extent(char const* key, std::int64_t lowest = 1) const {
    if (!json_.contains(key) || !json_[key].is_number_integer() || json_[key].get<std::int64_t>() < lowest) {
      throw zeroth::ConfigError{fmt::format("{}: {} is {}, must be an integer of at least {}", file_.string(), key,
                                            json_.contains(key) ? json_[key].dump() : "missing", lowest)};
    }
    return json_[key].get<std::int64_t>();
  }
  /// Refuses another value than `only`, which is also Hugging Face's default, or null if `null_too`.
  void expect(char const* key, Json const& only, bool null_too = false) const {
    if (json_.contains(key) && json_[key] != only && !(null_too && json_[key].is_null())) {
      throw zeroth::ConfigError{
          fmt::format("{}: {} is {}, train_gpt computes only {}", file_.string(), key, json_[key].dump(), only.dump())};
    }
  }

 private:
  fs::path file_;
  Json json_;
};

Shape read_shape(fs::path const& folder) {
  HubConfig const config{folder};
  Shape const shape{.layers = config.extent("n_layer"),
                    .heads = config.extent("n_head"),
                    .channels = config.extent("n_embd"),
                    .context = config.extent("n_positions"),
                    .vocabulary = config.extent("vocab_size", 256)};
  config.expect("model_type", "gpt2");
  config.expect("n_inner", 4 * shape.channels, true);
  config.expect("activation_function", "gelu_new");
  config.expect("layer_norm_epsilon", 1e-5);
  config.expect("scale_attn_weights", true);
  config.expect("scale_attn_by_inverse_layer_idx", false);
  config.expect("add_cross_attention", false);
  config.expect("tie_word_embeddings", true);
  return shape;
}

std::string to_json(Shape const& shape) {
  Json const config{{"activation_function", "gelu_new"},
                    {"architectures", {"GPT2LMHeadModel"}},
                    {"attn_pdrop", 0.0},
                    {"bos_token_id", nullptr},
                    {"embd_pdrop", 0.0},
                    {"eos_token_id", nullptr},
                    {"initializer_range", 0.02},
                    {"layer_norm_epsilon", 1e-5},
                    {"model_type", "gpt2"},
                    {"n_embd", shape.channels},
                    {"n_head", shape.heads},
                    {"n_inner", nullptr},
                    {"n_layer", shape.layers},
                    {"n_positions", shape.context},
                    {"reorder_and_upcast_attn", false},
                    {"resid_pdrop", 0.0},
                    {"scale_attn_by_inverse_layer_idx", false},
                    {"scale_attn_weights", true},
                    {"tie_word_embeddings", true},
                    {"torch_dtype", "float32"},
                    {"use_cache", true},
                    {"vocab_size", shape.vocabulary}};
  return config.dump(2) + "\n";
}

}  // namespace

Shape resolve_shape(ShapeOptions const& asked, fs::path const& init) {
  Shape shape;
  auto const settle = [&](char const* option, std::optional<std::int64_t> const& wanted, std::int64_t& extent) {
    if (!init.empty() && wanted && *wanted != extent) {
      throw zeroth::ConfigError{
          fmt::format("{} {} contradicts --init {}, which has {}", option, *wanted, init.string(), extent)};
    }
    extent = wanted.value_or(extent);
  };
  if (!init.empty()) {
    shape = read_shape(init);
  }
  settle("--layers", asked.layers, shape.layers);
  settle("--heads", asked.heads, shape.heads);
  settle("--channels", asked.channels, shape.channels);
  settle("--context", asked.context, shape.context);
  settle("--vocabulary", asked.vocabulary, shape.vocabulary);
  if (shape.channels % shape.heads != 0) {
    throw zeroth::ConfigError{
        fmt::format("--channels {} is not a multiple of --heads {}", shape.channels, shape.heads)};
  }
  return shape;
}

ModelFolder::ModelFolder(fs::path path) : path_{std::move(path)} {
  auto const named = path_.has_filename() ? path_ : path_.parent_path();  // "a/" is "a"
  target_ = zeroth::followed(named);
  std::error_code error;
  if (auto const there = fs::status(target_, error); fs::exists(there) && !fs::is_directory(there)) {
    throw zeroth::ConfigError{fmt::format("{}: is to be a model folder, and is {}", path_.string(),
                                          fs::is_regular_file(there) ? "a file" : "a device or a pipe")};
  }
  auto const partial = zeroth::partial_beside(target_);
  fs::create_directories(partial.parent_path(), error);
  if (!fs::create_directory(partial, error)) {
    throw zeroth::SystemError{fmt::format("{}: cannot be made: {}", path_.string(), error.message())};
  }
  partial_ = partial;
}

ModelFolder::~ModelFolder() {
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
}

void ModelFolder::publish(Shape const& shape) {
  zeroth::write_whole_file("model configuration", partial_ / "config.json", to_json(shape));
  std::error_code error;
  fs::rename(partial_, target_, error);  // takes the place of an empty folder, but of no other
  if (error == std::errc::directory_not_empty || error == std::errc::file_exists) {
    error.clear();
    for (char const* name : {"config.json", weights_name}) {
      if (!error) {
        fs::rename(partial_ / name, target_ / name, error);
      }
    }
  }
  for (auto const& folder : {target_, fs::absolute(target_).parent_path()}) {
    if (int const not_synced = zeroth::sync_folder(folder); not_synced != 0 && !error) {
      error = {not_synced, std::generic_category()};
    }
  }
  if (error) {
    throw zeroth::SystemError{fmt::format("{}: cannot be put into place: {}", path_.string(), error.message())};
  }
}

}  // namespace gpt
