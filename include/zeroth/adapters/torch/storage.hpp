// SPDX-License-Identifier: Apache-2.0
/// The memory of a libtorch parameter that belongs to an engine: a slot or unsharded memory while its unit is open,
/// otherwise nothing, with an error message of ours for a reader.
#pragma once
#include <torch/torch.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "zeroth/core/dtype.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::torch_adapter::detail {

/// libtorch's name of a dtype.
[[nodiscard]] inline at::ScalarType scalar_type(Dtype dtype) noexcept {
  return dtype == Dtype::bf16 ? at::kBFloat16 : dtype == Dtype::fp16 ? at::kHalf : at::kFloat;
}

/// The allocator that identifies the storages of one trainer. It allocates nothing.
class Owner final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t /*bytes*/) override {
    throw ContractError{"libtorch asks for a parameter's own memory, which belongs to its engine"};
  }
  void copy_data(void* to, void const* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  bool trains = false;  ///< Whether a Trainer exists.
};

/// The storage of a parameter and all its views. Views that autograd saves follow it wherever it points.
class LentStorage final : public c10::StorageImpl {
 public:
  /// Starts closed. `owner` identifies it; `index` is the parameter's index among those of `owner`.
  LentStorage(std::int64_t bytes, std::shared_ptr<c10::Allocator> owner, std::size_t index, std::string why_closed)
      : StorageImpl{use_byte_size_t{}, c10::SymInt{bytes}, c10::DataPtr{nullptr, at::kCPU}, owner.get(), false},
        owner_{std::move(owner)},
        index_{index},
        why_closed_{std::move(why_closed)} {
    close();
  }
  [[nodiscard]] std::size_t index() const noexcept { return index_; }
  void open(void* data) {
    clear_data_ptr_access_error_msg_();
    set_data_ptr_noswap(c10::DataPtr{data, at::kCPU});
  }
  /// From now on reading it throws a c10::Error that says why it is closed.
  void close() { close(why_closed_); }
  /// Closes it with a different reason.
  void close(std::string const& why) {
    set_data_ptr_noswap(c10::DataPtr{nullptr, at::kCPU});
    release_data_and_set_meta_custom_data_ptr_error_msg_(why);
  }

 private:
  std::shared_ptr<c10::Allocator> owner_;  // whose address is compared as long as this lives
  std::size_t index_;
  std::string why_closed_;
};

/// Makes a row-major tensor on such a storage. The storage is closed only afterwards, because set_() inspects it.
[[nodiscard]] inline at::Tensor tensor_on(c10::intrusive_ptr<LentStorage> storage, at::IntArrayRef sizes,
                                          at::ScalarType type) {
  at::NoGradGuard const no_grad;
  auto tensor = at::empty({0}, at::TensorOptions{}.dtype(type));
  auto* const closed = storage.get();
  closed->open(nullptr);
  tensor.set_(c10::Storage{c10::intrusive_ptr<c10::StorageImpl>{std::move(storage)}}, 0, sizes,
              c10::contiguous_strides(sizes));
  closed->close();
  return tensor;
}

/// The storage of `tensor` if it belongs to `owner`, otherwise null.
[[nodiscard]] inline LentStorage* lent_storage(at::Tensor const& tensor, Owner const& owner) noexcept {
  auto const* const impl = tensor.unsafeGetTensorImpl();
  if (!tensor.defined() || !impl->has_storage()) {
    return nullptr;
  }
  auto* const storage = impl->unsafe_storage().unsafeGetStorageImpl();
  return storage != nullptr && storage->allocator() == &owner ? static_cast<LentStorage*>(storage) : nullptr;
}

}  // namespace zeroth::torch_adapter::detail
