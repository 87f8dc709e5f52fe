// SPDX-License-Identifier: Apache-2.0
/// The cuDNN of this process, loaded on first use: programs start without it.
#pragma once
#include <cudnn.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace gpt::gpu {

/// The first version whose backward of attention can be deterministic on Blackwell.
inline constexpr std::size_t oldest_cudnn = 91800;
static_assert(
    CUDNN_VERSION >= oldest_cudnn,
    "train_gpt needs cuDNN 9.18.0 or newer, and this cudnn.h is older: set ZEROTH_CUDNN_HEADERS to the folder "
    "of a newer one, or configure with -DZEROTH_ENABLE_CUDNN=OFF");
/// The first version that this build can use: it must not be older than the headers.
inline constexpr std::size_t least_cudnn = std::max<std::size_t>(oldest_cudnn, CUDNN_VERSION);

/// The library, and those of its functions that cudnn-frontend does not call.
struct Cudnn {
  void* library = nullptr;  ///< As dlopen() returns it.
  std::size_t version = 0;  ///< As cudnnGetVersion() returns it.
  decltype(&::cudnnCreate) create = nullptr;
  decltype(&::cudnnDestroy) destroy = nullptr;
  decltype(&::cudnnSetStream) set_stream = nullptr;
  decltype(&::cudnnGetErrorString) error_string = nullptr;
};

/// The file that was found at build time, or else libcudnn.so.9 as the system finds it. The first call loads it. Any
/// thread may call; once a call has returned, no call throws. Throws SystemError as load_cudnn() does.
[[nodiscard]] Cudnn const& cudnn();

/// Loads the first of `files` that can be loaded and is new enough; it is never unloaded. Throws SystemError with the
/// reason for each file that was not taken. A libcudnn that was too old may make a newer one behind it look as old.
[[nodiscard]] Cudnn load_cudnn(std::vector<std::string> const& files);

/// "9.28.1"
[[nodiscard]] std::string describe_cudnn_version(std::size_t version);

}  // namespace gpt::gpu
