// SPDX-License-Identifier: Apache-2.0
#include "gpu/batch_upload.hpp"

#include <algorithm>
#include <span>

#include "token_order.hpp"
#include "zeroth/core/error.hpp"

namespace gpt::gpu {

BatchUpload::BatchUpload(std::int64_t tokens, std::int64_t vocabulary, std::int64_t in_flight)
    : tokens_{tokens}, vocabulary_{vocabulary}, in_flight_{in_flight}, host_{in_flight * words()} {
  device_.resize(1, words());
  losses_.resize(1, in_flight);
}

DeviceBatch BatchUpload::enqueue(Batch const& batch, cudaStream_t stream) {
  ZEROTH_EXPECTS(std::ssize(batch.inputs) == tokens_ && std::ssize(batch.targets) == tokens_,
                 "a micro-batch of another size");
  auto const place = next_++ % in_flight_;
  std::span const words_of_it{host_.data() + place * words(), static_cast<std::size_t>(words())};
  auto const tokens = static_cast<std::size_t>(tokens_);
  std::ranges::copy(batch.inputs, words_of_it.begin());
  std::ranges::copy(batch.targets, words_of_it.begin() + tokens_);
  sort_by_token(batch.inputs, words_of_it.subspan(2 * tokens, tokens), words_of_it.subspan(3 * tokens));
  expect(cudaMemcpyAsync(device_.data(), words_of_it.data(), words_of_it.size_bytes(), cudaMemcpyDefault, stream),
         "cudaMemcpyAsync of a micro-batch");
  auto const* const at = device_.data();
  return {at, at + tokens_, at + 2 * tokens_, at + 3 * tokens_, tokens_, losses_.data() + place};
}

}  // namespace gpt::gpu
