// SPDX-License-Identifier: Apache-2.0
/// Where a run leaves its model.
#pragma once
#include <filesystem>
#include <optional>
#include <utility>
#include <zeroth/comm/job.hpp>

#include "model_folder.hpp"

namespace gpt {

/// Holds the place of a model folder on rank 0 from the start, so that one that cannot be written is found before hours
/// of training.
class SavedModel {
 public:
  SavedModel(zeroth::Job const& job, std::filesystem::path path) : path_{std::move(path)} {
    if (job.rank() == 0 && !path_.empty()) {
      folder_.emplace(path_);
    }
  }
  /// Collective. Nothing if no folder was asked for. `dtype`: Settings::saved_weights.
  template <class Engine>
  void save(Engine& engine, Shape const& shape, zeroth::Dtype dtype) {
    if (path_.empty()) {
      return;
    }
    engine.save_weights(folder_ ? folder_->weights() : path_ / weights_name);  // only rank 0 writes
    if (folder_) {
      folder_->publish(shape, dtype);
    }
  }

 private:
  std::filesystem::path path_;
  std::optional<ModelFolder> folder_;
};

}  // namespace gpt
