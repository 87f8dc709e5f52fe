// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/commit.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint/unreadable.hpp"
#include "core/block_file.hpp"
#include "core/host_name.hpp"
#include "core/logger.hpp"
#include "zeroth/checkpoint/contents.hpp"
#include "zeroth/checkpoint/folder.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/config/document.hpp"
#include "zeroth/tool/core/input_file.hpp"
#include "zeroth/tool/core/whole_file.hpp"

namespace zeroth::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr char const* lock_name = ".lock";

std::string text_of(int error) { return std::generic_category().message(error); }

[[noreturn]] void refuse(fs::path const& path, std::string_view reason) {
  throw SystemError{fmt::format("checkpoint {}: {}", path.string(), reason)};
}

void sync(fs::path const& folder) {
  if (int const error = sync_folder(folder); error != 0) {
    refuse(folder, fmt::format("cannot be written to the disk: {}", text_of(error)));
  }
}

/// Makes `folder` and its missing parents. Each is on the disk before the next is made.
void make_folder(fs::path const& folder, std::error_code& error) {
  if (fs::is_directory(folder, error)) {
    return;
  }
  error.clear();
  auto const parent = folder.parent_path();
  if (!parent.empty() && parent != folder) {
    make_folder(parent, error);
  }
  if (!error && fs::create_directory(folder, error)) {
    error.assign(sync_folder(parent.empty() ? "." : parent), std::generic_category());
  }
}

/// Checks that all files exist: ranks may not all see the same file system, or files were deleted. Does not use
/// contents.spaces.
void expect_files(fs::path const& partial, Contents const& contents) {
  for (int place = 0; place < contents.places; ++place) {
    auto const table = hash_count(contents, place) * static_cast<std::int64_t>(sizeof(std::uint64_t));
    auto const bytes = contents.data_bytes(place) + table;
    std::error_code error;
    auto const size = fs::file_size(partial / file_name(place), error);
    if (error) {
      refuse(partial, fmt::format("{} of another rank cannot be found: {}; all ranks must see the same folder",
                                  file_name(place), error.message()));
    }
    if (static_cast<std::int64_t>(size) < bytes) {
      refuse(partial, fmt::format("{} has {} bytes, fewer than the {} of its data", file_name(place), size, bytes));
    }
  }
}

/// Renames `partial` to `checkpoint`. An older checkpoint with that name, of the same step in an earlier attempt, swaps
/// names with it: if the file system can swap, the name always exists.
void give_name(fs::path const& partial, fs::path const& checkpoint) {
  std::error_code error;
  if (!fs::exists(checkpoint, error)) {
    fs::rename(partial, checkpoint, error);
  } else if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, checkpoint.c_str(), RENAME_EXCHANGE) == 0) {
    error.clear();
  } else if (errno == EINVAL || errno == ENOSYS) {
    auto leaving = checkpoint;
    leaving += leaving_suffix;
    fs::rename(checkpoint, leaving, error);
    if (!error) {
      fs::rename(partial, checkpoint, error);
    }
  } else {
    error.assign(errno, std::generic_category());
  }
  if (error) {
    refuse(checkpoint, fmt::format("cannot be renamed into place: {}", error.message()));
  }
}

/// Undoes give_name().
void take_name(fs::path const& partial, fs::path const& checkpoint) {
  std::error_code error;
  if (fs::exists(partial, error)) {  // it holds the checkpoint that had the name
    if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, checkpoint.c_str(), RENAME_EXCHANGE) != 0) {
      error.assign(errno, std::generic_category());
    }
  } else if (!error) {
    fs::rename(checkpoint, partial, error);
    auto leaving = checkpoint;
    leaving += leaving_suffix;
    std::error_code of_test;
    if (!error && fs::exists(leaving, of_test)) {
      fs::rename(leaving, checkpoint, error);
    }
  }
  if (error) {
    logger().warn("{}checkpoint {}: exists although its save failed: {}", rank_prefix(), checkpoint.string(),
                  error.message());
  }
}

/// Compares times of last change, and reads no record, which may be large. A checkpoint without a record or a time
/// counts as young.
bool is_younger(fs::path const& checkpoint, std::chrono::seconds than) {
  if (than <= std::chrono::seconds{0}) {
    return false;
  }
  std::error_code error;
  auto const written = fs::last_write_time(checkpoint / record_name, error);
  return error || fs::file_time_type::clock::now() - written < than;
}

