// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoints.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <span>
#include <string_view>
#include <utility>

#include "comm/launch/job_state.hpp"
#include "core/host_name.hpp"
#include "core/logger.hpp"
#include "engine/engine_state.hpp"
#include "engine/whole_contents.hpp"
#include "zeroth/checkpoint/folder.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/core/input_file.hpp"
#include "zeroth/version.hpp"

namespace zeroth::engine {
namespace {

using checkpoint::Saver;
using State = Saver::State;

checkpoint::Origin origin() {
  return {.created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))),
          .version = std::string{version},
          .host = host_name(),
          .process = ::getpid()};
}

/// The number of the first file of the ranks that share states with this one. Files are ordered by stage, then by part
/// of the parameters, then by place.
int first_place(Runtime const& runtime) {
  return (runtime.share.stage() * runtime.part.of + runtime.part.index) * runtime.exchange().world();
}

}  // namespace

struct Checkpoints::Save {
  std::filesystem::path folder, partial;
  checkpoint::Record record;  // without contents; on ranks other than 0 mostly empty
  checkpoint::Retention retention;
  /// Index of the device results of the saved step, while the host has not read them yet.
  std::optional<int> parity;
  bool committing = false;  ///< All ranks have written their files.
};

Checkpoints::Checkpoints(detail::EngineState& engine)
    : engine_{engine},
      place_{first_place(engine.runtime) + engine.runtime.exchange().rank()},
      arrangement_{
          checkpoint::arrange(*engine.sharded.manager, first_place(engine.runtime), engine.runtime.whole().world())},
      saver_{*engine.runtime.device, engine.settings().checkpoint.buffer_bytes,
             engine.sharded.manager->memory.offloaded()} {
  if (engine.runtime.stages) {
    of_all_ = gather_contents(arrangement_.contents, engine.runtime.exchange(), engine.runtime.whole());
  }
}

Checkpoints::~Checkpoints() {
  engine_.sharded.manager->optimizer.set_before_update({});
  engine_.sharded.manager->gradients.set_before_errors({});
  if (save_ && place_ == 0) {
    logger().warn(
        "{}the save of step {} into {} was not finished: call Saving::wait() or finish() before the engine is "
        "destroyed",
        rank_prefix(), save_->record.position.step, save_->folder.string());
  }
}

std::int64_t Checkpoints::save(std::filesystem::path const& folder, SaveOptions const& options) {
  auto const& settings = engine_.settings();
  auto save = std::make_unique<Save>();
  auto& record = save->record;
  record.save_id = fmt::format("{:016x}{:016x}", engine_.session.run_id, ++number_);
  record.position.step = engine_.session.protocol->steps();
  record.position.samples = engine_.session.samples;
  save->folder = folder;
  save->partial = checkpoint::partial_folder(folder, record.position.step, record.save_id);
  save->retention = {options.keep.value_or(settings.checkpoint.keep), options.keep_every, options.keep_for};
  save->parity = engine_.sharded.manager->optimizer.last_decision();
  if (place_ == 0) {
    record.order = options.order;
    record.model_seed = engine_.sharded.model->seed;
    record.rounding_seed = settings.update.rounding_seed;
    record.optimizer = settings.optimizer_name();
    record.stage_file = engine_.session.stage_file;
    record.program_state.assign(options.program_state.begin(), options.program_state.end());
  }
  auto& rank_states = arrangement_.contents.rank_states;
  rank_states.assign(options.rank_state ? static_cast<std::size_t>(arrangement_.contents.places) : std::size_t{0}, 0);
  std::vector<std::byte> rank_state;
  if (options.rank_state) {
    rank_state.assign(options.rank_state->begin(), options.rank_state->end());
    rank_states[static_cast<std::size_t>(place_)] = std::ssize(rank_state);
  }
  auto header = checkpoint::file_header(arrangement_.contents, place_, record.save_id);
  auto const prepare = [this, folder, partial = save->partial, id = record.save_id, header_bytes = std::ssize(header)] {
    if (header_bytes > largest_text) {  // checked here, because a failure here reaches all ranks
      throw SystemError{
          fmt::format("checkpoint {}: the header of {} would have {} bytes; allowed are up to {}, the "
                      "limit of safetensors itself: with more ranks each file lists fewer parameters",
                      partial.string(), checkpoint::file_name(place_), header_bytes, largest_text)};
    }
    if (place_ == 0) {
      engine_.session.claim(folder);
      engine_.session.claimed->clear(id);
    }
    checkpoint::make_partial_folder(partial);
  };
  save_ = std::move(save);
  std::vector<device::Event const*> on_disks;
  for (auto* const disk : engine_.sharded.manager->memory.offloaded()) {
    on_disks.push_back(&disk->written());
  }
  saver_.write({.path = save_->partial / checkpoint::file_name(place_),
                .header = std::move(header),
                .place = place_,
                .contents = &arrangement_.contents,
                .sources = arrangement_.sources,
                .rank_state = std::move(rank_state),
                .direct = settings.checkpoint.direct_io ? Direct::on : Direct::off,
                .prepare = prepare,
                .on_disks = std::move(on_disks)});
  engine_.sharded.manager->optimizer.set_before_update(
      [this](shard::FlatId flat) { await_read(arrangement_.reads[flat]); });
  engine_.sharded.manager->gradients.set_before_errors([this] { await_read(arrangement_.errors); });
  return number_;
}

std::filesystem::path Checkpoints::path() const {
  return save_->folder / checkpoint::checkpoint_name(save_->record.position.step);
}

