// SPDX-License-Identifier: Apache-2.0
#include "engine/restore.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/hash.hpp"
#include "core/logger.hpp"
#include "engine/rank_result.hpp"
#include "engine/saved_states.hpp"
#include "zeroth/checkpoint/file_reader.hpp"
#include "zeroth/checkpoint/folder.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/config/changes.hpp"
#include "zeroth/tool/config/document.hpp"
#include "zeroth/tool/core/utf8.hpp"

namespace zeroth::engine {
namespace {

using checkpoint::Reader;
using detail::EngineState;

constexpr std::string_view purpose = "restore";  // also used by claim()

/// A checkpoint whose files this rank has checked.
struct Opened {
  std::unique_ptr<device::Memory> buffer;  // accessible to the device
  std::unique_ptr<Reader> reader;
  checkpoint::FoundByName found;  // of its contents
  std::vector<Arrival> arrivals;
};

/// Throws DamagedError at the first wrong hash.
void read(Opened& opened, checkpoint::TakeBytes const& take) {
  std::vector<checkpoint::Piece> pieces;
  for (auto const& arrival : opened.arrivals) {
    pieces.push_back(arrival.from.piece);
  }
  opened.reader->read(pieces, take);
}

/// Checks all that can be checked before anything is changed.
Opened open(EngineState const& engine, std::filesystem::path const& path, RestoreOptions const& options) {
  Opened opened;
  std::span<std::byte> buffer;  // if empty, the reader allocates its own, which is not filled with zeros first
  if (auto& device = *engine.runtime.device; !device.has_host_memory()) {
    opened.buffer = device.allocate_host(Reader::buffer_bytes);  // pinned, for the device's copies
    buffer = {opened.buffer->data(), static_cast<std::size_t>(opened.buffer->bytes())};
  }
  opened.reader = std::make_unique<Reader>(path, engine.settings().checkpoint.direct_io, buffer);
  auto& reader = *opened.reader;
  opened.found = reader.record().contents.by_name();
  if (auto wrong = misfits(reader.record(), engine.runtime.share, opened.found, *engine.sharded.manager, options);
      !wrong.empty()) {
    constexpr std::size_t shown = 20;
    auto const more = wrong.size() > shown ? fmt::format("\n  and {} more", wrong.size() - shown) : std::string{};
    wrong.resize(std::min(wrong.size(), shown));
    throw ContractError{fmt::format(
        "checkpoint {} does not fit:\n  {}{}\n  (RestoreOptions::partial takes what both have, RestoreOptions::of "
        "weights alone)",
        reader.folder().string(), fmt::join(wrong, "\n  "), more)};
  }
  opened.arrivals = arrivals(reader.record(), opened.found, *engine.sharded.manager, options);
  for (auto const& arrival : opened.arrivals) {
    reader.check_file(arrival.from.piece.place);
  }
  if (options.start_over_if_all_damaged) {  // starting over is possible only before anything was changed
    read(opened, [](std::size_t, std::int64_t, std::span<std::byte const>) {});
  }
  return opened;
}

/// Checks that all ranks opened the same checkpoint: each rank reads for itself, and folders may differ between
/// machines.
void expect_same(checkpoint::Record const& record, Exchange const& exchange) {
  std::array const mine{Fnv1a{}.characters(record.save_id).value(), static_cast<std::uint64_t>(record.position.step)};
  auto const all = gather(std::span<std::uint64_t const>{mine}, purpose, exchange);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != all[i % mine.size()]) {
      throw SystemError{fmt::format(
          "restore(): ranks {} and {} found different checkpoints, of steps {} and {}: all "
          "ranks must see the same folder",
          exchange.job_rank(0), exchange.job_rank(i / mine.size()), all[1], all[i / mine.size() * mine.size() + 1])};
    }
  }
}

/// Copies elements of a file to memory of this rank's slice. Does not wait.
void put_elements(device::Device& device, Arrival const& arrival, std::byte* to, std::byte const* from,
                  std::int64_t count) {
  constexpr std::int64_t small_bytes = std::int64_t{1} << 14U;  // below this size calling a kernel takes longer than
                                                                // the copy
  auto& kernels = device.kernels();
  auto const held = arrival.slice.dtype;
  auto const bytes = count * bytes_of(held);
  if (arrival.saved == held && bytes < small_bytes && device.has_host_memory()) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  } else if (arrival.saved == held) {
    kernels.copy(device.compute(), to, from, bytes);
  } else {
    kernels.convert(device.compute(), to, held, from, arrival.saved, count);
  }
}