/// Removes the checkpoints that `retention` does not keep. One that is being read stays until a later save.
void retain(fs::path const& folder, std::int64_t newest, Retention const& retention, KnownFiles& known) {
  for (auto const& checkpoint : unneeded_in(folder, newest, retention, known)) {
    try {
      static_cast<void>(remove_checkpoint(checkpoint));
    } catch (SystemError const& error) {
      logger().warn("{}{}", rank_prefix(), error.what());
    }
    known.forget(checkpoint);
  }
}

}  // namespace

FolderLock::FolderLock(fs::path folder, std::string const& job) : folder_{std::move(folder)} {
  std::error_code error;
  make_folder(folder_, error);
  if (error) {
    refuse(folder_, fmt::format("the folder cannot be created: {}", error.message()));
  }
  auto const file = folder_ / lock_name;
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    refuse(file, fmt::format("cannot be opened: {}", text_of(errno)));
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
    locked_ = true;
    auto const text = fmt::format("process {} on {}, job {}\n", ::getpid(), host_name(), job);
    // The text is for people; the lock is the system's.
    static_cast<void>(!(::ftruncate(descriptor_, 0) == 0 && ::pwrite(descriptor_, text.data(), text.size(), 0) > 0));
  } else if (errno == EWOULDBLOCK) {
    std::string owner(512, '\0');
    auto const bytes = ::pread(descriptor_, owner.data(), owner.size(), 0);
    owner.resize(static_cast<std::size_t>(std::max<::ssize_t>(bytes, 0)));
    owner.resize(std::min(owner.size(), owner.find('\n')));
    ::close(descriptor_);
    refuse(folder_, fmt::format("another job is saving here: {}; this is job {}; use one folder per job",
                                config::in_quotes(owner), job));
  } else {
    logger().warn("{}checkpoint {}: no file locks are available ({}): make sure that only one job saves here",
                  rank_prefix(), folder_.string(), text_of(errno));
  }
}

FolderLock::~FolderLock() { ::close(descriptor_); }

