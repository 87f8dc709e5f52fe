// SPDX-License-Identifier: Apache-2.0
#include "engine/weight_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/logger.hpp"
#include "engine/pieces.hpp"
#include "engine/replicas.hpp"
#include "engine/safetensors_reader.hpp"
#include "zeroth/config/document.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/engine/safetensors_writer.hpp"

namespace zeroth::engine {
namespace {

std::vector<NamedShape> shapes_of(model::Description const& model) {
  std::vector<NamedShape> shapes;
  for (auto const& param : model.params) {
    shapes.push_back({param.name, param.shape});
  }
  return shapes;
}

/// All that is wrong with a file, at once.
void check_tensors(std::filesystem::path const& file, SafetensorsReader const& reader, model::Description const& model,
                   std::function<bool(std::string const&)> const& left_out) {
  auto const& tensors = reader.tensors();
  std::vector<std::string> problems;
  for (auto const& param : model.params) {
    auto const found = tensors.find(param.name);
    if (found == tensors.end()) {
      problems.push_back(fmt::format("\"{}\" is missing", param.name));
    } else if (found->second.shape != param.shape) {
      problems.push_back(fmt::format("\"{}\" has shape [{}], the model's is [{}]", param.name,
                                     fmt::join(found->second.shape, ", "), fmt::join(param.shape, ", ")));
    }
  }
  for (auto const& [name, tensor] : tensors) {
    if (!model.param_named.contains(name) && !(left_out && left_out(name))) {
      problems.push_back(fmt::format("{} is no parameter of the model", config::in_quotes(name)));
    }
  }
  if (!problems.empty()) {
    constexpr std::size_t shown = 20;
    auto const more = problems.size() > shown ? fmt::format("\n  and {} more", problems.size() - shown) : std::string{};
    problems.resize(std::min(problems.size(), shown));
    throw ContractError{
        fmt::format("{} does not fit the model:\n  {}{}", file.string(), fmt::join(problems, "\n  "), more)};
  }
}

/// Brings all slices to rank 0, and there to `writer`. What that throws is left in `refused`, and the ranks still send
/// to the end: nobody hangs.
void send_slices(shard::ShardManager& manager, std::size_t params, Exchange const& exchange, SafetensorsWriter* writer,
                 device::Memory& on_host, std::exception_ptr& refused) {
  auto const rank = exchange.rank();
  auto const send = [&](comm::Operation operation, float* data, std::int64_t count, int peer) {
    std::array const transaction{comm::Collective{operation, data, data, count, Dtype::fp32, peer}};
    exchange.communicator->submit(*exchange.stream, {"save_weights", ""}, transaction);
    exchange.stream->synchronize();
  };
  auto const write = [&](std::span<float> piece) {
    auto& compute = exchange.device->compute();
    exchange.device->kernels().copy(compute, on_host.data(), piece.data(), std::ssize(piece) * bytes_of(Dtype::fp32));
    compute.synchronize();
    try {
      if (!refused) {
        writer->append({reinterpret_cast<float const*>(on_host.data()), piece.size()});
      }
    } catch (...) {
      refused = std::current_exception();
    }
  };
  for (auto const param : FirstIds<ParamId>{params}) {
    auto const take = [&](int owner, std::int64_t first, std::span<float> piece) {
      auto const count = std::ssize(piece);
      if (rank == owner) {
        manager.values.load(param, first, piece);
      }
      if (rank == owner && rank != 0) {
        send(comm::Operation::send, piece.data(), count, 0);
      } else if (rank == 0 && owner != 0) {
        send(comm::Operation::receive, piece.data(), count, owner);
      }
      if (rank == 0) {
        write(piece);
      }
    };
    each_piece(manager.values, param, exchange.world(), manager.values.transfer(), take);
  }
}

/// Sets all that this rank holds. `finding` becomes a warning if a value is not finite.
void store_slices(shard::ShardManager& manager, model::Description const& model, SafetensorsReader const& reader,
                  std::span<float> values, Finding& finding) {
  for (auto const param : model.params.ids()) {
    auto const& name = model.params[param].name;
    auto const& tensor = reader.tensors().at(name);
    auto const range = manager.values.held_of(param);
    for (auto first = range.begin; first < range.end; first += std::ssize(values)) {
      auto const piece = values.first(std::min(values.size(), static_cast<std::size_t>(range.end - first)));
      reader.read(tensor, first, piece);
      manager.values.store(param, first, piece);
      auto const odd = std::ranges::find_if_not(piece, [](float value) { return std::isfinite(value); });
      if (odd != piece.end() && finding.kind == Finding::Kind::nothing) {
        finding = {Finding::Kind::warning,
                   fmt::format("\"{}\" holds {} at element {}", name, *odd, first + (odd - piece.begin()))};
      }
    }
  }
}

}  // namespace

std::vector<Finding> save_weights(shard::ShardManager& manager, model::Description const& model,
                                  std::filesystem::path const& file, Dtype dtype, Exchange const& exchange) {
  constexpr std::string_view purpose = "save_weights";
  manager.parameters.await_gathers();
  std::optional<SafetensorsWriter> writer;  // on rank 0
  std::unique_ptr<device::Memory> on_host;
  auto opened = together(purpose, exchange, [&](Finding&) {
    on_host = exchange.device->allocate_host(static_cast<std::int64_t>(manager.values.transfer().size_bytes()));
    if (exchange.rank() == 0) {
      writer.emplace(file, shapes_of(model), dtype);
    }
  });
  if (failed(opened)) {
    return opened;
  }
  std::exception_ptr refused;
  send_slices(manager, model.params.size(), exchange, writer ? &*writer : nullptr, *on_host, refused);
  return together(purpose, exchange, [&](Finding&) {
    if (refused) {
      std::rethrow_exception(refused);
    }
    if (writer) {
      writer->commit();
    }
  });
}

std::vector<Finding> load_weights(shard::ShardManager& manager, model::Description const& model,
                                  std::filesystem::path const& file,
                                  std::function<bool(std::string const& name)> const& left_out,
                                  Exchange const& exchange) {
  constexpr std::string_view purpose = "load_weights";
  constexpr std::size_t most = std::size_t{1} << 16U;
  std::optional<SafetensorsReader> reader;
  std::vector<std::uint64_t> samples;
  std::unique_ptr<device::Memory> memory;
  auto opened = together(purpose, exchange, [&](Finding&) {
    reader.emplace(file);
    check_tensors(file, *reader, model, left_out);
    samples = sample(*reader, model);  // which refuses a dtype that it cannot read
    memory = exchange.device->allocate_host(static_cast<std::int64_t>(most * sizeof(float)));
  });
  if (failed(opened)) {
    return opened;
  }
  compare_files(samples, file, model, exchange);
  auto const stored = together(purpose, exchange, [&](Finding& mine) {
    manager.parameters.await_gathers();
    manager.parameters.drop_all();
    store_slices(manager, model, *reader, {reinterpret_cast<float*>(memory->data()), most}, mine);
  });
  throw_if_failed("load_weights() failed after it had changed weights", stored);
  auto const warning = std::ranges::find(stored, Finding::Kind::warning, &Finding::kind);
  if (warning != stored.end() && warning - stored.begin() == exchange.rank()) {
    logger().warn("{}load_weights({}): {}: training goes on with that", rank_prefix(), file.string(), warning->text);
  }
  return stored;
}

}  // namespace zeroth::engine
