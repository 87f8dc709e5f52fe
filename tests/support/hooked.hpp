// SPDX-License-Identifier: Apache-2.0
/// A communicator that calls a test's hook after each of its transactions, or when it gets options.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "support/wrapped.hpp"

namespace zeroth::testing {

/// Called on every rank, once the rank's stream has finished the transaction.
using Hook = std::function<void(comm::Label const&, std::span<comm::Collective const>)>;

using OptionsHook = std::function<void(comm::CommOptions const&)>;

class HookedCommunicator final : public WrappedCommunicator {
 public:
  HookedCommunicator(std::unique_ptr<comm::Communicator> inner, Hook hook, OptionsHook options_hook = {})
      : WrappedCommunicator{std::move(inner)}, hook_{std::move(hook)}, options_hook_{std::move(options_hook)} {}
  void set_options(comm::CommOptions const& options) override {
    WrappedCommunicator::set_options(options);
    if (options_hook_) {
      options_hook_(options);
    }
  }

 private:
  void do_submit(device::Stream& stream, comm::Label const& label,
                 std::span<comm::Collective const> collectives) override {
    inner().submit(stream, label, collectives);
    stream.synchronize();
    hook_(label, collectives);
  }
  [[nodiscard]] std::unique_ptr<comm::Communicator> do_split(int color, int key, std::string const& name) override {
    auto split = inner().split(color, key, name);
    return split ? std::make_unique<HookedCommunicator>(std::move(split), hook_, options_hook_) : nullptr;
  }

  Hook hook_;
  OptionsHook options_hook_;
};

}  // namespace zeroth::testing
