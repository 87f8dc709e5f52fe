// SPDX-License-Identifier: Apache-2.0
/// Models on disk as Hugging Face's GPT2LMHeadModel writes and reads them: config.json and model.safetensors.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include <zeroth/core/dtype.hpp>

#include "shape.hpp"

namespace gpt {

inline constexpr char const* weights_name = "model.safetensors";

/// What the command line asks for; none: whatever the folder has, or the default.
struct ShapeOptions {
  std::optional<std::int64_t> layers{}, heads{}, channels{}, context{}, vocabulary{};
  bool untied_head = false;
};

/// The shape to train: that of the model folder `init` unless that is empty. Throws ConfigError if an option
/// contradicts the folder, the folder's model is not one that train_gpt computes, or the heads do not divide the
/// channels.
[[nodiscard]] Shape resolve_shape(ShapeOptions const& asked, std::filesystem::path const& init);

/// A model folder in the making: `weights()` is in a folder beside it, of a name that no other job has, and publish()
/// puts all into place; a symbolic link to a folder is followed. Held by the rank that writes; made before training, so
/// that a place that cannot be written ends the job before it starts.
class ModelFolder {
 public:
  /// Throws SystemError if `path` cannot be made, ConfigError if it is something else than a folder.
  explicit ModelFolder(std::filesystem::path path);
  ModelFolder(ModelFolder const&) = delete;
  ModelFolder& operator=(ModelFolder const&) = delete;
  ~ModelFolder();  ///< Removes what was not published.

  /// Where the weights are to be written.
  [[nodiscard]] std::filesystem::path weights() const { return partial_ / weights_name; }
  /// Writes config.json, which says that the weights are of `dtype`, and replaces both files of the folder. Other files
  /// in it stay.
  void publish(Shape const& shape, zeroth::Dtype dtype = zeroth::Dtype::fp32);

 private:
  std::filesystem::path path_, target_, partial_;
};

}  // namespace gpt
