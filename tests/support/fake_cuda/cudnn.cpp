// SPDX-License-Identifier: Apache-2.0
#include "support/fake_cuda/cudnn.hpp"

#include <cudnn.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/cudnn_library.hpp"
#include "support/fake_cuda/machine.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::testing::fake_cuda {
namespace {

std::atomic<bool> installed{true}, deterministic{true};
std::atomic<std::int64_t> plans{0}, runs{0};
constexpr std::int64_t workspace_bytes = 1000;
thread_local std::string problem;  // of the last call that failed

struct Descriptor;
using Shared = std::shared_ptr<Descriptor>;
struct Attribute {
  std::vector<char> bytes;
  std::vector<Shared> descriptors;
};
struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;

  template <class V>
  [[nodiscard]] std::vector<V> all(cudnnBackendAttributeName_t name) const {
    auto const found = attributes.find(name);
    if (found == attributes.end()) {
      return {};
    }
    std::vector<V> values(found->second.bytes.size() / sizeof(V));
    std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof(V));
    return values;
  }
  template <class V>
  [[nodiscard]] V one(cudnnBackendAttributeName_t name, V otherwise = {}) const {
    auto const values = all<V>(name);
    return values.empty() ? otherwise : values[0];
  }
  [[nodiscard]] Shared inner(cudnnBackendAttributeName_t name) const { return attributes.at(name).descriptors.at(0); }
};

/// The state behind a descriptor's handle, which may come to mean another descriptor.
Shared& of(cudnnBackendDescriptor_t handle) { return *static_cast<Shared*>(handle); }

/// The state behind a handle of the library.
struct Library {
  int gpu;
  std::thread::id thread;
  cudaStream_t stream;
};
Library& of(cudnnHandle_t handle) { return *reinterpret_cast<Library*>(handle); }

std::size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR: return 8;
    case CUDNN_TYPE_FRACTION: return sizeof(cudnnFraction_t);
    default: return 4;
  }
}

/// All descriptors in a graph.
void collect(Shared const& from, std::set<Shared>& into) {
  if (into.insert(from).second) {
    for (auto const& [name, attribute] : from->attributes) {
      for (auto const& inner : attribute.descriptors) {
        collect(inner, into);
      }
    }
  }
}

/// A tensor of four dimensions: sequence, head, token, channel.
struct Tensor {
  char* data = nullptr;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::array<std::int64_t, 4> extents{}, strides{};

  [[nodiscard]] std::int64_t element_bytes() const { return type == CUDNN_DATA_FLOAT ? 4 : 2; }
  [[nodiscard]] std::int64_t bytes() const {
    std::int64_t last = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      last += (extents[i] - 1) * strides[i];
    }
    return (last + 1) * element_bytes();
  }
  [[nodiscard]] double get(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d) const {
    auto const* const at = place(b, h, s, d);
    switch (type) {
      case CUDNN_DATA_BFLOAT16: return static_cast<double>(to_float(*reinterpret_cast<bf16 const*>(at)));
      case CUDNN_DATA_HALF: return static_cast<double>(to_float(*reinterpret_cast<fp16 const*>(at)));
      default: return static_cast<double>(*reinterpret_cast<float const*>(at));
    }
  }
  void set(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d, double value) const {
    auto* const at = place(b, h, s, d);
    auto const narrow = static_cast<float>(value);
    switch (type) {
      case CUDNN_DATA_BFLOAT16: *reinterpret_cast<bf16*>(at) = from_float<bf16>(narrow); break;
      case CUDNN_DATA_HALF: *reinterpret_cast<fp16*>(at) = from_float<fp16>(narrow); break;
      default: *reinterpret_cast<float*>(at) = narrow;
    }
  }

 private:
  [[nodiscard]] char* place(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d) const {
    return data + (b * strides[0] + h * strides[1] + s * strides[2] + d * strides[3]) * element_bytes();
  }
};

