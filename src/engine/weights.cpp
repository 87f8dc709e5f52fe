/// EngineState: weights to and from a file, straight from and to the shards.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "engine/engine_state.hpp"
#include "engine/safetensors.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::detail {

using comm::Collective;
using comm::Operation;
using engine::Verb;

namespace {

/// Rank 0's file. After the first error it takes no more, but the ranks still send to the end: nobody hangs.
class Sink {
 public:
  Sink(std::filesystem::path const& file, model::Description const& model) {
    std::vector<engine::NamedShape> tensors;
    for (auto const& param : model.params) {
      tensors.push_back({param.name, param.shape});
    }
    guarded([&] { writer_.emplace(file, tensors); });
  }
  void append(std::span<float const> values) {
    guarded([&] { writer_->append(values); });
  }
  void commit() {
    guarded([&] { writer_->commit(); });
  }
  [[nodiscard]] std::exception_ptr const& error() const noexcept { return error_; }

 private:
  template <class F>
  void guarded(F const& action) {
    if (!error_) {
      try {
        action();
      } catch (...) {
        error_ = std::current_exception();
      }
    }
  }
  std::optional<engine::SafetensorsWriter> writer_;
  std::exception_ptr error_;
};

/// All that is wrong with a file, at once.
void check_tensors(std::filesystem::path const& file, std::map<std::string, engine::Tensor> const& tensors,
                   model::Description const& model) {
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
    auto const known = [&name = name](auto const& param) { return param.name == name; };
    if (std::ranges::none_of(model.params, known)) {
      problems.push_back(fmt::format("\"{}\" is no parameter of the model", name));
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

void EngineState::save_weights(std::filesystem::path const& file) {
  check_between_passes("save_weights()");
  histories_[static_cast<std::size_t>(steps_ % 2)].add(Verb::save_weights);
  auto const rank = gather_comm_->rank();
  auto const send = [&](Operation operation, float* data, std::int64_t count, int peer) {
    std::array const transaction{Collective{operation, data, data, count, Dtype::fp32, peer}};
    gather_comm_->submit(*gather_stream_, {"save_weights", ""}, transaction);
    gather_stream_->synchronize();
  };
  try {
    meet("save_weights");
    manager_->await_gathers();
    std::optional<Sink> sink;
    if (rank == 0) {
      sink.emplace(file, *model_);
    }
    auto const buffer = manager_->transfer();
    auto const on_host = device_->allocate_host(static_cast<std::int64_t>(buffer.size_bytes()));
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
        auto& compute = device_->compute();
        device_->kernels().copy(compute, on_host->data(), piece.data(), count * bytes_of(Dtype::fp32));
        compute.synchronize();
        sink->append({reinterpret_cast<float const*>(on_host->data()), piece.size()});
      }
    };
    each_piece(*manager_, model_->params.size(), gather_comm_->world(), buffer, take);
    auto const flag = device_->allocate_host(sizeof(std::int64_t));
    auto& failed = *reinterpret_cast<std::int64_t*>(flag->data());
    if (rank == 0) {
      sink->commit();
      failed = sink->error() ? 1 : 0;
    }
    gather_comm_->broadcast(*gather_stream_, {"save_weights", ""}, &failed, &failed, 1, Dtype::int64, 0);
    gather_stream_->synchronize();
    if (rank == 0 && sink->error()) {
      std::rethrow_exception(sink->error());
    }
    if (failed != 0) {
      throw PeerError{fmt::format("save_weights({}): rank 0 could not write the file", file.string())};
    }
  } catch (...) {
    remember_failure(std::current_exception());
    throw;
  }
}

void EngineState::load_weights(std::filesystem::path const& file) {
  check_between_passes("load_weights()");
  histories_[static_cast<std::size_t>(steps_ % 2)].add(Verb::load_weights);
  try {
    engine::SafetensorsReader const reader{file};
    check_tensors(file, reader.tensors(), *model_);
    engine::compare_files(reader, file, *model_, exchange());
    manager_->await_gathers();
    manager_->drop_gathered(shard::Drop::all);
    constexpr std::size_t most = std::size_t{1} << 16U;
    auto const memory = device_->allocate_host(static_cast<std::int64_t>(most * sizeof(float)));
    std::span const values{reinterpret_cast<float*>(memory->data()), most};
    for (std::uint32_t param = 0; param < model_->params.size(); ++param) {
      auto const& tensor = reader.tensors().at(model_->params[param].name);
      auto const range = manager_->held_of(param);
      for (auto first = range.begin; first < range.end; first += std::ssize(values)) {
        auto const count = std::min(values.size(), static_cast<std::size_t>(range.end - first));
        auto const piece = values.first(count);
        reader.read(tensor, first, piece);
        manager_->store(param, first, piece);
      }
    }
    compare_replicas(shard::Moments::without, "load_weights()");
  } catch (...) {
    remember_failure(std::current_exception());
    throw;
  }
}

}  // namespace zeroth::detail
