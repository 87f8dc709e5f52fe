// SPDX-License-Identifier: Apache-2.0
#include "comm/store/store.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "comm/describe.hpp"
#include "comm/store/frame.hpp"
#include "comm/store/socket.hpp"
#include "comm/store/store_client.hpp"
#include "comm/store/store_join.hpp"
#include "comm/store/store_server.hpp"
#include "core/host_name.hpp"
#include "core/start_thread.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds patience_for_answers{2};  // beyond the time after which rank 0 answers in any case
constexpr seconds patience_at_abort{3};     // longer than the client's own, like the next one
constexpr seconds patience_for_verdict{patience_for_timeout_reports + seconds{3}};
constexpr seconds patience_for_last_words{1};
constexpr milliseconds longest_wait{longest_wait_ms};
constexpr std::uint64_t spare_descriptors = 64;  // in addition to one for each rank

void check_options(StoreOptions const& options) {
  ZEROTH_EXPECTS(options.world >= 1 && options.rank >= 0 && options.rank < options.world,
                 fmt::format("StoreOptions: the rank is {} of {} ranks; allowed: 0 to one less than their number",
                             options.rank, options.world));
  ZEROTH_EXPECTS(
      !options.at.host.empty() && options.at.ports >= 1 && options.at.port + options.at.ports - 1 <= 65535 &&
          options.at.port >= (options.rank == 0 ? 0 : 1),
      fmt::format(
          "StoreAddress: the host is '{}', the port {}; allowed: a host, and ports 1 to 65535 (on rank 0 also 0)",
          options.at.host, options.at.port));
  ZEROTH_EXPECTS(
      options.at.token.size() <= most_token_bytes,
      fmt::format("StoreAddress::token has {} bytes; allowed: up to {}", options.at.token.size(), most_token_bytes));
  ZEROTH_EXPECTS(options.heartbeat_timeout >= milliseconds{10} && options.heartbeat_timeout <= longest_endured,
                 fmt::format("StoreOptions::heartbeat_timeout is {} ms; allowed: 10 to {}, after which the system may "
                             "close a silent connection itself",
                             options.heartbeat_timeout.count(), longest_endured.count()));
}

Descriptor make_wake() {
  Descriptor wake{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  if (!wake) {
    throw SystemError{"eventfd failed: " + error_text(errno)};
  }
  return wake;
}

/// Checks the system's limit on open files, which a large world may exceed on rank 0.
void check_descriptor_limit(int world) {
  rlimit limit{};
  auto const needed = static_cast<std::uint64_t>(world) + spare_descriptors;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < needed) {
    throw SystemError{
        fmt::format("rank 0 may open {} files, and the store of a job of {} ranks needs {}: raise the "
                    "limit with ulimit -n",
                    limit.rlim_cur, world, needed)};
  }
}

Descriptor listen_for_ranks(StoreOptions const& options) {
  int error = 0;
  auto listener = listen_at(options.at.host, options.at.port, error);
  for (int more = 1; !listener && error == EADDRINUSE && more < options.at.ports; ++more) {
    listener = listen_at(options.at.host, options.at.port + more, error);
  }
  if (!listener) {
    throw SystemError{
        fmt::format("rank 0's store cannot listen at port {}{}{}: {}{}", options.at.port,
                    options.at.ports == 1 ? "" : fmt::format(" or one of the next {}", options.at.ports - 1),
                    options.at.given_by.empty() ? "" : fmt::format(" ({})", options.at.given_by), error_text(error),
                    error == EADDRINUSE ? ": another program, or a job left over from before, uses that port; end it, "
                                          "or give all ranks another port"
                                        : "")};
  }
  return listener;
}

/// The state whose thread this is.
thread_local void const* current_state = nullptr;

/// Blocks signals: they are for the program's own threads.
std::thread start_without_signals(std::function<void()> run) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    auto thread = start_thread("the store", std::move(run));
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace

// ---- the thread -----------------------------------------------------------------------------------------------------

struct Store::State {
  enum class Phase : std::uint8_t { open, waiting_for_others, sending_last_words, finished };

  explicit State(StoreOptions const& given);
  ~State();
  State(State const&) = delete;
  State& operator=(State const&) = delete;

  /// Runs `what` on the thread, between polls.
  void post(std::function<void()> what);
  /// Calls `what`, which posts something that fails the job, and waits for the failure.
  void fail_by(std::function<void()> const& what, milliseconds patience) noexcept;
  std::vector<std::string> call(Kind kind, std::string body, milliseconds wait);
  [[nodiscard]] bool is_current() const noexcept { return current_state == this; }

  void run() noexcept;
  void poll_once();
  void see_what_came();
  void take_posts();
  void leave();
  void advance(Clock::time_point now);
  [[nodiscard]] Clock::time_point next_deadline() const noexcept;

  StoreOptions options;
  int port = 0;
  Ends ends;
  int const exceptions_at_birth = std::uncaught_exceptions();
  Descriptor wake = make_wake();
  std::optional<StoreServer> server;  // on rank 0
  std::optional<StoreClient> client;