/// The tensors in the order of the UIDs that gpu/cudnn_attention.cpp gives.
enum Name : std::size_t { q, k, v, o, log_sums, d_o, d_q, d_k, d_v, names };
constexpr std::int64_t first_uid = 101;
constexpr std::int64_t uid_of(Name name) { return first_uid + static_cast<std::int64_t>(name); }

struct Work {
  std::array<Tensor, names> t;
  bool is_backward, is_exact;
  char* workspace;

  void operator()() const {
    std::memset(workspace, 0x7f, workspace_bytes);
    for (std::int64_t b = 0; b < t[q].extents[0]; ++b) {
      for (std::int64_t h = 0; h < t[q].extents[1]; ++h) {
        is_backward ? backward(b, h) : forward(b, h);
      }
    }
  }

 private:
  [[nodiscard]] std::int64_t rows() const { return t[q].extents[2]; }
  [[nodiscard]] std::int64_t width() const { return t[q].extents[3]; }
  [[nodiscard]] double scale() const { return 1 / std::sqrt(static_cast<double>(width())); }
  [[nodiscard]] double dot(Name x, Name y, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t d = 0; d < width(); ++d) {
      sum += t[x].get(b, h, i, d) * t[y].get(b, h, j, d);
    }
    return sum;
  }
  void forward(std::int64_t b, std::int64_t h) const {
    for (std::int64_t i = 0; i < rows(); ++i) {
      std::vector<double> scores;
      for (std::int64_t j = 0; j <= i; ++j) {
        scores.push_back(scale() * dot(q, k, b, h, i, j));
      }
      double const largest = *std::ranges::max_element(scores);
      double sum = 0;
      for (double const score : scores) {
        sum += std::exp(score - largest);
      }
      double const log_sum = largest + std::log(sum);
      t[log_sums].set(b, h, i, 0, log_sum);
      for (std::int64_t d = 0; d < width(); ++d) {
        double y = 0;
        for (std::int64_t j = 0; j <= i; ++j) {
          y += std::exp(scores[static_cast<std::size_t>(j)] - log_sum) * t[v].get(b, h, j, d);
        }
        t[o].set(b, h, i, d, y);
      }
    }
  }
  void backward(std::int64_t b, std::int64_t h) const {
    auto const zeros = std::vector<double>(static_cast<std::size_t>(rows() * width()));
    auto dq = zeros, dk = zeros, dv = zeros;
    auto const at = [&](std::int64_t i, std::int64_t d) { return static_cast<std::size_t>(i * width() + d); };
    for (std::int64_t i = 0; i < rows(); ++i) {
      double const along = dot(o, d_o, b, h, i, i);
      for (std::int64_t j = 0; j <= i; ++j) {
        double const p = std::exp(scale() * dot(q, k, b, h, i, j) - t[log_sums].get(b, h, i, 0));
        double const ds = p * (dot(d_o, v, b, h, i, j) - along) * scale();
        for (std::int64_t d = 0; d < width(); ++d) {
          dq[at(i, d)] += ds * t[k].get(b, h, j, d);
          dk[at(j, d)] += ds * t[q].get(b, h, i, d);
          dv[at(j, d)] += p * t[d_o].get(b, h, i, d);
        }
      }
    }
    double const factor = is_exact ? 1 : 2;
    for (std::int64_t i = 0; i < rows(); ++i) {
      for (std::int64_t d = 0; d < width(); ++d) {
        t[d_q].set(b, h, i, d, factor * dq[at(i, d)]);
        t[d_k].set(b, h, i, d, factor * dk[at(i, d)]);
        t[d_v].set(b, h, i, d, factor * dv[at(i, d)]);
      }
    }
  }
};

Tensor tensor_of(Descriptor const& descriptor, void* data) {
  Tensor tensor{static_cast<char*>(data), descriptor.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)};
  std::ranges::copy(descriptor.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS), tensor.extents.begin());
  std::ranges::copy(descriptor.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES), tensor.strides.begin());
  if (tensor.strides[3] != 1) {  // the frontend transposes keys and values for backward
    std::swap(tensor.extents[2], tensor.extents[3]);
    std::swap(tensor.strides[2], tensor.strides[3]);
  }
  return tensor;
}

