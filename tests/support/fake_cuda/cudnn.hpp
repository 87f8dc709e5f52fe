// SPDX-License-Identifier: Apache-2.0
/// A cuDNN for tests on machines without a GPU, found by cudnn-frontend instead of the library: its backend API, and
/// causal attention, forward and backward, in fp64 as work of the streams of fake_cuda.hpp. Programs that link it must
/// export their symbols.
///
/// Descriptors keep whatever they are given. A graph's tensors are known by their UIDs, which gpu/cudnn_attention.cpp
/// gives, and have the extents and strides that the graph says. It checks what cuDNN does not: that all tensors and the
/// workspace lie in memory of the stream's GPU, tensors at multiples of 16 bytes; that the graph has the scale
/// 1 / sqrt(width) and a mask; and that the handle is used on its GPU, by the thread that created it. It writes garbage
/// to the whole workspace.
/// For the backward it offers two engines, of which the first is not deterministic and gives other results.
#pragma once
#include <cstdint>

namespace zeroth::testing::fake_cuda {

/// Sets whether the library is found. Initially true.
void install_cudnn(bool is_there);
/// Sets whether there is a deterministic engine for the backward. Initially true.
void offer_deterministic(bool is_there);
/// The number of plans finalized, and of plans executed or captured, since the start.
[[nodiscard]] std::int64_t cudnn_plans();
[[nodiscard]] std::int64_t cudnn_runs();

}  // namespace zeroth::testing::fake_cuda
