// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/peer_memory.hpp"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "comm/store/presence.hpp"
#include "core/bytes_at.hpp"
#include "core/host_name.hpp"

namespace zeroth::comm {

int read_memory(int process, std::uint64_t address, void* to, std::int64_t bytes) noexcept {
  constexpr std::int64_t most_at_once = std::int64_t{1} << 30;  // the kernel takes a little less than 2^31
  for (std::int64_t done = 0; done < bytes;) {
    auto const part = static_cast<std::size_t>(std::min(most_at_once, bytes - done));
    iovec const local{bytes_at(to, done), part};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it is another process's
    iovec const remote{reinterpret_cast<void*>(address + static_cast<std::uint64_t>(done)), part};
    auto const copied = ::process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (copied <= 0) {
      return copied < 0 ? errno : EFAULT;
    }
    done += copied;
  }
  return 0;
}

void allow_reading() noexcept { ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); }

std::string memory_domain() {
  std::array<char, 64> process_ids{};
  (void)!::readlink("/proc/self/ns/pid", process_ids.data(), process_ids.size() - 1);
  return machine_id() + " " + process_ids.data() + " " + host_name();
}

}  // namespace zeroth::comm
