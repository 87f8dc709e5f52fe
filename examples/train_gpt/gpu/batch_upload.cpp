// SPDX-License-Identifier: Apache-2.0
#include "gpu/batch_upload.hpp"

#include <algorithm>
#include <span>

#include "token_order.hpp"
#include "zeroth/core/error.hpp"

namespace gpt::gpu {

BatchUpload::BatchUpload(std::int64_t tokens, std::int64_t vocabulary, std::int64_t micro_steps)
    : tokens_{tokens}, vocabulary_{vocabulary}, micro_steps_{micro_steps}, host_{2 * micro_steps * words()} {
  device_.resize(micro_steps, words());
  losses_.resize(1, micro_steps);
}

DeviceBatch BatchUpload::enqueue(Batch const& batch, cudaStream_t stream) {
  ZEROTH_EXPECTS(std::ssize(batch.inputs) == tokens_ && std::ssize(batch.targets) == tokens_,
                 "a micro-batch of another size");
  auto const number = next_++;
  auto const place = number % micro_steps_;
  std::span const words_of_it{host_.data() + number % (2 * micro_steps_) * words(), static_cast<std::size_t>(words())};
  auto const tokens = static_cast<std::size_t>(tokens_);
  std::ranges::copy(batch.inputs, words_of_it.begin());
  std::ranges::copy(batch.targets, words_of_it.begin() + tokens_);
  sort_by_token(batch.inputs, words_of_it.subspan(2 * tokens, tokens), words_of_it.subspan(3 * tokens));
  auto* const at = device_.data() + place * device_.stride();
  expect(cudaMemcpyAsync(at, words_of_it.data(), words_of_it.size_bytes(), cudaMemcpyDefault, stream),
         "cudaMemcpyAsync of a micro-batch");
  return {at, at + tokens_, at + 2 * tokens_, at + 3 * tokens_, tokens_, losses_.data() + place};
}

}  // namespace gpt::gpu
