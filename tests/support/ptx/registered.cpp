// SPDX-License-Identifier: Apache-2.0
#include "support/ptx/registered.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "support/ptx/decode.hpp"
#include "support/ptx/fat_binary.hpp"

namespace zeroth::testing::ptx {
namespace {

std::string readable(std::string const& name) {
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> const text{abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free};
  return status == 0 ? text.get() : name;
}

/// One of the program's kernels, decoded at its first launch.
struct Registered {
  KernelText text;
  std::shared_ptr<Kernel const> kernel;
  bool has_run = false;
  Traffic traffic;
};

class Registry {
 public:
  static Registry& get() {
    static Registry registry;
    return registry;
  }

  void add_module(std::string const& module) {
    std::lock_guard const lock{mutex_};
    for (auto& [name, text] : kernels_of(module)) {
      kernels_[name].text = text;
    }
  }
  void add_function(void const* host, std::string const& name) {
    std::lock_guard const lock{mutex_};
    names_[host] = name;
  }
  /// Null if the function does not stand for a kernel.
  std::shared_ptr<Kernel const> kernel(void const* host) {
    std::lock_guard const lock{mutex_};
    auto const name = names_.find(host);
    auto const found = name == names_.end() ? kernels_.end() : kernels_.find(name->second);
    if (found == kernels_.end()) {
      return nullptr;
    }
    auto& registered = found->second;
    if (!registered.kernel) {
      registered.kernel = std::make_shared<Kernel const>(decode(registered.text));
    }
    return registered.kernel;
  }
  void note_run(std::string const& name, Traffic const& traffic) {
    std::lock_guard const lock{mutex_};
    auto& registered = kernels_.at(name);
    registered.has_run = true;
    registered.traffic += traffic;
  }
  std::map<std::string, Traffic> traffic() {
    std::lock_guard const lock{mutex_};
    std::map<std::string, Traffic> all;
    for (auto const& [name, registered] : kernels_) {
      all[readable(name)] = registered.traffic;
    }
    return all;
  }
  std::vector<std::string> names(bool all) {
    std::lock_guard const lock{mutex_};
    std::vector<std::string> result;
    for (auto const& [name, registered] : kernels_) {
      if (all || !registered.has_run) {
        result.push_back(readable(name));
      }
    }
    return result;
  }
  void edit(std::string const& kernel, std::function<std::string(std::string)> const& edit) {
    std::lock_guard const lock{mutex_};
    for (auto& [name, registered] : kernels_) {
      if (readable(name).find(kernel) != std::string::npos) {
        KernelText const text{edit(registered.text.text), registered.text.line};
        registered.kernel = std::make_shared<Kernel const>(decode(text));
        return;
      }
    }
    throw std::runtime_error{"PTX: no kernel has the name " + kernel};
  }

 private:
  std::mutex mutex_;
  std::map<void const*, std::string> names_;
  std::map<std::string, Registered> kernels_;
};

std::vector<std::byte> arguments_of(Kernel const& kernel, void* const* arguments) {
  std::vector<std::byte> bytes(kernel.parameter_bytes);
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    std::memcpy(bytes.data() + kernel.parameters[i].offset, arguments[i], kernel.parameters[i].bytes);
  }
  return bytes;
}

cudaError_t launch(void const* host, dim3 grid, dim3 threads, void* const* arguments, std::size_t dynamic,
                   cudaStream_t stream) {
  auto const kernel = Registry::get().kernel(host);
  if (!kernel) {
    return cudaErrorInvalidDeviceFunction;
  }
  bool const flat = grid.y == 1 && grid.z == 1 && threads.y == 1 && threads.z == 1 && dynamic == 0;
  if (!flat || grid.x == 0 || threads.x == 0) {
    return cudaErrorInvalidConfiguration;
  }
  Launch how{grid.x, threads.x, arguments_of(*kernel, arguments), behaviour(), {}};
  return enqueue(stream, host, [kernel, how = std::move(how)](FindMemory const& find_memory) mutable {
    how.find_memory = find_memory;
    auto const traffic = run(*kernel, how);
    Registry::get().note_run(kernel->name, traffic);
  });
}

/// Aborts on an exception, because functions that nvcc's objects call while they are loaded cannot throw.
template <class F>
void or_abort(F const& function) {
  try {
    function();
  } catch (std::exception const& error) {
    std::cerr << error.what() << '\n';
    std::abort();
  }
}

struct Configuration {
  dim3 grid, threads;
  std::size_t shared = 0;
  void* stream = nullptr;
};
thread_local Configuration configuration;

}  // namespace

Behaviour& behaviour() {
  static Behaviour how;
  return how;
}
bool is_kernel(void const* host) { return Registry::get().kernel(host) != nullptr; }
std::string const& architecture() {
  static std::string const name = [] {
    char const* const wanted = std::getenv("ZEROTH_PTX_ARCHITECTURE");
    return std::string{wanted == nullptr ? "sm_80" : wanted};
  }();
  return name;
}
std::vector<std::string> kernel_names() { return Registry::get().names(true); }
std::vector<std::string> never_run() { return Registry::get().names(false); }
std::map<std::string, Traffic> traffic() { return Registry::get().traffic(); }
void edit_kernel(std::string const& kernel, std::function<std::string(std::string)> const& edit) {
  Registry::get().edit(kernel, edit);
}

}  // namespace zeroth::testing::ptx

using zeroth::testing::ptx::architecture;
using zeroth::testing::ptx::configuration;
using zeroth::testing::ptx::or_abort;
using zeroth::testing::ptx::Registry;

// nvcc chose these names.
extern "C" {

void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, char const* host, char* device, char const* name, int thread_limit,
                            uint3* thread, uint3* block, dim3* threads, dim3* blocks, int* warp_size);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 threads, std::size_t shared, void* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* threads, std::size_t* shared, void* stream);
cudaError_t __cudaGetKernel(void** kernel, void const* host);
cudaError_t __cudaLaunchKernel(void* kernel, dim3 grid, dim3 threads, void** arguments, std::size_t shared,
                               cudaStream_t stream);

void** __cudaRegisterFatBinary(void* wrapper) {
  or_abort([&] { Registry::get().add_module(zeroth::testing::ptx::module_of(wrapper, architecture())); });
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}
void __cudaRegisterFunction(void** /*handle*/, char const* host, char* /*device*/, char const* name,
                            int /*thread_limit*/, uint3* /*thread*/, uint3* /*block*/, dim3* /*threads*/,
                            dim3* /*blocks*/, int* /*warp_size*/) {
  or_abort([&] { Registry::get().add_function(host, name); });
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 threads, std::size_t shared, void* stream) {
  configuration = {grid, threads, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* threads, std::size_t* shared, void* stream) {
  *grid = configuration.grid;
  *threads = configuration.threads;
  *shared = configuration.shared;
  *static_cast<void**>(stream) = configuration.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(void** kernel, void const* host) {
  *kernel = const_cast<void*>(host);
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(void* kernel, dim3 grid, dim3 threads, void** arguments, std::size_t shared,
                               cudaStream_t stream) {
  return zeroth::testing::ptx::launch(kernel, grid, threads, arguments, shared, stream);
}
cudaError_t cudaLaunchKernel(void const* kernel, dim3 grid, dim3 threads, void** arguments, std::size_t shared,
                             cudaStream_t stream) {
  return zeroth::testing::ptx::launch(kernel, grid, threads, arguments, shared, stream);
}

}  // extern "C"
