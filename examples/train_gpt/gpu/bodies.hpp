// SPDX-License-Identifier: Apache-2.0
/// All bodies, and the types that they are compiled for.
#pragma once
#include "gpu/attention_kernels.hpp"
#include "gpu/kernels/columns.hpp"
#include "gpu/kernels/cross_entropy.hpp"
#include "gpu/kernels/cross_entropy_part.hpp"
#include "gpu/kernels/dropout.hpp"
#include "gpu/kernels/embedding.hpp"
#include "gpu/kernels/gelu.hpp"
#include "gpu/kernels/layer_norm.hpp"
#include "gpu/launch.hpp"

// A macro, because templates must be instantiated by name.
#define GPT_GPU_LAUNCH(...) template cudaError_t launch<__VA_ARGS__>(cudaStream_t, __VA_ARGS__ const&, std::int64_t);

#define GPT_GPU_LAUNCH_ATTENTION(T, width, Reads)           \
  GPT_GPU_LAUNCH(AttentionForward<T, width, Reads>)         \
  GPT_GPU_LAUNCH(AttentionBackwardQueries<T, width, Reads>) \
  GPT_GPU_LAUNCH(AttentionBackwardKeys<T, width, Reads>)

#define GPT_GPU_LAUNCH_TENSOR_ATTENTION(T, width, Reads)          \
  GPT_GPU_LAUNCH(TensorAttentionForward<T, width, Reads>)         \
  GPT_GPU_LAUNCH(TensorAttentionBackwardQueries<T, width, Reads>) \
  GPT_GPU_LAUNCH(TensorAttentionBackwardKeys<T, width, Reads>)

/// With `kernels`, one of the two above, for all widths and layouts.
#define GPT_GPU_LAUNCH_ATTENTIONS(kernels, T)                                                             \
  kernels(T, 32, ReadsAll) kernels(T, 64, ReadsAll) kernels(T, 128, ReadsAll) kernels(T, 32, ReadsListed) \
      kernels(T, 64, ReadsListed) kernels(T, 128, ReadsListed)

#define GPT_GPU_LAUNCH_MATH(T)            \
  GPT_GPU_LAUNCH(Embed<T>)                \
  GPT_GPU_LAUNCH(EmbedPart<T>)            \
  GPT_GPU_LAUNCH(AddRows<T>)              \
  GPT_GPU_LAUNCH(LayerNormForward<T>)     \
  GPT_GPU_LAUNCH(LayerNormAgain<T>)       \
  GPT_GPU_LAUNCH(LayerNormBackward<T>)    \
  GPT_GPU_LAUNCH(ChunkSums<T>)            \
  GPT_GPU_LAUNCH(Gelu<T>)                 \
  GPT_GPU_LAUNCH(DropOut<T>)              \
  GPT_GPU_LAUNCH(CrossEntropyBackward<T>) \
  GPT_GPU_LAUNCH(AttentionAlong<T>)       \
  GPT_GPU_LAUNCH_ATTENTIONS(GPT_GPU_LAUNCH_ATTENTION, T)

#define GPT_GPU_LAUNCH_GRADIENT(T, G)       \
  GPT_GPU_LAUNCH(EmbedTokensBackward<T, G>) \
  GPT_GPU_LAUNCH(EmbedPositionsBackward<T, G>)

/// Instantiate launch() where its template is visible, in namespace gpt::gpu.
#define GPT_GPU_LAUNCH_FP32             \
  GPT_GPU_LAUNCH_MATH(float)            \
  GPT_GPU_LAUNCH_GRADIENT(float, float) \
  GPT_GPU_LAUNCH(FoldChunks<float>)     \
  GPT_GPU_LAUNCH(CrossEntropy)          \
  GPT_GPU_LAUNCH(LargestOfPart)         \
  GPT_GPU_LAUNCH(SumsOfPart)            \
  GPT_GPU_LAUNCH(MeanLoss)
#define GPT_GPU_LAUNCH_16_BITS(T)                               \
  GPT_GPU_LAUNCH_ATTENTIONS(GPT_GPU_LAUNCH_TENSOR_ATTENTION, T) \
  GPT_GPU_LAUNCH_MATH(T)                                        \
  GPT_GPU_LAUNCH_GRADIENT(T, T)                                 \
  GPT_GPU_LAUNCH_GRADIENT(T, float)                             \
  GPT_GPU_LAUNCH(FoldChunks<T>)
