// SPDX-License-Identifier: Apache-2.0
#include "support/fail_points.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <thread>

namespace zeroth::testing {
namespace {

struct State {
  std::mutex mutex;
  std::string folder;
  int number = 0, error = 0, calls = 0;
  bool from_there_on = false;
  std::string failed;
  std::string unreadable;
};
State& state() {
  static State one;
  return one;
}
std::atomic<int> delay_ms{0};
std::atomic<std::int64_t> read_bytes{0};

/// The system's function that the one here replaces.
template <class F>
F* real(char const* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

std::string path_of(int descriptor) {
  std::array<char, 4096> path{};
  auto const link = "/proc/self/fd/" + std::to_string(descriptor);
  auto const bytes = ::readlink(link.c_str(), path.data(), path.size() - 1);
  return {path.data(), static_cast<std::size_t>(bytes > 0 ? bytes : 0)};
}

/// Returns true, and sets errno, if the call must fail.
bool fails(char const* call, std::string const& path) {
  auto& all = state();
  std::lock_guard const lock{all.mutex};
  if (all.folder.empty() || !path.starts_with(all.folder)) {
    return false;
  }
  ++all.calls;
  if (all.number == 0 || (all.from_there_on ? all.calls < all.number : all.calls != all.number)) {
    return false;
  }
  if (all.error == FailPoints::kill) {
    ::kill(::getpid(), SIGKILL);
  }
  all.failed = call + (" " + path);
  errno = all.error;
  return true;
}

bool refuses_to_read(int file) {
  auto& all = state();
  std::lock_guard const lock{all.mutex};
  return !all.unreadable.empty() && path_of(file) == all.unreadable;
}

struct OddDisk {
  std::mutex mutex;
  std::condition_variable changed;
  FailPoints::Disk disk;
  std::uint32_t random = 0;
  std::atomic<int> held{0};
  std::atomic<bool> armed{false};
};
OddDisk& odd_disk() {
  static OddDisk one;
  return one;
}

/// The error of a call on the odd disk, or 0. Reduces `bytes` to what it transfers.
int disk_moves(int file, std::size_t& bytes, bool reads) {
  auto& odd = odd_disk();
  if (!odd.armed) {
    return 0;
  }
  auto const path = path_of(file);
  bool const direct = (::fcntl(file, F_GETFL) & O_DIRECT) != 0;
  std::unique_lock lock{odd.mutex};
  if (odd.disk.folder.empty() || !path.starts_with(odd.disk.folder.string())) {
    return 0;
  }
  odd.held += odd.disk.holds ? 1 : 0;
  odd.changed.wait(lock, [&] { return !odd.disk.holds; });
  auto const disk = odd.disk;
  odd.random = odd.random * 1664525U + 1013904223U;
  auto const random = odd.random >> 16U;
  lock.unlock();
  if (disk.seed != 0 && random % 3 == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds{random % 2000});
  }
  if (disk.refuses_direct && direct) {
    return EINVAL;
  }
  bytes = disk.most == 0 ? bytes : std::min(bytes, disk.most);
  return reads ? disk.read_error : 0;
}

void pause() {
  if (int const delay = delay_ms; delay > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds{delay});
  }
}

void set(std::filesystem::path const& folder, int number, int error, bool from_there_on) {
  auto& all = state();
  std::lock_guard const lock{all.mutex};
  all.folder = folder.string();
  all.number = number;
  all.error = error;
  all.from_there_on = from_there_on;
  all.calls = 0;
  all.failed.clear();
}

}  // namespace