void Checkpoints::await_read(std::size_t count) {
  auto const begin = Clock::now();
  if (await_sources(count)) {
    waited_ms_ += std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }
}

void Checkpoints::await_read() { await_sources(arrangement_.sources.size()); }

/// Waits for the first `count` sources, while other ranks wait for this one. Returns whether it had to wait.
bool Checkpoints::await_sources(std::size_t count) {
  auto const timeout = engine_.settings().timeout;
  return saver_.await_read(count, timeout / 2, [&] {
    logger().warn(
        "{}an update has waited {} ms for the save of step {} into {}, which still reads what the update changes: "
        "ranks that wait for this one give up after {} ms (zeroth.timeout_ms)",
        rank_prefix(), (timeout / 2).count(), save_->record.position.step, save_->folder.string(), timeout.count());
  });
}

/// Call after the device has decided the saved step, and before it decides the step two later.
void Checkpoints::note_position() {
  if (!save_->parity) {
    return;
  }
  auto const& results = engine_.sharded.manager->optimizer.results();
  auto const parity = *std::exchange(save_->parity, std::nullopt);
  auto const& scalars = parity < 0 ? results.initial.scalars : results.scalars[static_cast<std::size_t>(parity)];
  auto& position = save_->record.position;
  position.applied = scalars.applied;
  if (engine_.settings().rules.loss_scale.dynamic) {
    position.loss_scale = scalars.loss_scale;
  }
}

void Checkpoints::add_to(optim::StepSums& sums) const {
  if (save_) {
    auto const state = saver_.state();
    sums.saved = state == State::written || state == State::committing ? 1 : state == State::committed ? 2 : 0;
    sums.save_failed = state == State::failed ? 1 : 0;
  }
}

bool Checkpoints::see(std::int64_t step, optim::StepSums const& total) {
  if (!save_) {
    return false;
  }
  note_position();
  auto const world = static_cast<double>(engine_.runtime.whole().world());
  if (step <= save_->record.position.step) {
    return false;  // these sums are older than the save
  }
  if (total.save_failed > 0) {
    saver_.cancel();
    saver_.wait();
    end(gather_results(result(), "save", engine_.runtime.whole()));
  } else if (total.saved > world) {
    end({});
  } else if (total.saved == world && !save_->committing) {
    commit();
  }
  return !save_ && failed_number_ == number_;
}

/// Call when all ranks have written their files.
void Checkpoints::commit() {
  save_->committing = true;
  if (place_ == 0) {
    saver_.commit([this, &save = *save_] {
      auto& contents = save.record.contents;
      contents = of_all_ ? *of_all_ : arrangement_.contents;
      if (!arrangement_.contents.rank_states.empty()) {
        contents.rank_states = checkpoint::rank_states_in(save.partial, contents);
      }
      save.record.origin = origin();
      checkpoint::commit(save.folder, save.partial, save.record, save.retention, known_);
      engine_.runtime.job->note_progress(save.record.position.step);
    });
  }
}

/// Waits until no rank's saver is busy. A disk may take longer than a collective's timeout, so ranks exchange their
/// state four times per timeout.
void Checkpoints::await_all() {
  auto const slice = std::max(engine_.settings().timeout / 4, std::chrono::milliseconds{1});
  for (std::int64_t at_work = 1; at_work > 0;) {
    std::int64_t const mine = saver_.wait_for(slice) ? 0 : 1;
    auto const all = gather(std::span{&mine, 1}, "save", engine_.runtime.whole());
    at_work = std::ranges::max(all);
  }
}

void Checkpoints::settle() {
  if (!save_) {
    return;
  }
  note_position();
  await_all();
  auto results = gather_results(result(), "save", engine_.runtime.whole());
  if (!save_->committing && std::ranges::none_of(results, &RankResult::failed)) {
    commit();
    await_all();
    results = gather_results(result(), "save", engine_.runtime.whole());
  }
  end(results);
}

RankResult Checkpoints::result() const {
  auto const failure = saver_.state() == State::failed ? saver_.failure() : nullptr;
  if (!failure) {
    return {};
  }
  try {
    std::rethrow_exception(failure);
  } catch (...) {
    return describe_failure();
  }
}

void Checkpoints::end(std::vector<RankResult> const& results) {
  auto const save = std::move(save_);
  engine_.sharded.manager->optimizer.set_before_update({});
  engine_.sharded.manager->gradients.set_before_errors({});
  try {
    throw_if_failed(fmt::format("save() of step {} into {} failed and changed nothing", save->record.position.step,
                                save->folder.string()),
                    results);
  } catch (Error const& error) {
    failure_ = std::current_exception();
    failed_number_ = number_;
    told_ = false;
    if (place_ > 0) {
      checkpoint::discard(save->partial, place_);
    } else {
      checkpoint::discard(save->partial);
      logger().warn("{}; training continues", error.what());
    }
  }
}

void Checkpoints::rethrow() {
  if (!std::exchange(told_, true)) {
    std::rethrow_exception(failure_);
  }
}

void Checkpoints::rethrow(std::int64_t number) {
  if (number == failed_number_) {
    told_ = true;
    std::rethrow_exception(failure_);
  }
}

std::optional<std::string> Checkpoints::take_failure(std::int64_t number) {
  try {
    rethrow(number);
  } catch (std::exception const& error) {
    return error.what();
  }
  return std::nullopt;
}

}  // namespace zeroth::engine
