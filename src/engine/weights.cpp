/// EngineState: weights to and from a file, straight from and to the shards.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "config/document.hpp"
#include "core/logger.hpp"
#include "engine/engine_state.hpp"
#include "engine/safetensors.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::detail {

using comm::Collective;
using comm::Operation;
using engine::Verb;

namespace {

std::vector<engine::NamedShape> shapes_of(model::Description const& model) {
  std::vector<engine::NamedShape> shapes;
  for (auto const& param : model.params) {
    shapes.push_back({param.name, param.shape});
  }
  return shapes;
}

/// All that is wrong with a file, at once.
void check_tensors(std::filesystem::path const& file, engine::SafetensorsReader const& reader,
                   model::Description const& model) {
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
    if (!model.param_named.contains(name)) {
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

/// Calls `take(param, owner, first, piece)` for all elements, in the order of the file and in pieces of at most
/// `buffer`: elements [first, first + piece.size()) of `param` are in the slice of rank `owner`.
template <class F>
void each_piece(shard::ShardManager const& manager, std::size_t params, int world, std::span<float> buffer,
                F const& take) {
  for (std::uint32_t param = 0; param < params; ++param) {
    for (int owner = 0; owner < world; ++owner) {
      auto const range = manager.slice_of(param, owner);
      for (auto first = range.begin; first < range.end; first += std::ssize(buffer)) {
        take(param, owner, first, buffer.first(std::min(buffer.size(), static_cast<std::size_t>(range.end - first))));
      }
    }
  }
}

}  // namespace

/// A rank that comes here alone meets the others on the communicator that they use next, and all are told at once.
void EngineState::meet(std::string_view purpose) {
  comm::Collective const barrier{};
  bool const gathers_first = blueprint_.request.placements.parameters == shard::Placement::shard;
  for (bool const gather : {gathers_first, !gathers_first}) {
    (gather ? *gather_comm_ : *reduce_comm_)
        .submit(gather ? *gather_stream_ : *reduce_stream_, {purpose, ""}, {&barrier, 1});
  }
  gather_stream_->synchronize();
  reduce_stream_->synchronize();
}

/// Runs `action` on all ranks. Where it fails on one, all throw the same error, which begins with `failed`, and the
/// engine goes on; but not after PeerError, which says that the ranks no longer agree.
void EngineState::together(std::string_view purpose, std::string_view failed, std::function<void()> const& action) {
  std::vector<engine::Finding> all;
  or_end([&] {
    engine::Finding mine;
    try {
      action();
    } catch (PeerError const&) {
      throw;
    } catch (...) {
      mine = engine::describe_failure();
    }
    all = engine::share(mine, purpose, *gather_comm_, *device_, *gather_stream_);
  });
  engine::throw_if_failed(failed, all);
}

/// Brings all slices to rank 0, and there to `writer`. What that throws is left in `refused`, and the ranks still send
/// to the end: nobody hangs.
void EngineState::send_slices(engine::SafetensorsWriter* writer, device::Memory& on_host, std::exception_ptr& refused) {
  auto const rank = gather_comm_->rank();
  auto const send = [&](Operation operation, float* data, std::int64_t count, int peer) {
    std::array const transaction{Collective{operation, data, data, count, Dtype::fp32, peer}};
    gather_comm_->submit(*gather_stream_, {"save_weights", ""}, transaction);
    gather_stream_->synchronize();
  };
  auto const write = [&](std::span<float> piece) {
    auto& compute = device_->compute();
    device_->kernels().copy(compute, on_host.data(), piece.data(), std::ssize(piece) * bytes_of(Dtype::fp32));
    compute.synchronize();
    try {
      if (!refused) {
        writer->append({reinterpret_cast<float const*>(on_host.data()), piece.size()});
      }
    } catch (...) {
      refused = std::current_exception();
    }
  };
  auto const take = [&](std::uint32_t param, int owner, std::int64_t first, std::span<float> piece) {
    auto const count = std::ssize(piece);
    if (rank == owner) {
      manager_->load(param, first, piece);
    }
    if (rank == owner && rank != 0) {
      send(Operation::send, piece.data(), count, 0);
    } else if (rank == 0 && owner != 0) {
      send(Operation::receive, piece.data(), count, owner);
    }
    if (rank == 0) {
      write(piece);
    }
  };
  each_piece(*manager_, model_->params.size(), gather_comm_->world(), manager_->transfer(), take);
}

void EngineState::save_weights(std::filesystem::path const& file) {
  constexpr std::string_view purpose = "save_weights";
  constexpr std::string_view failed = "save_weights() failed and changed nothing";
  check_between_passes("save_weights()");
  histories_[static_cast<std::size_t>(steps_ % 2)].add(Verb::save_weights);
  or_end([&] {
    meet(purpose);
    manager_->await_gathers();
  });
  std::optional<engine::SafetensorsWriter> writer;  // on rank 0
  std::unique_ptr<device::Memory> on_host;
  together(purpose, failed, [&] {
    on_host = device_->allocate_host(static_cast<std::int64_t>(manager_->transfer().size_bytes()));
    if (gather_comm_->rank() == 0) {
      writer.emplace(file, shapes_of(*model_));
    }
  });
  std::exception_ptr refused;
  or_end([&] { send_slices(writer ? &*writer : nullptr, *on_host, refused); });
  together(purpose, failed, [&] {
    if (refused) {
      std::rethrow_exception(refused);
    }
    if (writer) {
      writer->commit();
    }
  });
}

/// Sets all that this rank holds. `finding` becomes a warning if a value is not finite.
void EngineState::store_slices(engine::SafetensorsReader const& reader, std::span<float> values,
                               engine::Finding& finding) {
  for (std::uint32_t param = 0; param < model_->params.size(); ++param) {
    auto const& name = model_->params[param].name;
    auto const& tensor = reader.tensors().at(name);
    auto const range = manager_->held_of(param);
    for (auto first = range.begin; first < range.end; first += std::ssize(values)) {
      auto const piece = values.first(std::min(values.size(), static_cast<std::size_t>(range.end - first)));
      reader.read(tensor, first, piece);
      manager_->store(param, first, piece);
      auto const odd = std::ranges::find_if_not(piece, [](float value) { return std::isfinite(value); });
      if (odd != piece.end() && finding.kind == engine::Finding::Kind::nothing) {
        finding = {engine::Finding::Kind::warning,
                   fmt::format("\"{}\" holds {} at element {}", name, *odd, first + (odd - piece.begin()))};
      }
    }
  }
}

/// Everything is looked at on every rank before anything is changed on any.
void EngineState::load_weights(std::filesystem::path const& file) {
  constexpr std::string_view purpose = "load_weights";
  check_between_passes("load_weights()");
  histories_[static_cast<std::size_t>(steps_ % 2)].add(Verb::load_weights);
  or_end([&] { meet(purpose); });
  constexpr std::size_t most = std::size_t{1} << 16U;
  std::optional<engine::SafetensorsReader> reader;
  std::vector<std::uint64_t> samples;
  std::unique_ptr<device::Memory> memory;
  together(purpose, "load_weights() failed and changed nothing", [&] {
    reader.emplace(file);
    check_tensors(file, *reader, *model_);
    samples = engine::sample(*reader, *model_);  // which refuses a dtype that it cannot read
    memory = device_->allocate_host(static_cast<std::int64_t>(most * sizeof(float)));
  });
  or_end([&] {
    engine::compare_files(samples, file, *model_, exchange());
    engine::Finding mine;
    try {
      manager_->await_gathers();
      manager_->drop_gathered(shard::Drop::all);
      store_slices(*reader, {reinterpret_cast<float*>(memory->data()), most}, mine);
    } catch (PeerError const&) {
      throw;
    } catch (...) {
      mine = engine::describe_failure();
    }
    auto const all = engine::share(mine, purpose, *gather_comm_, *device_, *gather_stream_);
    engine::throw_if_failed("load_weights() failed after it had changed weights", all);
    compare_replicas(shard::Moments::without, "load_weights()");
    auto const warning =
        std::ranges::find_if(all, [](auto const& each) { return each.kind == engine::Finding::Kind::warning; });
    if (warning != all.end() && warning - all.begin() == gather_comm_->rank()) {
      logger().warn("{}load_weights({}): {}: training goes on with that", rank_prefix(), file.string(), warning->text);
    }
  });
}

}  // namespace zeroth::detail