void FailPoints::arm(std::filesystem::path const& folder, int number, int error) { set(folder, number, error, false); }
void FailPoints::arm_from(std::filesystem::path const& folder, int number, int error) {
  set(folder, number, error, true);
}
void FailPoints::disarm() { set({}, 0, 0, false); }
int FailPoints::calls() {
  std::lock_guard const lock{state().mutex};
  return state().calls;
}
std::string FailPoints::failed() {
  std::lock_guard const lock{state().mutex};
  return state().failed;
}
void FailPoints::break_reads(std::filesystem::path const& file) {
  std::lock_guard const lock{state().mutex};
  state().unreadable = file.string();
}
std::int64_t FailPoints::bytes_read() { return read_bytes; }
void FailPoints::odd_disk(Disk const& disk) {
  auto& odd = testing::odd_disk();
  {
    std::lock_guard const lock{odd.mutex};
    odd.disk = disk;
    odd.random = disk.seed;
    odd.held = 0;
    odd.armed = !disk.folder.empty();
  }
  odd.changed.notify_all();
}
int FailPoints::held() { return testing::odd_disk().held; }
void FailPoints::slow_down(std::chrono::milliseconds each_write) { delay_ms = static_cast<int>(each_write.count()); }

}  // namespace zeroth::testing

namespace t = zeroth::testing;

// As the C library declares them.
extern "C" {

int open(char const* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
    if (t::fails("open", path)) {
      return -1;
    }
  }
  return t::real<int(char const*, int, ...)>("open")(path, flags, mode);
}

ssize_t pread(int file, void* data, size_t bytes, off_t at) {
  if (t::refuses_to_read(file)) {
    errno = EIO;
    return -1;
  }
  if (int const error = t::disk_moves(file, bytes, true); error != 0) {
    errno = error;
    return -1;
  }
  auto const got = t::real<ssize_t(int, void*, size_t, off_t)>("pread")(file, data, bytes, at);
  t::read_bytes += got > 0 ? got : 0;
  return got;
}

ssize_t pwrite(int file, void const* data, size_t bytes, off_t at) {
  t::pause();
  if (int const error = t::disk_moves(file, bytes, false); error != 0) {
    errno = error;
    return -1;
  }
  return t::fails("pwrite", t::path_of(file))
             ? -1
             : t::real<ssize_t(int, void const*, size_t, off_t)>("pwrite")(file, data, bytes, at);
}

ssize_t write(int file, void const* data, size_t bytes) {
  return t::fails("write", t::path_of(file)) ? -1
                                             : t::real<ssize_t(int, void const*, size_t)>("write")(file, data, bytes);
}

int fsync(int file) { return t::fails("fsync", t::path_of(file)) ? -1 : t::real<int(int)>("fsync")(file); }

int ftruncate(int file, off_t bytes) noexcept {
  return t::fails("ftruncate", t::path_of(file)) ? -1 : t::real<int(int, off_t)>("ftruncate")(file, bytes);
}

int fallocate(int file, int mode, off_t at, off_t bytes) {
  return t::fails("fallocate", t::path_of(file))
             ? -1
             : t::real<int(int, int, off_t, off_t)>("fallocate")(file, mode, at, bytes);
}

int rename(char const* from, char const* to) noexcept {
  return t::fails("rename", from) ? -1 : t::real<int(char const*, char const*)>("rename")(from, to);
}

int renameat2(int from_folder, char const* from, int to_folder, char const* to, unsigned flags) noexcept {
  return t::fails("renameat2", from) ? -1
                                     : t::real<int(int, char const*, int, char const*, unsigned)>("renameat2")(
                                           from_folder, from, to_folder, to, flags);
}

int mkdir(char const* path, mode_t mode) noexcept {
  return t::fails("mkdir", path) ? -1 : t::real<int(char const*, mode_t)>("mkdir")(path, mode);
}

int unlink(char const* path) noexcept {
  return t::fails("unlink", path) ? -1 : t::real<int(char const*)>("unlink")(path);
}

int unlinkat(int folder, char const* path, int flags) noexcept {
  auto const whole = path[0] == '/' ? std::string{path} : t::path_of(folder) + "/" + path;
  return t::fails("unlinkat", whole) ? -1 : t::real<int(int, char const*, int)>("unlinkat")(folder, path, flags);
}

int rmdir(char const* path) noexcept { return t::fails("rmdir", path) ? -1 : t::real<int(char const*)>("rmdir")(path); }

}  // extern "C"