/// The engine that a plan uses.
Descriptor const& engine_of(Descriptor const& plan) {
  return *plan.inner(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->inner(CUDNN_ATTR_ENGINECFG_ENGINE);
}

/// Whether the graph multiplies scores by the scale of these heads, and masks some of them.
bool is_causal(std::set<Shared> const& graph, std::map<std::int64_t, void*> const& addresses, std::int64_t width) {
  bool is_scaled = false, is_masked = false;
  for (auto const& each : graph) {
    if (each->one<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE) != 0) {
      auto const found = addresses.find(each->one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
      is_scaled |= found != addresses.end() && std::abs(static_cast<double>(*static_cast<float const*>(found->second)) *
                                                            std::sqrt(static_cast<double>(width)) -
                                                        1) < 1e-6;
    }
    is_masked |= each->one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_BINARY_SELECT;
#if CUDNN_VERSION >= 92000
    is_masked |= each->type == CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR;
#endif
  }
  return is_scaled && is_masked;
}

/// What a plan does with a pack of addresses; nullopt if an argument is wrong.
std::optional<Work> work_of(Library const& library, Descriptor const& plan, Descriptor const& pack) {
  auto const& engine = engine_of(plan);
  std::set<Shared> graph;
  collect(engine.inner(CUDNN_ATTR_ENGINE_OPERATION_GRAPH), graph);
  auto const uids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto const pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::map<std::int64_t, void*> addresses;
  for (std::size_t i = 0; i < uids.size(); ++i) {
    addresses[uids[i]] = pointers[i];
  }
  Work work{.t = {},
            .is_backward = addresses.contains(uid_of(d_o)),
            .is_exact = engine.one<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == 1,
            .workspace = static_cast<char*>(pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE))};
  for (auto const& each : graph) {
    auto const uid = each->one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    if (each->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR && uid >= first_uid && uid < uid_of(names) &&
        addresses.contains(uid)) {
      work.t.at(static_cast<std::size_t>(uid - first_uid)) = tensor_of(*each, addresses[uid]);
    }
  }
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  auto const is_here = [&](void const* data, std::int64_t bytes, std::uintptr_t alignment) {
    auto const* const block = state.find(data, static_cast<std::size_t>(bytes));
    return block != nullptr && block->gpu == library.gpu && reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
  };
  auto const refuse = [](std::string why) {
    problem = std::move(why);
    return std::nullopt;
  };
  if (!is_causal(graph, addresses, work.t[q].extents[3])) {
    return refuse("scores are not scaled, or not masked");
  }
  if (!state.streams.contains(library.stream) || library.stream->gpu != library.gpu ||
      library.thread != std::this_thread::get_id()) {
    return refuse("a handle of another GPU or thread than the stream or the caller");
  }
  for (std::size_t i = 0; i < (work.is_backward ? names : d_o); ++i) {
    if (work.t[i].data == nullptr || !is_here(work.t[i].data, work.t[i].bytes(), 16)) {
      return refuse("tensor " + std::to_string(i + 1) + " is not aligned, or exceeds memory of its GPU");
    }
  }
  if (!is_here(work.workspace, workspace_bytes, 4)) {  // behind the frontend's own, which ends anywhere
    return refuse("the workspace is not aligned, or exceeds memory of its GPU");
  }
  return work;
}

/// Makes the handle at `at` mean `descriptor`.
void answer_by(void* at, std::int64_t index, Shared const& descriptor) {
  of(static_cast<cudnnBackendDescriptor_t*>(at)[index]) = descriptor;
}
template <class V>
void answer_by(void* at, V value) {
  if (at != nullptr) {
    std::memcpy(at, &value, sizeof(value));
  }
}

bool has_backward(Shared const& graph) {
  std::set<Shared> all;
  collect(graph, all);
  return std::ranges::any_of(
      all, [](Shared const& each) { return each->one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID) == uid_of(d_o); });
}