  std::mutex mutex;
  std::vector<std::function<void()>> posts;

  // used by the thread
  std::vector<pollfd> entries;
  Phase phase = Phase::open;
  Clock::time_point phase_deadline = Clock::time_point::max();

  std::thread thread;
};

Store::State::State(StoreOptions const& given) : options{given}, port{given.at.port} {
  check_options(options);
  std::optional<Connection> connection;
  if (options.rank == 0) {
    check_descriptor_limit(options.world);
    auto listener = listen_for_ranks(options);
    port = port_of(listener);
    auto [mine, stores] = socket_pair();
    server.emplace(std::move(listener),
                   StoreServer::Options{options.at.token, options.world, options.heartbeat_timeout, options.groups_of});
    server->adopt(std::move(stores), host_name());
    connection.emplace(std::move(mine), 0);
  } else {
    auto joined = join_store(options);
    port = joined.port;
    options.heartbeat_timeout = joined.heartbeat_timeout;
    connection.emplace(std::move(joined.connection));
    endure(connection->socket(), options.heartbeat_timeout);
    ends = ends_of(connection->socket());
  }
  client.emplace(std::move(*connection),
                 StoreClient::Options{options.rank, options.world, host_name(),
                                      fmt::format("rank 0 ({})", address_of(options.at.host, port)),
                                      options.heartbeat_timeout, options.on_failure, options.groups_of});
  thread = start_without_signals([this] { run(); });
}

Store::State::~State() {
  post([this] { leave(); });
  thread.join();
}

void Store::State::post(std::function<void()> what) {
  {
    std::lock_guard const lock{mutex};
    posts.push_back(std::move(what));
  }
  std::uint64_t const one = 1;
  (void)!::write(wake.get(), &one, sizeof one);
}

void Store::State::fail_by(std::function<void()> const& what, milliseconds patience) noexcept {
  if (is_current() || client->failed().value() != 0) {
    return;
  }
  try {
    what();
  } catch (std::exception const&) {  // without memory for a reason, this rank's end must do
    return;
  }
  (void)client->failed().wait_until(1, Clock::now() + patience);
}

void Store::State::run() noexcept {
  current_state = this;
  this_rank() = {options.rank, options.world, {}};
  ::pthread_setname_np(::pthread_self(), "store");
  while (phase != Phase::finished) {
    try {
      poll_once();
    } catch (std::exception const& error) {  // out of memory
      client->fail({options.rank, fmt::format("the store of rank {} failed: {}", options.rank, error.what())});
    }
  }
}

/// If the process was stopped during poll(), the result is old. Polls again, so that all received messages count before
/// a rank is judged.
void Store::State::see_what_came() {
  if (::poll(entries.data(), entries.size(), 0) < 0) {
    std::for_each(entries.begin(), entries.end(), [](pollfd& entry) { entry.revents = 0; });
  }
}

void Store::State::poll_once() {
  entries.clear();
  entries.push_back({wake.get(), POLLIN, 0});
  client->watch(entries);
  if (server) {
    server->watch(entries);
  }
  auto const deadline = next_deadline();
  int const ready = ::poll(entries.data(), entries.size(), poll_timeout(Clock::now(), deadline));
  int const error = ready < 0 ? errno : 0;
  // Read before any message: if this process freezes after it, no rank counts as silent that only waited.
  auto const now = Clock::now();
  if (ready < 0) {
    std::for_each(entries.begin(), entries.end(), [](pollfd& entry) { entry.revents = 0; });
    if (error != EINTR) {
      std::this_thread::sleep_for(milliseconds{100});  // the kernel is out of memory
    }
  }
  if (now - options.heartbeat_timeout / 2 > deadline) {  // stopped, perhaps with the whole job, and continued
    see_what_came();
    client->forgive_silence(now);
    if (server) {
      server->forgive_silence(now);
    }
  }
  take_posts();
  std::span<pollfd const> const all{entries};
  client->serve(all.subspan(1, 1), now);
  if (server) {
    server->serve(all.subspan(2), now);
  }
  advance(now);
}

void Store::State::take_posts() {
  std::uint64_t count = 0;
  (void)!::read(wake.get(), &count, sizeof count);
  std::vector<std::function<void()>> taken;
  {
    std::lock_guard const lock{mutex};
    taken.swap(posts);
  }
  for (auto const& each : taken) {
    each();
  }
}

void Store::State::leave() {
  client->leave();
  phase = Phase::waiting_for_others;
  phase_deadline = Clock::now() + options.leave_timeout;
}

void Store::State::advance(Clock::time_point now) {
  if (phase == Phase::waiting_for_others && (!server || server->is_deserted() || now >= phase_deadline)) {
    if (server) {
      server->close();
    }
    phase = Phase::sending_last_words;
    phase_deadline = now + patience_for_last_words;
  }
  if (phase == Phase::sending_last_words &&
      ((client->has_sent_all() && (!server || server->has_sent_all())) || now >= phase_deadline)) {
    phase = Phase::finished;
  }
}

