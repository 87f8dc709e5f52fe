// SPDX-License-Identifier: Apache-2.0
/// The tensors of an operation that libtorch is about to run.
#pragma once
#include <ATen/record_function.h>
#include <torch/torch.h>

namespace zeroth::torch_adapter::detail {

/// An operation's inputs. RecordFunction::inputs() asserts, in programs compiled without NDEBUG, on a flag that
/// libtorch does not maintain because it is compiled with NDEBUG. An explicit instantiation may name private members.
template <auto member>
struct InputsOf {
  friend auto inputs_of(at::RecordFunction const& operation) -> c10::ArrayRef<c10::IValue const> {
    return operation.*member;
  }
};
template struct InputsOf<&at::RecordFunction::inputs_>;
auto inputs_of(at::RecordFunction const& operation) -> c10::ArrayRef<c10::IValue const>;

/// Calls f(tensor) for every tensor among `inputs`, also in lists.
template <class F>
void each_tensor_of(c10::ArrayRef<c10::IValue const> inputs, F const& f) {
  for (auto const& input : inputs) {
    if (input.isTensor()) {
      f(input.toTensor());
    } else if (input.isTensorList() || input.isList()) {
      for (c10::IValue const& element : input.toListRef()) {
        if (!element.isTensor()) {
          break;
        }
        f(element.toTensor());
      }
    }
  }
}

}  // namespace zeroth::torch_adapter::detail
