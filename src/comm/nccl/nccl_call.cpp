// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_call.hpp"

#include <fmt/format.h>

#include <cstring>
#include <string_view>

namespace zeroth::comm {

std::string describe_nccl(char const* call, std::string const& communicator, int gpu, ncclResult_t result,
                          ncclComm_t handle) {
  char const* const last = nccl().last_error(handle);
  std::string_view const more = last == nullptr ? std::string_view{} : std::string_view{last};
  return fmt::format("{} of communicator '{}' on cuda:{}: {}{}", call, communicator, gpu, nccl().error_string(result),
                     more.empty() ? std::string{} : fmt::format(" ({})", more));
}

ncclDataType_t nccl_type(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::fp32: return ncclFloat32;
    case Dtype::bf16: return ncclBfloat16;
    case Dtype::fp16: return ncclFloat16;
    case Dtype::fp64: return ncclFloat64;
    case Dtype::int32: return ncclInt32;
    case Dtype::int64: return ncclInt64;
    case Dtype::byte: return ncclUint8;
    case Dtype::int8: return ncclInt8;
    case Dtype::fp32_location:
    case Dtype::int32_location:
    case Dtype::fp64_location: return ncclInt64;
  }
  return ncclUint8;
}

std::size_t nccl_count(std::int64_t count, Dtype dtype) noexcept {
  return static_cast<std::size_t>(dtype == Dtype::fp64_location ? 2 * count : count);
}

ncclRedOp_t nccl_operator(Reduce reduce) noexcept {
  switch (reduce) {
    case Reduce::product: return ncclProd;
    case Reduce::maximum: return ncclMax;
    case Reduce::minimum: return ncclMin;
    case Reduce::average: return ncclAvg;
    default: return ncclSum;
  }
}

std::array<std::byte, sizeof(double)> nccl_scalar(double factor, Dtype dtype) noexcept {
  std::array<std::byte, sizeof(double)> bytes{};
  auto const store = [&bytes](auto const& element) { std::memcpy(bytes.data(), &element, sizeof element); };
  switch (dtype) {
    case Dtype::bf16: store(from_float<bf16>(static_cast<float>(factor))); break;
    case Dtype::fp16: store(from_float<fp16>(static_cast<float>(factor))); break;
    case Dtype::fp64: store(factor); break;
    default: store(static_cast<float>(factor)); break;
  }
  return bytes;
}

}  // namespace zeroth::comm
