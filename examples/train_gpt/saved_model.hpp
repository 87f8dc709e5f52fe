// SPDX-License-Identifier: Apache-2.0
/// Saves a run's model.
#pragma once
#include <filesystem>
#include <optional>
#include <utility>
#include <zeroth/comm/job.hpp>

#include "model_folder.hpp"

namespace gpt {

/// Creates the model folder on rank 0 at the start, so that an unwritable place is found before hours of training.
class SavedModel {
 public:
  SavedModel(zeroth::Job const& job, std::filesystem::path path) : path_{std::move(path)} {
    if (job.rank() == 0 && !path_.empty()) {
      folder_.emplace(path_);
    }
  }
  /// Collective. Does nothing if no folder was requested. `dtype`: Settings::saved_weights.
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
