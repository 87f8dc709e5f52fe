// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint export`: writes the weights of a checkpoint in the format of Hugging Face's libraries.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <zeroth/core/dtype.hpp>

namespace zeroth::tools {

struct ExportOptions {
  std::filesystem::path to;                     ///< A file *.safetensors, which is replaced, or a new or empty folder.
  std::string dtype = "master";                 ///< Or compute, fp32, bf16, fp16.
  bool ema = false;                             ///< The averages of zeroth.ema.decay, and not the masters.
  std::optional<std::int64_t> max_shard_bytes;  ///< Maximum size of a folder's files; nullopt: one file.
};

struct Exported {
  std::filesystem::path from, to;
  std::int64_t step = 0;
  Dtype dtype = Dtype::fp32;
  std::int64_t params = 0, elements = 0, bytes = 0;
  std::vector<std::string> files;  ///< File names in the folder, or the name of the single file.
};

/// Exports masters and frozen parameters from the folder of a checkpoint, under their names, each once. Nothing is
/// visible until all of it is on the disk. Uses about 24 MiB for any model. Throws SystemError.
[[nodiscard]] Exported export_weights(std::filesystem::path const& checkpoint, ExportOptions const& options);
[[nodiscard]] std::string as_text(Exported const& exported);
[[nodiscard]] std::string as_json(Exported const& exported);

}  // namespace zeroth::tools
