// SPDX-License-Identifier: Apache-2.0
/// Tensors in safetensors files that engines do not know: a module's buffers, parameters that the Trainer ignores, and
/// tensors that are left out.
#pragma once
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "zeroth/adapters/torch/added_tensors.hpp"
#include "zeroth/adapters/torch/ignored.hpp"
#include "zeroth/adapters/torch/units.hpp"
#include "zeroth/comm/collectives.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/core/input_file.hpp"
#include "zeroth/tool/core/whole_file.hpp"

namespace zeroth::torch_adapter::detail {

class WeightFiles {
 public:
  /// `name` is TrainerOptions::name, `left_out` selects names of tensors, and `not_saved` buffers.
  WeightFiles(::torch::nn::Module const& root, std::function<std::string(std::string const&)> const& name,
              std::vector<UnitPolicy> left_out, std::vector<UnitPolicy> const& not_saved, Ignored const& ignored)
      : root_{&root}, left_out_{std::move(left_out)} {
    auto const add = [&](std::string const& own_name, at::Tensor const& tensor, bool saved) {
      auto const in_file = name ? name(own_name) : own_name;
      tensors_.emplace(in_file, tensor);
      if (saved && std::ranges::none_of(saved_, [&](auto const& other) { return other.second.is_same(tensor); })) {
        saved_.emplace_back(in_file, tensor);
      }
    };
    for (auto const& item : root.named_buffers()) {
      add(item.key(), item.value(),
          std::ranges::none_of(not_saved, [&](UnitPolicy const& policy) { return policy(item.key(), root); }));
    }
    for (auto const& [own_name, tensor] : ignored.named()) {
      add(own_name, tensor, true);
    }
  }
  /// Writes a file of all parameters, by `write_parameters(file)`, and of rank 0's buffers and ignored parameters.
  /// Collective; waits. If it cannot be written, all ranks throw the same SystemError. `among` is null on one rank.
  template <class F>
  void save(std::filesystem::path const& path, int rank, Collectives* among, F const& write_parameters) const {
    if (saved_.empty()) {
      return write_parameters(path);
    }
    struct Removed {
      std::filesystem::path file;
      ~Removed() {
        std::error_code ignored;
        std::filesystem::remove(file, ignored);
      }
    };
    Removed const parameters{partial_beside(path)};  // rank 0's
    write_parameters(parameters.file);
    std::array<char, 1024> problem{};
    if (rank == 0) {
      try {
        write_with(parameters.file, path, saved_);
      } catch (std::exception const& error) {
        std::string_view words = error.what();
        words.remove_prefix(words.starts_with(rank_prefix()) ? rank_prefix().size() : 0);
        words.copy(problem.data(), problem.size() - 1);
      }
    }
    if (among != nullptr) {
      among
          ->start({comm::Operation::broadcast, problem.data(), problem.data(), std::ssize(problem), Dtype::byte, 0},
                  "save_weights")
          .wait();
    }
    if (problem.front() != 0) {
      throw SystemError{std::string{"save_weights() failed and changed nothing: "} + problem.data()};
    }
  }
  /// Whether a file may contain a tensor of this name that is not a parameter.
  [[nodiscard]] bool may_have(std::string const& name) const {
    return tensors_.contains(name) ||
           std::ranges::any_of(left_out_, [&](UnitPolicy const& policy) { return policy(name, *root_); });
  }
  /// Sets the buffers and ignored parameters that the file contains, converted to their types. Throws ContractError,
  /// and changes none, if the shape of one differs, and SystemError if the file cannot be read.
  void set_tensors(std::filesystem::path const& path) const try {
    InputFile const file{path};
    auto const [header, begin] = header_and_data_begin(file, path);
    std::vector<std::pair<at::Tensor, at::Tensor>> values;
    for (auto const& tensor : header.tensors) {
      auto const at = tensors_.find(tensor.name);
      if (at == tensors_.end()) {
        continue;
      }
      auto const type = stored_type(tensor.dtype);
      ZEROTH_EXPECTS(type && at::IntArrayRef{tensor.shape} == at->second.sizes(),
                     path.string() + ": " + (at->second.requires_grad() ? "parameter" : "buffer") + " \"" +
                         tensor.name + "\" is " + tensor.dtype + " " + c10::str(at::IntArrayRef{tensor.shape}) +
                         ", the module's is " + c10::str(at->second.scalar_type(), " ", at->second.sizes()));
      auto& value = values.emplace_back(at->second, at::empty(tensor.shape, at::TensorOptions{}.dtype(*type))).second;
      file.read(begin + tensor.offset,
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
  std::unordered_map<std::string, at::Tensor> tensors_;
  NamedTensors saved_;
};

}  // namespace zeroth::torch_adapter::detail