void read_states(device::Device& device, Opened& opened, RestoreOptions const& options) {
  std::int64_t all = 0, done_bytes = 0;
  for (auto const& arrival : opened.arrivals) {
    all += arrival.from.piece.bytes;
  }
  read(opened, [&](std::size_t index, std::int64_t offset, std::span<std::byte const> bytes) {
    auto const& arrival = opened.arrivals[index];
    auto const size = bytes_of(arrival.saved);
    auto const begin = arrival.from.first + offset / size;
    auto const take = [&](std::int64_t in_saved, std::int64_t in_held, std::int64_t count) {
      auto const first = arrival.before + in_held;
      auto const* const from = bytes.data() + (in_saved - begin) * size;
      arrival.slice.edit({first, first + count}, [&](std::byte* to, std::int64_t done, std::int64_t some) {
        put_elements(device, arrival, to, from + done * size, some);
      });
    };
    arrival.crossing->each_run(begin, std::ssize(bytes) / size, take);
    device.compute().synchronize();  // the bytes are valid only during this call
    if (done_bytes += std::ssize(bytes); options.progress) {
      options.progress(done_bytes, all);
    }
  });
}

/// Updates all that follows from the states that were read.
void spread(EngineState& engine, checkpoint::Record const& record, RestoreOptions const& options) {
  auto& manager = *engine.sharded.manager;
  if (engine.settings().update.ema_decay >= 0 && !has_averages(record, options)) {
    manager.values.begin_averages();
  }
  manager.slices.spread();
  if (options.of == RestoreOf::everything) {
    take_position(engine, record.position);
  } else {
    engine.session.protocol->end_restore(engine.session.protocol->steps());
  }
  engine.compare_replicas(shard::States::with, "restore()");
  engine.compare_ties(shard::States::with, "restore()");
}

void tell(EngineState const& engine, Opened const& opened, RestoreOptions const& options) {
  auto const& reader = *opened.reader;
  auto const& record = reader.record();
  bool const whole = options.of == RestoreOf::everything;
  logger().info("{}restored {}step {} from {}, saved {} by {} ranks", rank_prefix(), whole ? "" : "the weights of ",
                record.position.step, reader.folder().string(), escaped(record.origin.created), record.contents.places);
  if (auto lines = left_out(record, engine.runtime.share, opened.found, options); !lines.empty()) {
    constexpr std::size_t shown = 50;
    auto const more = lines.size() > shown ? fmt::format("\n  and {} more", lines.size() - shown) : std::string{};
    lines.resize(std::min(lines.size(), shown));
    logger().info("{}{} was restored in part:\n  {}{}", rank_prefix(), reader.folder().string(),
                  fmt::join(lines, "\n  "), more);
  }
  if (!whole) {
    return;
  }
  if (!has_errors(record, *engine.sharded.manager)) {
    logger().info(
        "{}encoding errors of gradients or momenta start at zero: {} has none of it for {} data-parallel ranks",
        rank_prefix(), reader.folder().string(), engine.runtime.exchange().world());
  }
  if (auto const changes = config::changes(record.stage_file, engine.session.stage_file); !changes.empty()) {
    logger().info("{}the stage file has changed since {} was saved, and its new values apply:\n  {}", rank_prefix(),
                  reader.folder().string(), fmt::join(changes, "\n  "));
  }
  if (auto const seed = engine.sharded.model->seed; seed != record.model_seed) {
    logger().info("{}the model's seed is {}, but was {} when {} was saved: random() in passes uses the new one",
                  rank_prefix(), seed, record.model_seed, reader.folder().string());
  }
}

/// Returns rank 0's answer, or throws its error on all ranks: a folder may change while ranks look at it. Collective;
/// waits.
template <class F>
std::string said_by_first(EngineState& engine, std::string_view call, F const& say) {
  auto const exchange = engine.runtime.whole();
  auto const all = engine.or_end([&] {
    return run_on_all_ranks(purpose, exchange, [&](RankResult& mine) {
      if (exchange.rank() == 0) {
        mine.text = say();
        mine.kind = RankResult::Kind::warning;
      }
    });
  });
  throw_if_failed(fmt::format("{} failed and changed nothing", call), all);
  return all.front().text;
}

/// The start of every restore: all ranks meet, and a running save is waited for.
void begin_together(EngineState& engine) {
  engine.or_end([&] {
    engine.meet(purpose);
    if (engine.session.checkpoints) {
      engine.session.checkpoints->settle();
    }
  });
}

/// Restores the checkpoint in `path`. Collective.
Restored restore_from(EngineState& engine, std::filesystem::path const& path, RestoreOptions const& options) {
  auto const exchange = engine.runtime.whole();
  Opened opened;
  auto const looked = engine.or_end(
      [&] { return run_on_all_ranks(purpose, exchange, [&](RankResult&) { opened = open(engine, path, options); }); });
  throw_if_failed("restore() failed and changed nothing", looked);
  auto const& record = opened.reader->record();
  expect_same(record, exchange);
  engine.session.protocol->begin_restore();
  auto const read = engine.or_end([&] {
    engine.runtime.gather_stream->synchronize();
    engine.runtime.reduce_stream->synchronize();
    engine.runtime.device->compute().synchronize();
    engine.sharded.manager->parameters.drop_all();
    if (options.of == RestoreOf::everything) {
      engine.sharded.manager->memory.clear_errors();
    }
    return run_on_all_ranks(purpose, exchange,
                            [&](RankResult&) { read_states(*engine.runtime.device, opened, options); });
  });
  throw_if_failed("restore() failed after it had changed states", read);
  engine.or_end([&] { spread(engine, record, options); });
  if (exchange.rank() == 0) {
    tell(engine, opened, options);
  }
  return {opened.reader->folder(), record.position.step, record.position.samples, record.program_state,
          record.contents.ranks()};
}

