// SPDX-License-Identifier: Apache-2.0
#include "gpu/cudnn_attention.hpp"

#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpu/cudnn_library.hpp"
#include "gpu/memory.hpp"
#include "zeroth/core/error.hpp"

namespace cudnn_frontend {
/// Where the frontend looks for cuDNN's functions; library() sets it.
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace gpt::gpu {

namespace {

namespace fe = cudnn_frontend;
namespace graph = cudnn_frontend::graph;
using graph::Graph;
using Tensor = std::shared_ptr<graph::Tensor_attributes>;
using zeroth::Dtype;

/// The names of tensors in plans. The frontend gives smaller ones to others.
enum Uid : std::int64_t { queries = 101, keys, values, output, stats, d_output, d_queries, d_keys, d_values };

using Addresses = std::unordered_map<std::int64_t, void*>;

/// The library, which the frontend finds from the first call on. The frontend would load a second CUDA runtime to ask
/// for the GPU; the graphs here know theirs.
Cudnn const& library() {
  auto const& loaded = cudnn();
  static std::once_flag once;
  std::call_once(once, [&] { fe::cudnn_dlhandle = loaded.library; });
  return loaded;
}

std::string with_reason(std::string const& what, std::string const& reason) {
  return fmt::format("cuDNN {}: {}: {}", describe_cudnn_version(library().version), what, reason);
}
void expect_good(fe::error_t const& error, std::string const& what) {
  if (error.is_bad()) {
    throw zeroth::SystemError{with_reason(what, error.err_msg)};
  }
}
void expect_done(cudnnStatus_t status, char const* call) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw zeroth::SystemError{with_reason(call, library().error_string(status))};
  }
}

fe::DataType_t type_of(Dtype dtype) {
  ZEROTH_EXPECTS(dtype == Dtype::bf16 || dtype == Dtype::fp16, "cuDNN computes attention in bf16 and fp16");
  return dtype == Dtype::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
}

std::vector<std::int64_t> extents_of(CudnnShape const& s, std::int64_t width) {
  return {s.sequences, s.heads.count, s.heads.context, width};
}
/// Strides of a tensor that is a part of rows with `columns` numbers each.
std::vector<std::int64_t> strides_of(CudnnShape const& s, std::int64_t columns) {
  return {s.heads.context * columns, s.heads.width, columns, 1};
}
void place(Tensor const& tensor, CudnnShape const& s, Uid uid, std::int64_t columns) {
  tensor->set_uid(uid).set_dim(extents_of(s, s.heads.width)).set_stride(strides_of(s, columns));
}
void place_stats(Tensor const& tensor, CudnnShape const& s) {
  tensor->set_uid(stats)
      .set_data_type(fe::DataType_t::FLOAT)
      .set_dim(extents_of(s, 1))
      .set_stride({s.heads.count * s.heads.context, s.heads.context, 1, 1});
}

/// A tensor of queries, keys or values, or one of their gradients, lies in rows of 3 * channels.
std::int64_t packed_columns(CudnnShape const& s) { return 3 * s.heads.channels(); }

Tensor given(Graph& graph, CudnnShape const& s, Uid uid, std::int64_t columns) {
  auto const tensor = graph.tensor(graph::Tensor_attributes{});
  place(tensor, s, uid, columns);
  return tensor;
}

std::shared_ptr<Graph> graph_of(CudnnShape const& s, int sm) {
  auto graph = std::make_shared<Graph>();
  graph->set_io_data_type(type_of(s.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT)
      .set_sm_version(sm)
      .set_cuda_graph_retention(fe::CudaGraphRetention_t::NONE);  // recorded steps end before the plans
  return graph;
}

template <class Attributes>
Attributes causal(CudnnShape const& s, char const* name) {
  Attributes attributes;
  attributes.set_name(name)
      .set_attn_scale(s.heads.scale<float>())
      .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
      .set_diagonal_band_right_bound(0);
  return attributes;
}

std::shared_ptr<Graph> forward_of(CudnnShape const& s, int sm) {
  auto graph = graph_of(s, sm);
  auto const columns = packed_columns(s);
  auto const q = given(*graph, s, queries, columns);
  auto const k = given(*graph, s, keys, columns);
  auto const v = given(*graph, s, values, columns);
  auto const [o, log_sums] =
      graph->sdpa(q, k, v, causal<graph::SDPA_attributes>(s, "forward").set_generate_stats(true));
  place(o, s, output, s.heads.channels());
  place_stats(log_sums, s);
  o->set_output(true);
  log_sums->set_output(true);
  return graph;
}

std::shared_ptr<Graph> backward_of(CudnnShape const& s, int sm) {
  auto graph = graph_of(s, sm);
  auto const columns = packed_columns(s);
  auto const q = given(*graph, s, queries, columns);
  auto const k = given(*graph, s, keys, columns);
  auto const v = given(*graph, s, values, columns);
  auto const o = given(*graph, s, output, s.heads.channels());
  auto const d_o = given(*graph, s, d_output, s.heads.channels());
  auto const log_sums = graph->tensor(graph::Tensor_attributes{});
  place_stats(log_sums, s);
  auto const [dq, dk, dv] =
      graph->sdpa_backward(q, k, v, o, d_o, log_sums,
                           causal<graph::SDPA_backward_attributes>(s, "backward").set_deterministic_algorithm(true));
  place(dq, s, d_queries, columns);
  place(dk, s, d_keys, columns);
  place(dv, s, d_values, columns);
  for (auto const& gradient : {dq, dk, dv}) {
    gradient->set_output(true);
  }
  return graph;
}

/// Builds the graph's plan for the GPU of `handle`, or, if that is null, for the device properties that the graph has.
/// Returns the bytes of its workspace.
std::int64_t build(Graph& graph, cudnnHandle_t handle, std::string const& what) {
  auto const step = [&](fe::error_t const& error) {
    expect_good(error, "it has no deterministic plan for " + what + "; --attention own needs no cuDNN");
  };
  step(graph.validate());
  step(handle == nullptr ? graph.build_operation_graph() : graph.build_operation_graph(handle));
  step(graph.create_execution_plans({fe::HeurMode_t::A}));
  graph.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
  step(graph.check_support());
  step(graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE));
  std::int64_t bytes = 0;
  step(graph.get_workspace_size(bytes));
  return bytes;
}

/// The compute capability of the current GPU: 90 for 9.0.
int compute_capability() {
  int gpu = 0, major = 0, minor = 0;
  expect(cudaGetDevice(&gpu), "cudaGetDevice");
  expect(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu), "cudaDeviceGetAttribute");
  expect(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu), "cudaDeviceGetAttribute");
  return 10 * major + minor;
}

