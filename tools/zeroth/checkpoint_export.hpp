// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint export`: the weights of a checkpoint as Hugging Face's libraries read them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <zeroth/core/dtype.hpp>

namespace zeroth::tools {

struct ExportOptions {
  std::filesystem::path to;                     ///< A file *.safetensors, which is replaced, or a folder, new or empty.
  std::string dtype = "master";                 ///< Or compute, fp32, bf16, fp16.
  std::optional<std::int64_t> max_shard_bytes;  ///< Of a folder's files; none: it has one.
};

struct Exported {
  std::filesystem::path from, to;
  std::int64_t step = 0;
  Dtype dtype = Dtype::fp32;
  std::int64_t params = 0, elements = 0, bytes = 0;
  std::vector<std::string> files;  ///< In the folder; of one file its name.
};

/// Of the folder of a checkpoint: masters and frozen parameters, under their names, each once. There when all of it is
/// on the disk, or not at all. Takes some 24 MiB, whatever the model. Throws SystemError.
[[nodiscard]] Exported export_weights(std::filesystem::path const& checkpoint, ExportOptions const& options);
[[nodiscard]] std::string as_text(Exported const& exported);
[[nodiscard]] std::string as_json(Exported const& exported);

}  // namespace zeroth::tools
