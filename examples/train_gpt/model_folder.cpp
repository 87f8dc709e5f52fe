// SPDX-License-Identifier: Apache-2.0
#include "model_folder.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include <zeroth/core/error.hpp>
#include <zeroth/tool/config/document.hpp>
#include <zeroth/tool/core/input_file.hpp>
#include <zeroth/tool/core/whole_file.hpp>

namespace gpt {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using namespace std::string_view_literals;

/// The config.json of a model folder.
class HubConfig {
 public:
  using Value = std::variant<std::string_view, double, bool>;

  explicit HubConfig(fs::path const& folder) : file_{folder / "config.json"} {
    try {
      zeroth::config::Problems problems;
      object_ = zeroth::config::read_document(zeroth::read_text(file_), problems, zeroth::config::Comments::refused);
      zeroth::config::throw_if_any(file_.string(), problems);
    } catch (zeroth::Unreadable const& error) {
      throw zeroth::ConfigError{fmt::format("--init {}: {} {}", folder.string(), file_.string(), error.what())};
    }
  }

  [[nodiscard]] std::int64_t extent(char const* key, Extents allowed) const {
    auto const* const member = find(object_, key);
    auto const* const number = member == nullptr ? nullptr : std::get_if<zeroth::config::Number>(&member->node.value);
    if (number == nullptr || !number->integer || !allowed.contain(*number->integer)) {
      throw zeroth::ConfigError{fmt::format("{}: {} is {}, must be a whole number from {} to {}", file_.string(), key,
                                            member == nullptr ? "missing" : show(member->node), allowed.least,
                                            allowed.most)};
    }
    return *number->integer;
  }
  [[nodiscard]] bool flag(char const* key, bool otherwise) const {
    auto const* const member = find(object_, key);
    auto const* const value = member == nullptr ? &otherwise : std::get_if<bool>(&member->node.value);
    if (value == nullptr) {
      throw zeroth::ConfigError{
          fmt::format("{}: {} is {}, must be true or false", file_.string(), key, show(member->node))};
    }
    return *value;
  }
  /// Throws for a value other than `only`, which is also Hugging Face's default, or null if `null_too`.
  void expect(char const* key, Value const& only, bool null_too = false) const {
    auto const* const member = find(object_, key);
    if (member == nullptr || is(member->node, only) ||
        (null_too && std::holds_alternative<std::nullptr_t>(member->node.value))) {
      return;
    }
    throw zeroth::ConfigError{fmt::format("{}: {} is {}, train_gpt computes only {}", file_.string(), key,
                                          show(member->node), std::visit(Shown{}, only))};
  }

 private:
  struct Shown {
    std::string operator()(std::string_view text) const { return fmt::format("\"{}\"", text); }
    std::string operator()(double number) const { return fmt::format("{}", number); }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
  };
  static bool is(zeroth::config::Node const& node, Value const& value) {
    if (auto const* const text = std::get_if<std::string>(&node.value)) {
      return value == Value{std::string_view{*text}};
    }
    if (auto const* const number = std::get_if<zeroth::config::Number>(&node.value)) {
      return value == Value{number->real};
    }
    auto const* const flag = std::get_if<bool>(&node.value);
    return flag != nullptr && value == Value{*flag};
  }

  fs::path file_;
  zeroth::config::Object object_;
};

Shape read_shape(fs::path const& folder) {
  HubConfig const config{folder};
  Shape const shape{.layers = config.extent("n_layer", layers_allowed),
                    .heads = config.extent("n_head", width_allowed),
                    .channels = config.extent("n_embd", width_allowed),
                    .context = config.extent("n_positions", width_allowed),
                    .vocabulary = config.extent("vocab_size", vocabulary_allowed),
                    .untied_head = !config.flag("tie_word_embeddings", true)};
  config.expect("model_type", "gpt2"sv);
  config.expect("n_inner", static_cast<double>(4 * shape.channels), true);
  config.expect("activation_function", "gelu_new"sv);
  config.expect("layer_norm_epsilon", 1e-5);
  config.expect("scale_attn_weights", true);
  config.expect("scale_attn_by_inverse_layer_idx", false);
  config.expect("add_cross_attention", false);
  return shape;
}

/// PyTorch's name.
char const* torch_name(zeroth::Dtype dtype) {
  return dtype == zeroth::Dtype::bf16 ? "bfloat16" : dtype == zeroth::Dtype::fp16 ? "float16" : "float32";
}

std::string to_json(Shape const& shape, zeroth::Dtype dtype) {
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
                    {"tie_word_embeddings", !shape.untied_head},
                    {"torch_dtype", torch_name(dtype)},
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
  if (!init.empty() && asked.untied_head && !shape.untied_head) {
    throw zeroth::ConfigError{
        fmt::format("--untied-head contradicts --init {}, whose head is the token embedding", init.string())};
  }
  shape.untied_head = shape.untied_head || asked.untied_head;
  if (shape.channels % shape.heads != 0) {
    throw zeroth::ConfigError{
        fmt::format("--channels {} is not a multiple of --heads {}", shape.channels, shape.heads)};
  }
  return shape;
}

ModelFolder::ModelFolder(fs::path path) : path_{std::move(path)} {
  auto const named = path_.has_filename() ? path_ : path_.parent_path();  // "a/" is the same as "a"
  target_ = zeroth::followed(named);
  std::error_code error;
  if (auto const there = fs::status(target_, error); fs::exists(there) && !fs::is_directory(there)) {
    throw zeroth::ConfigError{fmt::format("{}: must be a model folder, but is {}", path_.string(),
                                          fs::is_regular_file(there) ? "a file" : "a device or a pipe")};
  }
  auto const partial = zeroth::partial_beside(target_);
  fs::create_directories(partial.parent_path(), error);
  if (!fs::create_directory(partial, error)) {
    throw zeroth::SystemError{fmt::format("{}: cannot be created: {}", path_.string(), error.message())};
  }
  partial_ = partial;
}

ModelFolder::~ModelFolder() {
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
}

void ModelFolder::publish(Shape const& shape, zeroth::Dtype dtype) {
  zeroth::write_whole_file("model configuration", partial_ / "config.json", to_json(shape, dtype));
  std::error_code error;
  fs::rename(partial_, target_, error);  // replaces an empty folder, but no other
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
