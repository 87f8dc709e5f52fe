/// All bodies, and the types that they are compiled for.
#pragma once
#include "kernels/attention.hpp"
#include "kernels/columns.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/embedding.hpp"
#include "kernels/gelu.hpp"
#include "kernels/layer_norm.hpp"
#include "launch.hpp"

// A macro, since templates are instantiated by name alone.
#define GPT_CUDA_LAUNCH(...) \
  template cudaError_t launch<__VA_ARGS__>(cudaStream_t, __VA_ARGS__ const&, std::int64_t);

#define GPT_CUDA_LAUNCH_ATTENTION(T, width)           \
  GPT_CUDA_LAUNCH(AttentionForward<T, width>)         \
  GPT_CUDA_LAUNCH(AttentionBackwardQueries<T, width>) \
  GPT_CUDA_LAUNCH(AttentionBackwardKeys<T, width>)

#define GPT_CUDA_LAUNCH_MATH(T)                \
  GPT_CUDA_LAUNCH(Embed<T>)                    \
  GPT_CUDA_LAUNCH(LayerNormForward<T>)         \
  GPT_CUDA_LAUNCH(LayerNormAgain<T>)           \
  GPT_CUDA_LAUNCH(LayerNormBackward<T>)        \
  GPT_CUDA_LAUNCH(ChunkSums<LayerNormTerms<T>>) \
  GPT_CUDA_LAUNCH(ChunkSums<ValueTerms<T>>)    \
  GPT_CUDA_LAUNCH(Gelu<T>)                     \
  GPT_CUDA_LAUNCH(CrossEntropyBackward<T>)     \
  GPT_CUDA_LAUNCH(AttentionAlong<T>)           \
  GPT_CUDA_LAUNCH_ATTENTION(T, 32)             \
  GPT_CUDA_LAUNCH_ATTENTION(T, 64)             \
  GPT_CUDA_LAUNCH_ATTENTION(T, 128)

#define GPT_CUDA_LAUNCH_GRADIENT(T, G)       \
  GPT_CUDA_LAUNCH(EmbedTokensBackward<T, G>) \
  GPT_CUDA_LAUNCH(EmbedPositionsBackward<T, G>)

/// Defines launch() for all of them, where its template is visible. In namespace gpt::cuda.
#define GPT_CUDA_LAUNCH_ALL                              \
  GPT_CUDA_LAUNCH_MATH(float)                            \
  GPT_CUDA_LAUNCH_MATH(zeroth::bf16)                     \
  GPT_CUDA_LAUNCH_MATH(zeroth::fp16)                     \
  GPT_CUDA_LAUNCH_GRADIENT(float, float)                 \
  GPT_CUDA_LAUNCH_GRADIENT(zeroth::bf16, zeroth::bf16)   \
  GPT_CUDA_LAUNCH_GRADIENT(zeroth::bf16, float)          \
  GPT_CUDA_LAUNCH_GRADIENT(zeroth::fp16, zeroth::fp16)   \
  GPT_CUDA_LAUNCH_GRADIENT(zeroth::fp16, float)          \
  GPT_CUDA_LAUNCH(FoldChunks<float>)                     \
  GPT_CUDA_LAUNCH(FoldChunks<zeroth::bf16>)              \
  GPT_CUDA_LAUNCH(FoldChunks<zeroth::fp16>)              \
  GPT_CUDA_LAUNCH(CrossEntropy)                          \
  GPT_CUDA_LAUNCH(MeanLoss)
