// SPDX-License-Identifier: Apache-2.0
/// Models on disk in the format of Hugging Face's GPT2LMHeadModel: config.json and model.safetensors.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include <zeroth/core/dtype.hpp>

#include "shape.hpp"

namespace gpt {

inline constexpr char const* weights_name = "model.safetensors";

/// The shape requested on the command line; nullopt: the folder's value, or the default.
struct ShapeOptions {
  std::optional<std::int64_t> layers{}, heads{}, channels{}, context{}, vocabulary{};
  bool untied_head = false;
};

/// The shape to train: that of the model folder `init` unless that is empty. Throws ConfigError if an option
/// contradicts the folder, train_gpt does not support the folder's model, or the heads do not divide the channels.
[[nodiscard]] Shape resolve_shape(ShapeOptions const& asked, std::filesystem::path const& init);

/// A model folder under construction: `weights()` is in a folder next to it with a unique name, and publish() moves
/// everything into place; it follows a symbolic link to a folder. The rank that writes makes it before training, so
/// that an unwritable place ends the job before it starts.
class ModelFolder {
 public:
  /// Throws SystemError if `path` cannot be created, ConfigError if it is not a folder.
  explicit ModelFolder(std::filesystem::path path);
  ModelFolder(ModelFolder const&) = delete;
  ModelFolder& operator=(ModelFolder const&) = delete;
  ~ModelFolder();  ///< Removes what was not published.

  /// The place to write the weights to.
  [[nodiscard]] std::filesystem::path weights() const { return partial_ / weights_name; }
  /// Writes config.json with the weights' `dtype`, and replaces both files of the folder. Other files in it stay.
  void publish(Shape const& shape, zeroth::Dtype dtype = zeroth::Dtype::fp32);

 private:
  std::filesystem::path path_, target_, partial_;
};

}  // namespace gpt