/// Owns cuDNN's handle for work on a stream.
class Handle {
 public:
  explicit Handle(cudaStream_t stream) {
    expect_done(library().create(&handle_), "cudnnCreate");
    if (auto const status = library().set_stream(handle_, stream); status != CUDNN_STATUS_SUCCESS) {
      static_cast<void>(library().destroy(handle_));
      expect_done(status, "cudnnSetStream");
    }
  }
  Handle(Handle const&) = delete;
  Handle& operator=(Handle const&) = delete;
  ~Handle() { static_cast<void>(library().destroy(handle_)); }
  [[nodiscard]] cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

/// The address `columns` numbers behind `rows`. The frontend takes addresses of writable memory only.
void* at(void const* rows, CudnnShape const& s, std::int64_t columns) {
  auto const bytes = static_cast<std::size_t>(columns * zeroth::bytes_of(s.dtype));
  return const_cast<std::byte*>(static_cast<std::byte const*>(rows) + bytes);
}

}  // namespace

std::string describe(CudnnShape const& shape) {
  return fmt::format("{}, {} sequences of {} tokens, {} heads of {} channels", zeroth::name_of(shape.dtype),
                     shape.sequences, shape.heads.context, shape.heads.count, shape.heads.width);
}

struct CudnnAttention::State {
  CudnnShape shape;
  Handle handle;  // outlives the plans
  std::shared_ptr<Graph> forward, backward;
  Matrix<std::byte> workspace;

  State(cudaStream_t stream, CudnnShape const& s)
      : shape{s},
        handle{stream},
        forward{forward_of(s, compute_capability())},
        backward{backward_of(s, compute_capability())} {
    auto const bytes = std::max(build(*forward, handle.get(), "attention of " + describe(s)),
                                build(*backward, handle.get(), "the backward of attention of " + describe(s)));
    workspace.resize(1, std::max<std::int64_t>(bytes, 1));
  }

  void run(Graph& graph, CudnnShape const& s, Addresses addresses) {
    ZEROTH_EXPECTS(s == shape, fmt::format("attention of {} by plans for {}", describe(s), describe(shape)));
    auto const error = graph.execute(handle.get(), addresses, workspace.data());
    if (error.is_bad()) {
      expect_good(error, "execution for " + describe(shape));
    }
  }
};

CudnnAttention::CudnnAttention(cudaStream_t stream, CudnnShape const& shape)
    : state_{std::make_unique<State>(stream, shape)} {}
CudnnAttention::~CudnnAttention() = default;

void CudnnAttention::forward(CudnnShape const& s, void const* qkv, float* log_sums, void* y) {
  auto const channels = s.heads.channels();
  state_->run(*state_->forward, s,
              {{queries, at(qkv, s, 0)},
               {keys, at(qkv, s, channels)},
               {values, at(qkv, s, 2 * channels)},
               {output, y},
               {stats, log_sums}});
}

void CudnnAttention::backward(CudnnShape const& s, void const* qkv, void const* y, float const* log_sums,
                              void const* dy, void* dqkv) {
  auto const channels = s.heads.channels();
  state_->run(*state_->backward, s,
              {{queries, at(qkv, s, 0)},
               {keys, at(qkv, s, channels)},
               {values, at(qkv, s, 2 * channels)},
               {output, at(y, s, 0)},
               {stats, const_cast<float*>(log_sums)},
               {d_output, at(dy, s, 0)},
               {d_queries, dqkv},
               {d_keys, at(dqkv, s, channels)},
               {d_values, at(dqkv, s, 2 * channels)}});
}

std::int64_t CudnnAttention::workspace_bytes() const { return state_->workspace.count(); }

std::string load_cudnn_attention() { return "cuDNN " + describe_cudnn_version(library().version); }

std::int64_t plan_without_gpu(CudnnShape const& shape, int sm, std::string const& properties) {
  static_cast<void>(library());
  auto const of_gpu = std::make_shared<fe::DeviceProperties>();
  expect_good(of_gpu->deserialize({properties.begin(), properties.end()}), "properties of a GPU");
  std::int64_t bytes = 0;
  for (auto const& [graph, what] : {std::pair{forward_of(shape, sm), "attention of "},
                                    std::pair{backward_of(shape, sm), "the backward of attention of "}}) {
    graph->set_device_properties(of_gpu);
    bytes = std::max(bytes, build(*graph, nullptr, what + describe(shape)));
  }
  return bytes;
}

}  // namespace gpt::gpu
