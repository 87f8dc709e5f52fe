// SPDX-License-Identifier: Apache-2.0
/// A module's buffers, such as the statistics of a BatchNorm. Engines do not know them.
#pragma once
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "zeroth/adapters/torch/device.hpp"
#include "zeroth/adapters/torch/generators.hpp"
#include "zeroth/adapters/torch/units.hpp"
#include "zeroth/comm/collectives.hpp"
#include "zeroth/engine/checkpoint.hpp"

namespace zeroth::torch_adapter::detail {

/// All buffers of a root module except those that `left_out` selects. If ranks differ, rank 0's buffers are the
/// model's, as in DDP: they are saved, and all ranks evaluate with them.
class Buffers {
 public:
  /// `among` is null if there is only one rank.
  Buffers(::torch::nn::Module const& root, std::vector<UnitPolicy> const& left_out, Collectives* among)
      : among_{among} {
    for (auto const& item : root.named_buffers()) {
      auto const name = item.key();
      expect_on_cpu("buffer \"" + name + "\"", item.value().device());
      bool const known =
          std::ranges::any_of(buffers_, [&](auto const& other) { return other.tensor.is_same(item.value()); });
      if (!known && std::ranges::none_of(left_out, [&](auto const& policy) { return policy(name, root); })) {
        buffers_.push_back({name, item.value()});
      }
    }
  }

  /// Copies rank 0's buffers to all ranks. Collective; waits.
  void broadcast() {
    if (among_ == nullptr || buffers_.empty()) {
      return;
    }
    at::NoGradGuard const no_grad;
    std::vector<at::Tensor> rows;
    std::vector<comm::Collective> list;
    for (auto const& [name, tensor] : buffers_) {
      auto const row = rows.emplace_back(tensor.contiguous());
      list.push_back({comm::Operation::broadcast, row.data_ptr(), row.data_ptr(),
                      static_cast<std::int64_t>(row.nbytes()), Dtype::byte, 0});
    }
    among_->start(list, "buffers").wait();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i].is_same(buffers_[i].tensor)) {
        buffers_[i].tensor.copy_(rows[i]);
      }
    }
  }

  /// Returns what a checkpoint stores for the program: all buffers and `generators`, as torch.save() writes them,
  /// followed by the program's own bytes. Collective; waits. Throws ContractError if that exceeds what a checkpoint
  /// holds.
  [[nodiscard]] std::vector<std::byte> pack(std::span<std::byte const> program, Generators const* generators) const {
    c10::Dict<std::string, at::Tensor> values;
    if (generators != nullptr) {
      generators->save_into(values);
    }
    for (auto const& [name, tensor] : buffers_) {
      values.insert(name, tensor);
    }
    auto const pickled = ::torch::pickle_save(c10::IValue{values});
    std::vector<std::byte> bytes(head_bytes + pickled.size() + program.size());
    auto const size = static_cast<std::uint64_t>(pickled.size());
    std::memcpy(bytes.data(), mark, mark_bytes);
    std::memcpy(bytes.data() + mark_bytes, &size, sizeof size);
    std::memcpy(bytes.data() + head_bytes, pickled.data(), pickled.size());
    std::ranges::copy(program, bytes.begin() + static_cast<std::ptrdiff_t>(head_bytes + pickled.size()));
    constexpr auto most_bytes = static_cast<std::size_t>(SaveOptions::largest_program_state);
    ZEROTH_EXPECTS(bytes.size() <= most_bytes,
                   "save(): the module's buffers and the ranks' generators take " + std::to_string(pickled.size()) +
                       " bytes, and the program's own state " + std::to_string(program.size()) +
                       "; a checkpoint has room for " + std::to_string(most_bytes - head_bytes) +
                       " together. The largest buffer is " + largest() +
                       "; those that never change, such as a mask, belong into TrainerOptions::buffers_not_saved; "
                       "TrainerOptions::generators_saved leaves out generators");
    return bytes;
  }
  /// The inverse of pack(): sets all buffers, and leaves the program's own bytes in `bytes`. Returns all that was
  /// saved. Throws ContractError, and changes no buffer, if the saved buffers do not match the module's.
  Saved unpack(std::vector<std::byte>& bytes) const {
    ZEROTH_EXPECTS(bytes.size() >= head_bytes && std::memcmp(bytes.data(), mark, mark_bytes) == 0,
                   "restore(): the checkpoint has no buffers: another program than one with a torch Trainer saved it");
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data() + mark_bytes, sizeof size);
    ZEROTH_EXPECTS(size <= bytes.size() - head_bytes, "restore(): the checkpoint's buffers are cut off");
    auto const* const first = reinterpret_cast<char const*>(bytes.data() + head_bytes);
    auto const saved = ::torch::pickle_load(std::vector<char>(first, first + size)).toGenericDict();
    std::vector<at::Tensor> values;
    for (auto const& [name, tensor] : buffers_) {
      auto const at = saved.find(name);
      ZEROTH_EXPECTS(at != saved.end(), "restore(): the checkpoint has no buffer \"" + name + "\", and the module has");
      auto const& value = values.emplace_back(at->value().toTensor());
      ZEROTH_EXPECTS(value.sizes() == tensor.sizes() && value.scalar_type() == tensor.scalar_type(),
                     "restore(): buffer \"" + name + "\" is " + described(value) +
                         " in the checkpoint, the module's is " + described(tensor));
    }
    std::size_t count = 0;
    for (auto const& item : saved) {
      count += Generators::has(item.key().toStringRef()) ? 0U : 1U;
    }
    ZEROTH_EXPECTS(count == buffers_.size(), "restore(): the checkpoint has " + std::to_string(count) +
                                                 " buffers, the module has " + std::to_string(buffers_.size()));
    at::NoGradGuard const no_grad;
    for (std::size_t i = 0; i < values.size(); ++i) {
      at::Tensor{buffers_[i].tensor}.copy_(values[i]);
    }
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(head_bytes + size));
    return saved;
  }

 private:
  struct Buffer {
    std::string name;
    at::Tensor tensor;
  };
  static constexpr char mark[] = "zttorch1";
  static constexpr std::size_t mark_bytes = 8, head_bytes = mark_bytes + sizeof(std::uint64_t);

  [[nodiscard]] static std::string described(at::Tensor const& tensor) {
    return c10::str(tensor.scalar_type(), " ", tensor.sizes());
  }
  [[nodiscard]] std::string largest() const {
    auto const at = std::ranges::max_element(buffers_, {}, [](auto const& buffer) { return buffer.tensor.nbytes(); });
    return at == buffers_.end() ? "none" : "\"" + at->name + "\", " + described(at->tensor);
  }

  std::vector<Buffer> buffers_;
  Collectives* among_;
};

}  // namespace zeroth::torch_adapter::detail
