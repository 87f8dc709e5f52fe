// SPDX-License-Identifier: Apache-2.0
#include "engine/weight_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "core/logger.hpp"
#include "device/kernels.hpp"
#include "engine/merged_parts.hpp"
#include "engine/pieces.hpp"
#include "engine/replicas.hpp"
#include "engine/safetensors_reader.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/config/document.hpp"
#include "zeroth/tool/engine/safetensors_writer.hpp"

namespace zeroth::engine {
namespace {

/// Parameters with ParamOptions::compute fp32 stay fp32.
std::vector<NamedShape> shapes_of(Share const& model, Dtype dtype) {
  std::vector<NamedShape> shapes;
  for (auto const& param : model.params()) {
    shapes.push_back({param.name, param.shape, param.is_fp32 ? Dtype::fp32 : dtype});
  }
  return shapes;
}

/// Reports all problems of a file at once.
void check_tensors(std::filesystem::path const& file, SafetensorsReader const& reader, Share const& model,
                   std::function<bool(std::string const&)> const& left_out) {
  auto const& tensors = reader.tensors();
  std::vector<std::string> problems;
  std::set<std::string_view> names;
  for (auto const& param : model.params()) {
    names.insert(param.name);
    auto const found = tensors.find(param.name);
    if (found == tensors.end()) {
      problems.push_back(fmt::format("\"{}\" is missing", param.name));
    } else if (found->second.shape != param.shape) {
      problems.push_back(fmt::format("\"{}\" has shape [{}], the model's is [{}]", param.name,
                                     fmt::join(found->second.shape, ", "), fmt::join(param.shape, ", ")));
    }
  }
  for (auto const& [name, tensor] : tensors) {
    if (!names.contains(name) && !(left_out && left_out(name))) {
      problems.push_back(fmt::format("{} is not a parameter of the model", config::in_quotes(name)));
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

constexpr std::string_view saving = "save_weights";

/// Sends or receives one message, between this rank and `peer`. Waits.
void pass_on(comm::Operation operation, float* data, std::int64_t count, int peer, Exchange const& exchange) {
  std::array const transaction{comm::Collective{operation, data, data, count, Dtype::fp32, peer}};
  exchange.communicator->submit(*exchange.stream, {saving, ""}, transaction);
  exchange.stream->synchronize();
}

/// Sends a stage's parameter from the first rank of the stage to the first rank of all, in pieces of sizes that both
/// know.
class Relay {
 public:
  Relay(device::Device& device, Exchange const& whole)
      : whole_{whole}, memory_{device.allocate_host(most * bytes_of(Dtype::fp32))} {}

  void append(std::span<float const> values) {
    while (!values.empty()) {
      auto const count = std::min(values.size(), static_cast<std::size_t>(most - filled_));
      std::copy_n(values.begin(), count, data() + filled_);
      values = values.subspan(count);
      filled_ += static_cast<std::int64_t>(count);
      if (filled_ == most) {
        flush();
      }
    }
  }
  /// Call after the last element of a parameter.
  void flush() {
    if (filled_ > 0) {
      pass_on(comm::Operation::send, data(), std::exchange(filled_, 0), 0, whole_);
    }
  }
  /// Receives `count` elements that rank `from` has appended: calls `take` with all, in order.
  template <class F>
  void receive(std::int64_t count, int from, F const& take) {
    for (std::int64_t first = 0; first < count; first += most) {
      std::span const piece{data(), static_cast<std::size_t>(std::min(most, count - first))};
      pass_on(comm::Operation::receive, piece.data(), std::ssize(piece), from, whole_);
      take(piece);
    }
  }

  static constexpr std::int64_t most = std::int64_t{1} << 16U;  ///< Elements of a piece.

 private:
  [[nodiscard]] float* data() noexcept { return reinterpret_cast<float*>(memory_->data()); }

  Exchange whole_;
  std::unique_ptr<device::Memory> memory_;
  std::int64_t filled_ = 0;
};

/// Sends the slices of a parameter of this stage to the stage's first rank, which passes them to `take`, in order.
template <class F>
void send_slices(WholeModel const& whole, ParamId param, device::Memory& on_host, F const& take) {
  auto const& of_stage = whole.of_stage;
  auto& values = whole.manager.values;
  auto const rank = of_stage.rank();
  auto& device = *of_stage.device;
  each_piece(values, param, of_stage.world(), values.transfer(),
             [&](int owner, std::int64_t first, std::span<float> piece) {
               auto const count = std::ssize(piece);
               if (rank == owner) {
                 values.load(param, first, piece);
               }
               if (rank == owner && rank != 0) {
                 pass_on(comm::Operation::send, piece.data(), count, 0, of_stage);
               } else if (rank == 0 && owner != 0) {
                 pass_on(comm::Operation::receive, piece.data(), count, owner, of_stage);
               }
               if (rank == 0) {
                 device.kernels().copy(device.compute(), on_host.data(), piece.data(), count * bytes_of(Dtype::fp32));
                 device.compute().synchronize();
                 take(std::span{reinterpret_cast<float const*>(on_host.data()), piece.size()});
               }
             });
}

using WriteValues = std::function<void(std::span<float const>)>;

/// Sends a parameter that tensor ranks divide to the first rank of all, which passes it to `write`.
void send_parts(WholeModel const& whole, Share::Known const& param, device::Memory& on_host, Relay& relay,
                std::span<float> buffers, WriteValues const& write) {
  bool const is_here = param.stage() == whole.share.stage();
  if (whole.all.rank() != 0) {
    if (is_here) {
      send_slices(whole, *param.local, on_host, [&](std::span<float const> piece) { relay.append(piece); });
      relay.flush();
    }
    return;
  }
  std::vector<model::CutPart> parts;
  std::vector<std::span<float>> pieces;
  for (int index = 0; index < whole.part.of; ++index) {
    parts.emplace_back(param.name, param.shape, *param.cut, TensorPart{index, whole.part.of});
    constexpr auto most = static_cast<std::size_t>(Relay::most);
    pieces.push_back(buffers.subspan(static_cast<std::size_t>(index) * most, most));
  }
  auto const receive = [&](int index, std::span<float> piece) {
    pass_on(comm::Operation::receive, piece.data(), std::ssize(piece), whole.first_of(param.stage(), index), whole.all);
  };
  MergedParts merged{std::move(parts), std::move(pieces), is_here ? 0 : -1, receive, write};
  if (is_here) {
    send_slices(whole, *param.local, on_host, [&](std::span<float const> piece) { merged.push(piece); });
  }
  merged.finish();
}

/// Sends all parameters to the first rank of all, which passes them to `writer`. An exception of the writer is stored
/// in `refused`, and ranks still send everything, so that no rank hangs.
void send_all(WholeModel const& whole, SafetensorsWriter* writer, device::Memory& on_host, Relay& relay,
              std::span<float> buffers, std::exception_ptr& refused) {
  WriteValues const write = [&](std::span<float const> piece) {
    try {
      if (!refused) {
        writer->append(piece);
      }
    } catch (...) {
      refused = std::current_exception();
    }
  };
  for (auto const& param : whole.share.params()) {
    if (param.cut && whole.part.of > 1) {
      send_parts(whole, param, on_host, relay, buffers, write);
    } else if (whole.part.index > 0) {
      continue;  // the first tensor rank sends it
    } else if (param.stage() == whole.share.stage()) {
      if (whole.share.first()) {
        send_slices(whole, *param.local, on_host, write);
      } else {
        send_slices(whole, *param.local, on_host, [&](std::span<float const> piece) { relay.append(piece); });
        relay.flush();
      }
    } else if (writer != nullptr) {
      relay.receive(param.count, whole.first_of(param.stage(), 0), write);
    }
  }
}

/// Reads elements of this rank's part of a parameter; padding is zero.
void read_part(SafetensorsReader const& reader, Tensor const& tensor, model::ParamDescription const& param,
               std::int64_t first, std::span<float> values) {
  if (!param.part) {
    return reader.read(tensor, first, values);
  }
  param.part->each_run(first, std::ssize(values), [&](model::CutPart::Run const& run) {
    auto const of_run =
        values.subspan(static_cast<std::size_t>(run.first - first), static_cast<std::size_t>(run.count));
    if (run.is_padding()) {
      std::ranges::fill(of_run, 0.0F);
    } else {
      reader.read(tensor, run.in_whole, of_run);
    }
  });
}

/// Stores all values that this rank holds. `result` becomes a warning if a value is not finite.
void store_slices(shard::ShardManager& manager, SafetensorsReader const& reader, std::span<float> values,
                  RankResult& result) {
  auto const& model = manager.memory.model();
  for (auto const param : model.params.ids()) {
    auto const& name = model.params[param].name;
    auto const& tensor = reader.tensors().at(name);
    auto const range = manager.values.held_of(param);
    for (auto first = range.begin; first < range.end; first += std::ssize(values)) {
      auto const piece = values.first(std::min(values.size(), static_cast<std::size_t>(range.end - first)));
      read_part(reader, tensor, model.params[param], first, piece);
      manager.values.store(param, first, piece);
      auto const odd = std::ranges::find_if_not(piece, [](float value) { return std::isfinite(value); });
      if (odd != piece.end() && result.kind == RankResult::Kind::nothing) {
        result = {RankResult::Kind::warning,
                  fmt::format("\"{}\" holds {} at element {}", name, *odd, first + (odd - piece.begin()))};
      }
    }
  }
}

}  // namespace

std::vector<RankResult> save_weights(WholeModel const& whole, std::filesystem::path const& file, Dtype dtype) {
  auto const& all = whole.all;
  auto& device = *all.device;
  whole.manager.parameters.await_gathers();
  std::optional<SafetensorsWriter> writer;  // on rank 0
  std::unique_ptr<device::Memory> on_host, of_parts;
  std::optional<Relay> relay;
  std::span<float> buffers;
  auto opened = run_on_all_ranks(saving, all, [&](RankResult&) {
    on_host = device.allocate_host(static_cast<std::int64_t>(whole.manager.values.transfer().size_bytes()));
    relay.emplace(device, all);
    if (all.rank() == 0) {
      auto const count = whole.part.of > 1 ? whole.part.of * Relay::most : 0;
      of_parts = device.allocate_host(count * bytes_of(Dtype::fp32));
      buffers = {reinterpret_cast<float*>(of_parts->data()), static_cast<std::size_t>(count)};
      writer.emplace(file, shapes_of(whole.share, dtype));
    }
  });
  if (failed(opened)) {
    return opened;
  }
  std::exception_ptr refused;
  send_all(whole, writer ? &*writer : nullptr, *on_host, *relay, buffers, refused);
  return run_on_all_ranks(saving, all, [&](RankResult&) {
    if (refused) {
      std::rethrow_exception(refused);
    }
    if (writer) {
      writer->commit();
    }
  });
}

std::vector<RankResult> load_weights(WholeModel const& whole, std::filesystem::path const& file,
                                     std::function<bool(std::string const& name)> const& left_out) {
  constexpr std::string_view purpose = "load_weights";
  constexpr std::size_t most = std::size_t{1} << 16U;
  auto const& all = whole.all;
  std::optional<SafetensorsReader> reader;
  std::vector<std::uint64_t> samples;
  std::unique_ptr<device::Memory> memory;
  auto opened = run_on_all_ranks(purpose, all, [&](RankResult&) {
    reader.emplace(file);
    check_tensors(file, *reader, whole.share, left_out);
    samples = sample(*reader, whole.share);  // throws for a dtype that it cannot read
    memory = all.device->allocate_host(static_cast<std::int64_t>(most * sizeof(float)));
  });
  if (failed(opened)) {
    return opened;
  }
  compare_files(samples, file, whole.share, all);
  auto const stored = run_on_all_ranks(purpose, all, [&](RankResult& mine) {
    whole.manager.parameters.await_gathers();
    whole.manager.parameters.drop_all();
    store_slices(whole.manager, *reader, {reinterpret_cast<float*>(memory->data()), most}, mine);
  });
  throw_if_failed("load_weights() failed after it had changed weights", stored);
  auto const warning = std::ranges::find(stored, RankResult::Kind::warning, &RankResult::kind);
  if (warning != stored.end() && warning - stored.begin() == all.rank()) {
    logger().warn("{}load_weights({}): {}: training continues with these values", rank_prefix(), file.string(),
                  warning->text);
  }
  return stored;
}

}  // namespace zeroth::engine
