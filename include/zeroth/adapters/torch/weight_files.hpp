// SPDX-License-Identifier: Apache-2.0
/// Tensors in safetensors files that are not parameters: a module's buffers, and tensors to ignore.
#pragma once
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "zeroth/adapters/torch/units.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/config/document.hpp"
#include "zeroth/tool/core/input_file.hpp"
#include "zeroth/tool/engine/safetensors_header.hpp"

namespace zeroth::torch_adapter::detail {

/// The libtorch type of an element type of the format, if there is one.
[[nodiscard]] inline std::optional<at::ScalarType> stored_type(std::string const& name) {
  static std::unordered_map<std::string, at::ScalarType> const types{
      {"F32", at::kFloat}, {"F64", at::kDouble}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"I64", at::kLong},
      {"I32", at::kInt},   {"I16", at::kShort},  {"I8", at::kChar},  {"U8", at::kByte},       {"BOOL", at::kBool}};
  auto const at = types.find(name);
  return at == types.end() ? std::nullopt : std::optional{at->second};
}

class WeightFiles {
 public:
  /// `name` is TrainerOptions::name, and `left_out` selects names of tensors.
  WeightFiles(::torch::nn::Module const& root, std::function<std::string(std::string const&)> const& name,
              std::vector<UnitPolicy> left_out)
      : root_{&root}, left_out_{std::move(left_out)} {
    for (auto const& item : root.named_buffers()) {
      buffers_.emplace(name ? name(item.key()) : item.key(), item.value());
    }
  }
  /// Whether a file may contain a tensor of this name that is not a parameter.
  [[nodiscard]] bool may_have(std::string const& name) const {
    return buffers_.contains(name) ||
           std::ranges::any_of(left_out_, [&](UnitPolicy const& policy) { return policy(name, *root_); });
  }
  /// Sets the buffers that the file contains, converted to their types. Throws ContractError, and changes none, if the
  /// shape of one differs, and SystemError if the file cannot be read.
  void set_buffers(std::filesystem::path const& path) const try {
    InputFile const file{path};
    config::Problems problems;
    auto const text = engine::header_text(file);
    auto const header =
        engine::read_header(config::read_document(text.value_or(""), problems, config::Comments::refused), problems);
    if (!problems.empty()) {  // the engine has read a whole one
      throw SystemError{problems.text(path.string() + " has changed since its parameters were read")};
    }
    std::vector<std::pair<at::Tensor, at::Tensor>> values;
    for (auto const& tensor : header.tensors) {
      auto const at = buffers_.find(tensor.name);
      if (at == buffers_.end()) {
        continue;
      }
      auto const type = stored_type(tensor.dtype);
      ZEROTH_EXPECTS(type && at::IntArrayRef{tensor.shape} == at->second.sizes(),
                     path.string() + ": buffer \"" + tensor.name + "\" is " + tensor.dtype + " " +
                         c10::str(at::IntArrayRef{tensor.shape}) + ", the module's is " +
                         c10::str(at->second.scalar_type(), " ", at->second.sizes()));
      auto& value = values.emplace_back(at->second, at::empty(tensor.shape, at::TensorOptions{}.dtype(*type))).second;
      file.read(engine::data_begin(*text) + tensor.offset,
                {static_cast<std::byte*>(value.data_ptr()), static_cast<std::size_t>(tensor.bytes)});
    }
    at::NoGradGuard const no_grad;
    for (auto& [buffer, value] : values) {
      buffer.copy_(value);
    }
  } catch (Unreadable const& error) {
    throw SystemError{path.string() + ": " + error.what()};
  }

 private:
  ::torch::nn::Module const* root_;
  std::vector<UnitPolicy> left_out_;
  std::unordered_map<std::string, at::Tensor> buffers_;
};

}  // namespace zeroth::torch_adapter::detail
