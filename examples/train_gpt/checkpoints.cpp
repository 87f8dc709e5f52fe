// SPDX-License-Identifier: Apache-2.0
#include "checkpoints.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include <zeroth/checkpoint/folder.hpp>
#include <zeroth/core/error.hpp>
#include <zeroth/engine/work_bar.hpp>

namespace gpt {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(fs::path const& folder, std::error_code const& error) {
  throw zeroth::SystemError{fmt::format("--checkpoint {}: cannot be written: {}", folder.string(), error.message())};
}

/// Whether `path` is `folder`, or a checkpoint in it.
bool is_of(fs::path const& path, fs::path const& folder) {
  std::error_code ignored;
  return fs::equivalent(path, folder, ignored) || fs::equivalent(path / "..", folder, ignored);
}

}  // namespace

void prepare_checkpoints(Options const& options) {
  auto const& folder = options.checkpoint;
  std::error_code error;
  bool const from_path = !options.resume.empty() && options.resume != resume_newest;
  if (from_path && fs::status(options.resume, error).type() == fs::file_type::not_found) {
    throw zeroth::ConfigError{fmt::format("--resume {}: there is no such folder", options.resume.string())};
  }
  if (folder.empty()) {
    return;
  }
  if (fs::exists(folder, error) && !fs::is_directory(folder, error)) {
    throw zeroth::ConfigError{fmt::format("--checkpoint {}: is not a folder", folder.string())};
  }
  fs::create_directories(folder, error);
  if (error) {
    refuse(folder, error);
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    refuse(folder, {errno, std::generic_category()});
  }
  if (options.resume == resume_newest) {
    return;
  }
  auto const found = zeroth::checkpoint::newest_first(folder);
  bool const has_any = !found.empty() || zeroth::checkpoint::latest_in(folder);
  if (has_any && (options.resume.empty() || !is_of(options.resume, folder))) {
    throw zeroth::ConfigError{fmt::format(
        "--checkpoint {}: has {} of another run, which this one would mix with its own: resume it with --resume auto, "
        "or give another folder to a run that begins {}",
        folder.string(), found.empty() ? zeroth::checkpoint::latest_name : found.front().filename().string(),
        options.resume.empty() ? "anew" : "with " + options.resume.string())};
  }
}

Checkpoints::Checkpoints(zeroth::Job& job, Options const& options, zeroth::SampleOrder const& order, std::string facts)
    : options_{options}, order_{order}, facts_{std::move(facts)} {
  if (options.max_restarts > 0 && job.communicator().transport() != zeroth::comm::Transport::local) {
    throw zeroth::ConfigError{
        "--max-restarts is for ranks that are threads, but a launcher started these: use zeroth run --max-restarts, "
        "which restarts processes"};
  }
}

std::optional<zeroth::Restored> Checkpoints::resume(zeroth::AnyEngine& engine) {
  if (!options_.checkpoint.empty()) {
    engine.claim(options_.checkpoint);  // before there are steps to lose
  }
  std::optional<zeroth::Restored> restored;
  zeroth::WorkBar bar{"restore"};  // on rank 0
  zeroth::RestoreOptions options{.order = order_};
  if (engine.place() == 0) {
    options.progress = [&bar](std::int64_t done, std::int64_t all) { bar.set(done, all); };
  }
  if (!options_.resume.empty() && options_.resume != resume_newest) {
    restored = engine.restore(options_.resume, options);
  } else if (!options_.checkpoint.empty()) {  // without --resume a restart still finds the run's own checkpoints
    restored = engine.restore_latest(options_.checkpoint, options);
  }
  last_ = restored ? restored->step : -1;
  return restored;
}

void Checkpoints::after_step(zeroth::AnyEngine& engine, std::int64_t step, double elapsed_s) {
  bool const by_step = options_.save_every && step % *options_.save_every == 0;
  bool const by_time = options_.save_every_s && elapsed_s - saved_at_s_ >= *options_.save_every_s;
  if (by_step || by_time) {
    saved_at_s_ = elapsed_s;
    settle();
    save(engine, step);
  }
}

void Checkpoints::finish(zeroth::AnyEngine& engine, std::int64_t step) {
  if (!options_.checkpoint.empty() && step != last_) {
    settle();
    save(engine, step);
  }
  if (saving_) {
    std::exchange(saving_, std::nullopt)->wait();
  }
}

void Checkpoints::save(zeroth::AnyEngine& engine, std::int64_t step) {
  saving_ = engine.save(options_.checkpoint,
                        {.program_state = std::as_bytes(std::span{facts_}), .order = order_, .keep = options_.keep});
  last_ = step;
}

/// Waits for a running save.
void Checkpoints::settle() {
  if (saving_) {
    try {
      std::exchange(saving_, std::nullopt)->wait();
      was_well_ = true;
    } catch (zeroth::SystemError const&) {
      if (!was_well_) {
        throw;
      }
    }
  }
}

}  // namespace gpt