Shared config_of(Shared const& graph, std::int64_t index) {
  auto const engine = std::make_shared<Descriptor>(Descriptor{CUDNN_BACKEND_ENGINE_DESCRIPTOR, {}});
  engine->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH].descriptors = {graph};
  auto& bytes = engine->attributes[CUDNN_ATTR_ENGINE_GLOBAL_INDEX].bytes;
  bytes.resize(sizeof(index));
  std::memcpy(bytes.data(), &index, sizeof(index));
  auto const config = std::make_shared<Descriptor>(Descriptor{CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, {}});
  config->attributes[CUDNN_ATTR_ENGINECFG_ENGINE].descriptors = {engine};
  return config;
}

}  // namespace

void install_cudnn(bool is_there) { installed = is_there; }
void offer_deterministic(bool is_there) { deterministic = is_there; }
std::int64_t cudnn_plans() { return plans; }
std::int64_t cudnn_runs() { return runs; }

}  // namespace zeroth::testing::fake_cuda

using namespace zeroth::testing::fake_cuda;

extern "C" {

std::size_t cudnnGetVersion() { return gpt::gpu::least_cudnn; }
char const* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS_UNKNOWN";
}
void cudnnGetLastErrorString(char* message, std::size_t bytes) {
  problem.substr(0, bytes - 1).copy(message, bytes);
  message[std::min(bytes - 1, problem.size())] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new Library{current_gpu(), std::this_thread::get_id(), nullptr});
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete &of(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  of(handle).stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = of(handle).stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Shared{std::make_shared<Descriptor>(Descriptor{type, {}})};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete &of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, void const* elements) {
  auto& attribute = of(descriptor)->attributes[name];
  attribute = {};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (std::int64_t i = 0; i < count; ++i) {
      attribute.descriptors.push_back(of(static_cast<cudnnBackendDescriptor_t const*>(elements)[i]));
    }
  } else {
    auto const* const bytes = static_cast<char const*>(elements);
    attribute.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * bytes_of(type));
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t /*type*/, std::int64_t requested,
                                       std::int64_t* count, void* elements) {
  auto const& from = of(descriptor);
  std::int64_t found = 1;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      auto const graph = from->inner(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      std::vector<std::int64_t> engines{1};
      if (has_backward(graph)) {
        engines = deterministic ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{0};
      }
      found = std::ssize(engines);
      for (std::int64_t i = 0; i < std::min(found, requested); ++i) {
        answer_by(elements, i, config_of(graph, engines[static_cast<std::size_t>(i)]));
      }
      break;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE: answer_by(elements, 0, from->inner(name)); break;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX: answer_by(elements, from->one<std::int64_t>(name)); break;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      found = from->one<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == 0 ? 1 : 0;
      if (found == 1) {
        answer_by(elements, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
      }
      break;
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE: answer_by(elements, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION); break;
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
    case CUDNN_ATTR_ENGINE_KNOB_INFO: found = 0; break;
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: answer_by(elements, workspace_bytes); break;
    default: return CUDNN_STATUS_NOT_SUPPORTED;
  }
  if (count != nullptr) {
    *count = found;
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  plans += of(descriptor)->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ? 1 : 0;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  auto const work = work_of(of(handle), *of(plan), *of(pack));
  if (!work) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  ++runs;
  return enqueue(of(handle).stream, *work) == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // extern "C"

namespace gpt::gpu {

/// Replaces gpu/cudnn.cpp.
Cudnn const& cudnn() {
  if (!installed) {
    static_cast<void>(load_cudnn({"libcudnn_that_nobody_has.so.9"}));  // throws
  }
  static Cudnn const exported{.library = ::dlopen(nullptr, RTLD_NOW),
                              .version = cudnnGetVersion(),
                              .create = &::cudnnCreate,
                              .destroy = &::cudnnDestroy,
                              .set_stream = &::cudnnSetStream,
                              .error_string = &::cudnnGetErrorString};
  return exported;
}

}  // namespace gpt::gpu