/// Rank 0's view of a folder of checkpoints.
struct Listing {
  std::string of_latest;           ///< The problem with `latest`; empty if there is no problem or no such file.
  std::vector<std::string> names;  ///< In the order in which to try them.
};

/// One name per line, after a line with the problem with `latest`.
std::string lines_of(std::filesystem::path const& folder) {
  for (auto latest = checkpoint::latest_in(folder);;) {
    auto const paths = checkpoint::newest_first(folder);
    bool const is_there = !latest || std::ranges::find(paths, folder / *latest) != paths.end();
    auto const before = std::exchange(latest, checkpoint::latest_in(folder));
    if (!is_there && latest != before) {
      continue;  // another job that saves here has removed it, and a newer one exists
    }
    auto lines = is_there ? std::string{}
                          : fmt::format("checkpoint {}: {} names {}, which is not a checkpoint in this folder",
                                        folder.string(), checkpoint::latest_name, config::in_quotes(*latest));
    lines += '\n';
    for (auto const& path : paths) {
      lines += path.filename().string() + '\n';
    }
    return lines;
  }
}

Listing list(EngineState& engine, std::filesystem::path const& folder) {
  auto const text = said_by_first(engine, "restore_latest()", [&] { return lines_of(folder); });
  Listing listing;
  for (std::string_view left = text; !left.empty();) {
    listing.names.emplace_back(left.substr(0, left.find('\n')));
    left.remove_prefix(listing.names.back().size() + 1);
  }
  listing.of_latest = listing.names.front();
  listing.names.erase(listing.names.begin());
  return listing;
}

}  // namespace

void take_position(EngineState& engine, checkpoint::Position const& position) {
  auto const& rules = engine.settings().rules.loss_scale;
  bool const keeps_scale = rules.dynamic && position.loss_scale;
  engine.sharded.manager->optimizer.restore(position.applied,
                                            keeps_scale ? *position.loss_scale : optim::initial_state(rules));
  engine.session.protocol->end_restore(position.step);
  engine.session.samples = position.samples;
  engine.session.first_step = position.step;
  engine.session.told_nonfinite = false;
  engine.runtime.set_options({.timeout = engine.settings().timeout, .check = true});
  engine.session.accumulator.emplace(engine.counters());
  engine.record_addends();
}

void claim(EngineState& engine, std::filesystem::path const& folder) {
  begin_together(engine);
  said_by_first(engine, "claim()", [&] {
    engine.session.claim(folder);
    return "";
  });
}

Restored restore(EngineState& engine, std::filesystem::path const& path, RestoreOptions const& options) {
  begin_together(engine);
  auto const find = [&] {
    auto const name = said_by_first(engine, "restore()", [&] {
      auto const found = checkpoint::find_checkpoint(path);
      return found == path ? std::string{} : found.filename().string();
    });
    return name.empty() ? path : path / name;
  };
  for (auto found = find();;) {
    try {
      return restore_from(engine, found, options);
    } catch (DamagedError const&) {
      if (engine.session.protocol->failure()) {
        throw;
      }
      auto const before = std::exchange(found, find());
      if (found == before) {  // otherwise another job that saves here has removed it, and a newer one exists
        throw;
      }
    }
  }
}

std::optional<Restored> restore_latest(EngineState& engine, std::filesystem::path const& folder,
                                       RestoreOptions const& options) {
  begin_together(engine);
  auto const warn = [&](std::string_view text) {
    if (engine.runtime.whole().rank() == 0) {
      logger().warn("{}", text);
    }
  };
  said_by_first(engine, "restore_latest()", [&] {
    if (::access(folder.c_str(), W_OK | X_OK) == 0) {
      engine.session.claim(folder);
    }
    return "";
  });
  std::exception_ptr failure;  // the last one
  std::string passed_over;     // its message
  for (std::set<std::string> tried;;) {
    // List again each time: another job that saves here may have removed entries of the last list.
    auto const [of_latest, names] = list(engine, folder);
    if (!of_latest.empty() && !failure) {
      passed_over = rank_prefix() + of_latest;
      failure = std::make_exception_ptr(DamagedError{of_latest});
    }
    auto const next = std::ranges::find_if(names, [&](auto const& name) { return !tried.contains(name); });
    if (next == names.end()) {
      if (failure && !options.start_over_if_all_damaged) {
        std::rethrow_exception(failure);
      }
      if (failure) {
        warn(passed_over + "; no other checkpoint is left, and training starts over");
      }
      return std::nullopt;
    }
    if (failure) {
      warn(fmt::format("{}; trying {}", passed_over, *next));
    }
    tried.insert(*next);
    try {
      return restore_from(engine, folder / *next, options);
    } catch (DamagedError const& error) {
      if (engine.session.protocol->failure()) {
        throw;
      }
      passed_over = error.what();
      failure = std::current_exception();
    }
  }
}

}  // namespace zeroth::engine
