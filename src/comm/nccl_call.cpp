#include "comm/nccl_call.hpp"

#include <fmt/format.h>

#include <string_view>

#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

std::string describe_version(int code) { return fmt::format("{}.{}.{}", code / 10'000, code / 100 % 100, code % 100); }

}  // namespace

void expect_nccl() {
  int version = 0;
  if (auto const result = ncclGetVersion(&version); result != ncclSuccess) {
    throw SystemError{fmt::format("ncclGetVersion: {}", ncclGetErrorString(result))};
  }
  if (version < oldest_nccl) {
    throw SystemError{fmt::format(
        "libnccl is version {}, and {} is the oldest that works (built with {}): is another one found first "
        "(LD_LIBRARY_PATH)?",
        describe_version(version), describe_version(oldest_nccl), describe_version(NCCL_VERSION_CODE))};
  }
}

std::string describe_nccl(char const* call, std::string const& communicator, int gpu, ncclResult_t result,
                          ncclComm_t handle) {
  char const* const last = ncclGetLastError(handle);
  std::string_view const more = last == nullptr ? std::string_view{} : std::string_view{last};
  return fmt::format("{} of communicator '{}' on cuda:{}: {}{}", call, communicator, gpu, ncclGetErrorString(result),
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
  }
  return ncclUint8;
}

}  // namespace zeroth::comm