bool FolderLock::holds(fs::path const& folder) const {
  struct stat held = {};
  struct stat there = {};
  return folder == folder_ && ::fstat(descriptor_, &held) == 0 && ::stat((folder / lock_name).c_str(), &there) == 0 &&
         held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

void FolderLock::clear(std::string const& save_id) const {
  if (!locked_) {
    return;
  }
  for (auto const& path : leftovers_in(folder_)) {
    if (path.filename().string().find(save_id) == std::string::npos) {
      discard(path);
    }
  }
}

std::vector<fs::path> leftovers_in(fs::path const& folder) {
  std::vector<fs::path> left;
  std::error_code error;
  for (auto each = fs::directory_iterator{folder, error}; !error && each != fs::directory_iterator{};
       each.increment(error)) {
    auto const name = each->path().filename().string();
    bool const is_ours = name.ends_with(partial_suffix) || name.ends_with(leaving_suffix);
    auto const of = name.substr(0, name.find('.'));
    if (is_ours && (step_of(of) || of == latest_name)) {
      left.push_back(each->path());
    }
  }
  std::ranges::sort(left);
  return left;
}

std::vector<fs::path> unneeded_in(fs::path const& folder, std::int64_t newest, Retention const& retention,
                                  KnownFiles& known) {
  std::vector<fs::path> unneeded;
  if (retention.keep == 0) {
    return unneeded;
  }
  std::int64_t kept = 0;
  for (auto const& checkpoint : newest_first(folder)) {
    auto const step = *step_of(checkpoint.filename().string());
    if (step > newest) {
      continue;
    }
    bool const stays = kept < retention.keep || (retention.keep_every > 0 && step % retention.keep_every == 0) ||
                       is_younger(checkpoint, retention.keep_for);
    if (!stays) {
      unneeded.push_back(checkpoint);
    } else if (kept < retention.keep && known.seem_whole(checkpoint)) {
      ++kept;
    }
  }
  return unneeded;
}

fs::path partial_folder(fs::path const& folder, std::int64_t step, std::string const& save_id) {
  return folder / fmt::format("{}.{}{}", checkpoint_name(step), save_id, partial_suffix);
}

void make_partial_folder(fs::path const& partial) {
  std::error_code error;
  make_folder(partial.parent_path(), error);
  if (!error) {
    fs::create_directory(partial, error);
  }
  if (error) {
    refuse(partial, fmt::format("the folder cannot be created: {}", error.message()));
  }
}

bool KnownFiles::seem_whole(fs::path const& checkpoint) {
  try {
    auto known = files_.find(checkpoint);
    auto const version = version_of(checkpoint);
    if (known == files_.end() || version == Version{} || known->second.version != version) {
      note(checkpoint, read_record(checkpoint).contents);
      known = files_.find(checkpoint);
    }
    expect_files(checkpoint, known->second.sizes);
    return true;
  } catch (Error const&) {
    return false;
  }
}

void KnownFiles::note(fs::path const& checkpoint, Contents const& contents) {
  Contents const sizes{contents.places, contents.tensor_ranks, {}, {}, contents.groups, contents.rank_states};
  files_[checkpoint] = {version_of(checkpoint), sizes};
}

KnownFiles::Version KnownFiles::version_of(fs::path const& checkpoint) noexcept {
  struct stat record = {};
  if (::stat((checkpoint / record_name).c_str(), &record) != 0) {
    return {};
  }
  return {static_cast<std::int64_t>(record.st_ino), record.st_size, record.st_mtim.tv_sec, record.st_mtim.tv_nsec};
}

std::vector<std::int64_t> rank_states_in(fs::path const& partial, Contents const& contents) {
  std::vector<std::int64_t> all;
  for (int place = 0; place < contents.places; ++place) {
    try {
      InputFile const file{partial / file_name(place)};
      std::uint64_t header_bytes = 0;
      file.read(0, std::as_writable_bytes(std::span{&header_bytes, 1}));
      if (header_bytes > static_cast<std::uint64_t>(largest_text)) {
        throw Unreadable{"its header is damaged"};
      }
      // The header is followed by data, and by a hash for each begun MiB of it.
      constexpr auto hash_bytes = static_cast<std::int64_t>(sizeof(std::uint64_t));
      auto const rest = file.bytes() - hash_bytes - static_cast<std::int64_t>(header_bytes);
      auto const hashes = (rest + hashed_bytes + hash_bytes - 1) / (hashed_bytes + hash_bytes);
      all.push_back(rest - hashes * hash_bytes - contents.state_bytes(place));
    } catch (Unreadable const& error) {
      refuse(partial, fmt::format("{} of another rank cannot be read: {}; all ranks must see the same folder",
                                  file_name(place), error.what()));
    }
    if (all.back() < 0) {
      refuse(partial, fmt::format("{} has fewer bytes than its states", file_name(place)));
    }
  }
  return all;
}

fs::path commit(fs::path const& folder, fs::path const& partial, Record const& record, Retention const& retention,
                KnownFiles& known) {
  expect_files(partial, record.contents);
  write_whole_file("checkpoint file", partial / record_name, to_text(record));
  sync(partial);
  auto const checkpoint = folder / checkpoint_name(record.position.step);
  give_name(partial, checkpoint);
  auto const name = checkpoint.filename().string();
  try {
    sync(folder);
    write_whole_file("checkpoint file", folder / latest_name, name + "\n");
  } catch (SystemError const&) {
    if (latest_in(folder) != name) {
      take_name(partial, checkpoint);
    }
    throw;
  }
  known.note(checkpoint, record.contents);
  discard(partial);  // after a swap it holds the older checkpoint
  auto leaving = checkpoint;
  leaving += leaving_suffix;
  discard(leaving);
  retain(folder, record.position.step, retention, known);
  return checkpoint;
}

void discard(fs::path const& partial, int place) noexcept {
  std::error_code ignored;
  fs::remove(partial / file_name(place), ignored);
  fs::remove(partial, ignored);  // succeeds once the folder is empty
}

void discard(fs::path const& partial) noexcept {
  std::error_code error;
  fs::remove_all(partial, error);
  if (error == std::errc::no_such_file_or_directory) {  // another rank removed its own file at the same time
    fs::remove_all(partial, error);
  }
  if (error) {
    logger().warn("{}checkpoint {}: cannot be removed: {}", rank_prefix(), partial.string(), error.message());
  }
}

}  // namespace zeroth::checkpoint
