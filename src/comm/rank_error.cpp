// SPDX-License-Identifier: Apache-2.0
#include "comm/rank_error.hpp"

#include <new>

#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

RankError make_error(std::string what, bool is_peer_error = false, int exit_code = ExitCode::failed) {
  std::string const prefix = rank_prefix();
  std::string bare = what.starts_with(prefix) ? what.substr(prefix.size()) : what;
  std::string text = what.starts_with("[rank ") ? std::move(what) : prefix + what;
  return {std::move(text), std::move(bare), is_peer_error, exit_code, false};
}

}  // namespace

RankError describe_current_exception() {
  try {
    throw;
  } catch (PeerError const& error) {
    return make_error(error.what(), true);
  } catch (ConfigError const& error) {
    auto described = make_error(error.what(), false, exit_code_of(error));
    described.is_config_error = true;
    return described;
  } catch (std::bad_alloc const&) {
    return make_error(
        "the process is out of memory: run fewer ranks on this machine, a smaller model or batch, or raise the limit "
        "(ulimit -v, a container's memory)");
  } catch (std::exception const& error) {
    return make_error(error.what(), false, exit_code_of(error));
  } catch (...) {
    return make_error("something other than a std::exception was thrown");
  }
}

}  // namespace zeroth::comm
