// SPDX-License-Identifier: Apache-2.0
/// A communicator that does something of a test's after each of its transactions, or when it is given options.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "zeroth/comm/communicator.hpp"

namespace zeroth::testing {

/// Called on every rank, once the rank's stream has done the transaction.
using Hook = std::function<void(comm::Label const&, std::span<comm::Collective const>)>;

using OptionsHook = std::function<void(comm::CommOptions const&)>;

class HookedCommunicator final : public comm::Communicator {
 public:
  HookedCommunicator(std::unique_ptr<comm::Communicator> inner, Hook hook, OptionsHook options_hook = {})
      : inner_{std::move(inner)}, hook_{std::move(hook)}, options_hook_{std::move(options_hook)} {}
  [[nodiscard]] int rank() const noexcept override { return inner_->rank(); }
  [[nodiscard]] int world() const noexcept override { return inner_->world(); }
  [[nodiscard]] comm::Transport transport() const noexcept override { return inner_->transport(); }
  [[nodiscard]] std::string const& name() const noexcept override { return inner_->name(); }
  [[nodiscard]] comm::FlightRecorder& recorder() noexcept override { return inner_->recorder(); }
  void set_options(comm::CommOptions const& options) override {
    inner_->set_options(options);
    if (options_hook_) {
      options_hook_(options);
    }
  }
  void set_staging(std::span<std::byte> staging) override { inner_->set_staging(staging); }
  void abort(std::string const& reason) noexcept override { inner_->abort(reason); }

 private:
  void do_submit(device::Stream& stream, comm::Label const& label,
                 std::span<comm::Collective const> collectives) override {
    inner_->submit(stream, label, collectives);
    stream.synchronize();
    hook_(label, collectives);
  }
  [[nodiscard]] std::unique_ptr<comm::Communicator> do_split(int color, int key, std::string const& name) override {
    auto split = inner_->split(color, key, name);
    return split ? std::make_unique<HookedCommunicator>(std::move(split), hook_, options_hook_) : nullptr;
  }

  std::unique_ptr<comm::Communicator> inner_;
  Hook hook_;
  OptionsHook options_hook_;
};

}  // namespace zeroth::testing
