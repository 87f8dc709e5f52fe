// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_export.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <zeroth/checkpoint/file_reader.hpp>
#include <zeroth/core/error.hpp>
#include <zeroth/engine/work_bar.hpp>
#include <zeroth/tool/config/document.hpp>
#include <zeroth/tool/core/whole_file.hpp>
#include <zeroth/tool/engine/safetensors_writer.hpp>

#include "checkpoint_facts.hpp"
#include "readable.hpp"
#include "safe_json.hpp"
#include "saved_elements.hpp"
#include "weight_shards.hpp"
#include "whole_folder.hpp"

namespace zeroth::tools {
namespace {

namespace fs = std::filesystem;
using checkpoint::Reader;

constexpr Dtype exported_dtypes[] = {Dtype::fp32, Dtype::bf16, Dtype::fp16};

std::optional<Dtype> dtype_named(std::string const& name) {
  auto const* const found = std::ranges::find(exported_dtypes, name, [](Dtype dtype) { return name_of(dtype); });
  return found == std::end(exported_dtypes) ? std::nullopt : std::optional{*found};
}

/// The weights of each space: the masters or their averages, or the frozen states.
std::vector<SavedElements> weights_in(Reader& reader, bool ema) {
  std::vector<SavedElements> weights;
  auto const& contents = reader.record().contents;
  auto const parts = contents.by_name();
  for (auto const& space : contents.spaces) {
    auto const* const name = !space.trainable ? "frozen" : ema ? optim::ema_name : "master";
    auto const state = std::ranges::find(space.states, name, &checkpoint::SavedState::name);
    if (state == space.states.end() && ema) {
      throw SystemError{fmt::format("checkpoint {}: --ema: unit {} has no averages; its run had no zeroth.ema.decay",
                                    reader.folder().string(), config::in_quotes(space.unit))};
    }
    if (state == space.states.end()) {
      throw SystemError{fmt::format("checkpoint {}: unit {} has no state {}, from which weights are read",
                                    reader.folder().string(), config::in_quotes(space.unit), name)};
    }
    for (auto const& param : space.params) {
      if (param.comes_first()) {
        weights.emplace_back(reader, parts.find(param.name), static_cast<std::size_t>(state - space.states.begin()));
      }
    }
  }
  return weights;
}

/// The dtype of the masters or averages, or of frozen states if nothing is trained; fp32, which holds all values, if
/// there are several.
Dtype dtype_of_masters(std::vector<SavedElements> const& weights) {
  std::optional<Dtype> found;
  for (auto const* const name : {"master", optim::ema_name, "frozen"}) {
    for (auto const& each : weights) {
      if (each.state().name == name) {
        found = !found || *found == each.dtype() ? each.dtype() : Dtype::fp32;
      }
    }
    if (found) {
      return *found;
    }
  }
  return Dtype::fp32;
}

Dtype dtype_asked_for(std::string const& asked, Reader const& reader, std::vector<SavedElements> const& weights) {
  if (asked == "master") {
    return dtype_of_masters(weights);
  }
  auto const name = asked == "compute" ? compute_dtype_of(reader.record()) : asked;
  if (auto const dtype = dtype_named(name)) {
    return *dtype;
  }
  throw SystemError{
      fmt::format("checkpoint {}: --dtype {}: its stage file says data_types.param_dtype {}; allowed: fp32, bf16, fp16",
                  reader.folder().string(), asked, config::in_quotes(name))};
}

void write_weights(fs::path const& file, std::span<SavedElements> weights, Dtype dtype, WorkBar& bar) {
  std::vector<engine::NamedShape> tensors;
  for (auto const& each : weights) {
    tensors.push_back({each.param().name, each.param().shape, dtype});
  }
  engine::SafetensorsWriter writer{file, tensors};
  std::vector<std::byte> bytes;
  std::vector<float> values;
  for (auto& each : weights) {
    for (std::int64_t first = 0; first < each.count(); first += elements_at_once) {
      auto const count = std::min(elements_at_once, each.count() - first);
      auto const elements = each.read(first, count, bytes);
      values.resize(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = value_at(elements, each.dtype(), i);
      }
      writer.append(values);
      bar.add(count * bytes_of(dtype));
    }
  }
  writer.commit();
}

void write_weight_folder(ExportOptions const& options, std::vector<SavedElements>& weights, Exported& result,
                         WorkBar& bar) {
  std::vector<std::int64_t> bytes;
  std::vector<std::string> names;
  for (auto const& each : weights) {
    bytes.push_back(each.count() * bytes_of(result.dtype));
    names.push_back(each.param().name);
  }
  WholeFolder folder{options.to};
  auto const shards = divide(bytes, options.max_shard_bytes);
  for (auto const& [name, first, last] : shards) {
    write_weights(folder.partial() / name, std::span{weights}.subspan(first, last - first), result.dtype, bar);
    result.files.push_back(name);
  }
  if (shards.size() > 1) {
    write_whole_file("index of weights", folder.partial() / weight_index_name,
                     weight_index(names, shards, result.bytes));
    result.files.emplace_back(weight_index_name);
  }
  folder.publish();
}

}  // namespace

Exported export_weights(fs::path const& checkpoint, ExportOptions const& options) {
  Reader reader{checkpoint};
  auto const& record = reader.record();
  for (int place = 0; place < record.contents.places; ++place) {
    reader.check_file(place);  // checked before anything is written
  }
  auto weights = weights_in(reader, options.ema);
  Exported result{checkpoint, options.to, record.position.step, dtype_asked_for(options.dtype, reader, weights), 0, 0,
                  0,          {}};
  result.params = std::ssize(weights);
  for (auto const& each : weights) {
    result.elements += each.count();
  }
  result.bytes = result.elements * bytes_of(result.dtype);
  WorkBar bar{"export", result.bytes};
  if (options.to.extension() == ".safetensors") {
    write_weights(options.to, weights, result.dtype, bar);
    result.files.push_back(options.to.filename().string());
  } else {
    write_weight_folder(options, weights, result, bar);
  }
  return result;
}

std::string as_text(Exported const& exported) {
  return fmt::format("{}: step {}: {} in {} as {} to {}: {} in {}\n", exported.from.string(), grouped(exported.step),
                     counted(exported.elements, "parameter"), counted(exported.params, "tensor"),
                     name_of(exported.dtype), exported.to.string(), readable_bytes(exported.bytes),
                     counted(std::ssize(exported.files), "file"));
}

std::string as_json(Exported const& exported) {
  return safe_text({{"from", exported.from.string()},
                    {"to", exported.to.string()},
                    {"step", exported.step},
                    {"dtype", name_of(exported.dtype)},
                    {"tensors", exported.params},
                    {"elements", exported.elements},
                    {"bytes", exported.bytes},
                    {"files", exported.files}});
}

}  // namespace zeroth::tools