Clock::time_point Store::State::next_deadline() const noexcept {
  auto const next = std::min(client->next_deadline(), phase_deadline);
  return server ? std::min(next, server->next_deadline()) : next;
}

std::vector<std::string> Store::State::call(Kind kind, std::string body, milliseconds wait) {
  ZEROTH_EXPECTS(!is_current(), "a handler of failures calls the store; it may only look at failure()");
  auto const call = std::make_shared<StoreCall>();
  post([this, kind, call, body = std::move(body)] { client->call(kind, body, call); });
  auto const patience = wait + options.heartbeat_timeout + patience_for_answers;
  if (!call->done.wait_until(1, Clock::now() + patience)) {
    throw PeerError{fmt::format("rank 0's store did not answer within {}", comm::describe(patience))};
  }
  switch (call->outcome) {
    case StoreCall::Outcome::values: break;
    case StoreCall::Outcome::contract_error: throw ContractError{call->text};
    case StoreCall::Outcome::peer_error: throw PeerError{call->text};
    case StoreCall::Outcome::late_error: throw LateError{call->text};
  }
  return std::move(call->values);
}

// ---- public functions -----------------------------------------------------------------------------------------------

namespace {

void check_name(char const* what, std::string_view name) {
  ZEROTH_EXPECTS(!name.empty() && name.size() <= most_name_bytes,
                 fmt::format("{} of {} bytes: allowed are 1 to {}", what, name.size(), most_name_bytes));
}

void check_value(std::string_view name, std::string_view value) {
  ZEROTH_EXPECTS(value.size() <= most_value_bytes,
                 fmt::format("the value for '{}' has {} bytes: allowed are {}", name, value.size(), most_value_bytes));
}

milliseconds checked_wait(milliseconds timeout) { return std::clamp(timeout, milliseconds{0}, longest_wait); }

std::uint64_t count_of(milliseconds wait) { return static_cast<std::uint64_t>(wait.count()); }

}  // namespace

Store::Store(StoreOptions const& options) : state_{std::make_unique<State>(options)} {}

Store::~Store() {
  if (std::uncaught_exceptions() > state_->exceptions_at_birth) {
    abort(fmt::format("rank {} was ended by an exception", rank()));
  }
}

int Store::rank() const noexcept { return state_->options.rank; }
int Store::world() const noexcept { return state_->options.world; }
int Store::port() const noexcept { return state_->port; }
Ends const& Store::ends() const noexcept { return state_->ends; }
milliseconds Store::heartbeat_timeout() const noexcept { return state_->options.heartbeat_timeout; }

void Store::set(std::string_view key, std::string_view value) {
  check_name("a key", key);
  check_value(key, value);
  (void)state_->call(Kind::set, Body{}.text(key).text(value).number(0).take(), milliseconds{0});
}

void Store::set_for(int reads, std::string_view key, std::string_view value) {
  check_name("a key", key);
  check_value(key, value);
  ZEROTH_EXPECTS(reads >= 1, fmt::format("the key '{}' is set for {} reads", key, reads));
  auto body = Body{}.text(key).text(value).number(static_cast<std::uint64_t>(reads)).take();
  (void)state_->call(Kind::set, std::move(body), milliseconds{0});
}

std::string Store::get(std::string_view key, milliseconds timeout) {
  check_name("a key", key);
  auto const wait = checked_wait(timeout);
  auto values = state_->call(Kind::get, Body{}.text(key).number(count_of(wait)).take(), wait);
  return std::move(values.at(0));
}

std::vector<std::string> Store::gather(std::string_view name, std::string_view value, milliseconds timeout) {
  check_name("the name of a gather", name);
  check_value(name, value);
  auto const wait = checked_wait(timeout);
  return state_->call(Kind::gather, Body{}.text(name).text(value).number(count_of(wait)).take(), wait);
}

KeyValueAnswer Store::key_value(KeyValueCall const& call) {
  return decode_answer(state_->call(Kind::key_value, Body{}.text(encode(call)).take(), checked_wait(call.wait)).at(0));
}

void Store::abort(std::string const& reason) noexcept {
  state_->fail_by([&] { state_->post([this, reason] { state_->client->abort(reason); }); }, patience_at_abort);
}

void Store::begin_timeout_query() noexcept {
  try {
    state_->post([this] { state_->client->begin_timeout_query(); });
  } catch (std::exception const&) {  // then only this rank reports
  }
}

bool Store::in_timeout_query() const noexcept { return state_->client->in_timeout_query(); }

void Store::report_timeout(TimeoutReport const& report) noexcept {
  state_->fail_by([&] { state_->post([this, report] { state_->client->report_timeout(report); }); },
                  patience_for_verdict);
}

std::optional<JobFailure> Store::failure() const { return state_->client->failure(); }

}  // namespace zeroth::comm
