// SPDX-License-Identifier: Apache-2.0
/// Opens units when libtorch is about to read their parameters, closes them when it moves on to others, and passes
/// gradients on as autograd completes them.
///
/// forward() of a libtorch module is not virtual and has no hooks. But every dispatched operation can be observed
/// before it runs, on the thread that it runs on, with its tensors; profilers use this. A storage identifies its
/// parameter, whatever view of it an operation gets. So modules need no change, whatever their inputs and outputs are.
/// CPU autograd runs nodes in the reverse order of their creation and accumulates gradients at once, so the backward
/// pass of a unit is contiguous too, in reverse order.
#pragma once
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "zeroth/adapters/torch/described.hpp"
#include "zeroth/adapters/torch/errors.hpp"
#include "zeroth/adapters/torch/kept_state.hpp"
#include "zeroth/adapters/torch/observed.hpp"
#include "zeroth/adapters/torch/uses.hpp"
#include "zeroth/engine/pass.hpp"

namespace zeroth::torch_adapter::detail {

inline void check_holder(Unit const& unit) {
  ZEROTH_EXPECTS(dynamic_cast<Marked const*>(unit.module) != nullptr,
                 "recompute of unit \"" + unit.label() +
                     "\", which is not in a holder made by ZEROTH_TORCH_UNIT: libtorch calls its forward() directly, "
                     "and nothing can call it again");
}

class Runtime {
 public:
  Runtime(Described described, std::shared_ptr<Owner> owner)
      : units_{std::move(described.units)}, parameters_{std::move(described.parameters)}, owner_{std::move(owner)} {
    owner_->trains = true;
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      if (parameters_[p].trainable) {
        ::torch::autograd::impl::set_post_acc_grad_hooks(parameters_[p].tensor, std::make_unique<Arrival>(*this, p));
      }
    }
  }
  Runtime(Runtime const&) = delete;
  Runtime& operator=(Runtime const&) = delete;
  /// Leaves the module without memory. Reading a parameter then throws an error that says so.
  ~Runtime() {
    owner_->trains = false;
    for (auto& parameter : parameters_) {
      parameter.storage->close(rank_prefix() + "parameter \"" + parameter.name +
                               "\" has no memory: its Trainer was destroyed");
      if (parameter.trainable) {
        ::torch::autograd::impl::set_post_acc_grad_hooks(parameter.tensor, nullptr);
        parameter.tensor.mutable_grad() = at::Tensor{};
      }
    }
  }

  /// The Runtime whose pass is running on this thread; null outside of passes.
  [[nodiscard]] static Runtime*& active() noexcept {
    thread_local Runtime* runtime = nullptr;
    return runtime;
  }
  [[nodiscard]] std::vector<Unit> const& units() const noexcept { return units_; }
  [[nodiscard]] std::vector<Parameter> const& parameters() const noexcept { return parameters_; }

  // ---- passes -----------------------------------------------------------------------------------------------------

  /// Sets the buffers that both runs of a repeated micro-step (zeroth.replay_every) must start from.
  void set_buffers(std::vector<at::Tensor> buffers) { buffers_ = std::move(buffers); }
  /// Called when a micro-step has begun.
  void prepare(AnyMicroStep const& micro) {
    if (micro.runs_again()) {
      kept_.emplace(buffers_);
    } else if (kept_) {
      kept_->put_back();
      kept_.reset();
    }
  }

  /// Begins a pass: of training, or of evaluation if `micro` is null. The pass must outlive end().
  void begin(AnyPass& pass, AnyMicroStep* micro) {
    ZEROTH_EXPECTS(active() == nullptr,
                   "a pass begins while one of another Trainer is under way on this thread: use_frozen() of the pass "
                   "that is under way reads the other Trainer's module in it");
    check_unchanged(parameters_, *owner_, micro != nullptr);
    swallowed() = nullptr;
    enter(pass, micro);
    active() = this;
    callback_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback{before_operation}.needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  }
  /// Closes what is open. After a failure it closes nothing; the pass that ends next reports that.
  void end() noexcept {
    at::removeCallback(callback_);
    active() = nullptr;
    leave();
  }
  /// Called after a failed pass has ended.
  void drop() noexcept { close_all_but({}); }

  // ---- use in a pass of another Runtime ---------------------------------------------------------------------------

  /// Checks that begin_frozen() is legal. Throws ContractError, and changes nothing, if it is not.
  void check_frozen_use(Runtime const& user) const {
    ZEROTH_EXPECTS(&user != this,
                   "use_frozen() of the Trainer whose pass this is: its parameters are readable in its own passes, and "
                   "detach() keeps gradients from them");
    ZEROTH_EXPECTS(active() == &user, "use_frozen() on another thread than the one on which the pass began");
    ZEROTH_EXPECTS(used_by_ == nullptr, "use_frozen() of a Trainer that this pass uses already: once is enough");
    check_unchanged(parameters_, *owner_, true);
  }
  /// Begins `pass`, an evaluation pass of this Runtime's engine, inside the pass of `user`. Until end_frozen(),
  /// operations of that pass, forward and backward, may read these parameters. No gradient reaches them.
  void begin_frozen(AnyPass& pass, Runtime& user) {
    enter(pass, nullptr);
    used_by_ = &user;
    user.uses_.push_back(this);
    for (auto& parameter : parameters_) {
      parameter.tensor.requires_grad_(false);
    }
  }
  /// Like end(). Call drop() afterwards, when the pass has ended.
  void end_frozen() noexcept {
    std::erase(std::exchange(used_by_, nullptr)->uses_, this);
    leave();
    for (auto& parameter : parameters_) {
      parameter.tensor.requires_grad_(parameter.trainable);
    }
  }
  /// Throws ContractError if a pass of another Runtime uses this one.
  void expect_not_used(char const* call) const {
    ZEROTH_EXPECTS(used_by_ == nullptr, std::string{call} +
                                            " of a Trainer that a pass of another Trainer uses frozen: call it before "
                                            "that pass begins, or after it has ended");
  }

  // ---- units that the program opens by hand -----------------------------------------------------------------------

  /// A guard that stays open until it is unpinned or its pass ends.
  struct Pin {
    std::size_t unit;
    bool backward;
    std::uint64_t pass;
  };
  /// Opens a unit by hand. Throws ContractError outside of passes; `call` begins the message.
  [[nodiscard]] Pin pin(std::size_t u, std::string const& call) {
    ZEROTH_EXPECTS(pass_ != nullptr, call +
                                         " outside of a pass: units are gathered in micro-steps, in evaluation "
                                         "passes, and in passes of another Trainer that call use_frozen()");
    auto& unit = units_[u];
    if (!unit.is_open()) {
      close_all_but({u});
      open(u);
    }
    Pin const pin{u, unit.backward.has_value(), passes_};
    ++(pin.backward ? unit.backward_pins : unit.forward_pins);
    forward_pins_ += pin.backward ? 0 : 1;
    return pin;
  }
  void unpin(Pin const& pin) noexcept {
    if (pin.pass == passes_ && pass_ != nullptr) {
      --(pin.backward ? units_[pin.unit].backward_pins : units_[pin.unit].forward_pins);
      forward_pins_ -= pin.backward ? 0 : 1;
    }
  }
  /// The Runtime of the pass on this thread, or of those that it uses, that lends `tensor` its memory; null if none
  /// does.
  [[nodiscard]] static Runtime* lender_of(at::Tensor const& tensor) noexcept {
    auto* const runtime = active();
    if (runtime == nullptr || lent_storage(tensor, *runtime->owner_) != nullptr) {
      return runtime;
    }
    auto const at = std::ranges::find_if(
        runtime->uses_, [&](Runtime const* other) { return lent_storage(tensor, *other->owner_) != nullptr; });
    return at == runtime->uses_.end() ? nullptr : *at;
  }
  /// The unit to open to read `tensor`, which this Runtime lends its memory.
  [[nodiscard]] std::size_t unit_of(at::Tensor const& tensor) const {
    return user_of(lent_storage(tensor, *owner_)->index());
  }

  /// Called between forward and report_loss().
  void end_forward() {
    close_all_but({});
    reached_ = units_.size();
  }
  /// Runs autograd from `loss`, and all backward visits.
  void backward(at::Tensor const& loss, float seed) {
    check_unchanged(parameters_, *owner_, true);
    phase_ = Phase::backward;
    set_gradients([](Parameter&) { return at::Tensor{}; });
    failed_ = true;  // until it is done: guards that are open when it throws send nothing
    without_backtrace([&] { loss.backward(at::full_like(loss, seed)); });
    failed_ = false;
    close_all_but({});
    take_turns(none, 0);
    phase_ = Phase::after;
    set_gradients([](Parameter& parameter) { return parameter.refused_gradient; });
  }
  /// Declares a unit as not used in this micro-step, though other ranks may use it.
  void skip(std::string const& name) {
    auto const unit = find(name, "skip()");
    micro_->skip(*units_[unit].id);
    units_[unit].backward_turns = 1;
    forward_uses_.skip(unit);
  }
  /// The unit's index. Throws ContractError, listing all units, if none has this name.
  [[nodiscard]] std::size_t find(std::string const& name, char const* call) const {
    auto const found = std::ranges::find(units_, name, &Unit::name);
    if (found == units_.end()) {
      std::string names;
      for (auto const& unit : units_) {
        names += (names.empty() ? "\"" : ", \"") + unit.name + "\"";
      }
      throw ContractError{std::string{call} + " of \"" + name + "\", which is not a unit; the units are: " + names};
    }
    return static_cast<std::size_t>(found - units_.begin());
  }

  // ---- recomputation ----------------------------------------------------------------------------------------------

  void recompute(std::size_t unit) { recomputed_.emplace(units_[unit].module, Recomputed{unit}); }
  [[nodiscard]] bool recomputes(::torch::nn::Module const* module) const {
    return !recomputed_.empty() && recomputed_.contains(module);
  }
  /// Counts the holder's calls of forward that have not returned; not those of the second run.
  void called(::torch::nn::Module const* module, int change) noexcept {
    recomputed_.find(module)->second.calls += change;
  }
  /// Called before and after the second run of forward, in backward. The unit's backward visit begins before it.
  void begin_again(::torch::nn::Module const* module) {
    auto const unit = recomputed_.at(module).unit;
    if (!units_[unit].backward) {
      close_all_but({unit});
      open_backward(unit);
    }
    ++running_again_;
  }
  void end_again() noexcept { --running_again_; }

 private:
  enum class Phase { forward, backward, after };
  struct Recomputed {
    std::size_t unit;
    int calls = 0;  // calls of the holder that have not returned
  };
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  /// The hook that autograd calls when it has accumulated a parameter's gradient.
  struct Arrival final : ::torch::autograd::PostAccumulateGradHook {
    Arrival(Runtime& of, std::size_t parameter) : runtime{&of}, index{parameter} {}
    void operator()(at::Tensor const& tensor) override { runtime->take_gradient(index, tensor); }
    Runtime* runtime;
    std::size_t index;
  };

  // ---- what is about to be read -----------------------------------------------------------------------------------

  static std::unique_ptr<at::ObserverContext> before_operation(at::RecordFunction const& operation) {
    if (auto* const runtime = active()) {
      auto const inputs = inputs_of(operation);
      runtime->look_at(inputs);
      for (auto* const other : runtime->uses_) {
        other->look_at(inputs);
      }
    }
    return nullptr;
  }
  /// libtorch lets no exception out of here. An error is kept, and thrown when the operation reads.
  void look_at(c10::ArrayRef<c10::IValue const> inputs) noexcept {
    touched_.clear();
    bool closed = false;
    auto const look = [&](at::Tensor const& tensor) {
      if (auto const* const storage = lent_storage(tensor, *owner_)) {
        touched_.push_back(storage->index());
        closed |= parameters_[storage->index()].open == 0;
      }
    };
    each_tensor_of(inputs, look);
    if (closed || forward_pins_ > 0) {
      try {
        check_pinned();
        if (closed) {
          open_touched();
        }
      } catch (std::exception const& error) {
        keep(error);
      }
    }
  }
  void keep(std::exception const& error) noexcept {
    if (!swallowed()) {
      swallowed() = std::current_exception();
    }
    failed_ = true;
    for (auto const p : touched_) {
      parameters_[p].storage->close(error.what());
    }
  }
  /// Operations read a unit that the program keeps open. Its backward visits would be miscounted if it was read before
  /// and after another unit in one forward visit.
  void check_pinned() const {
    for (auto const p : touched_) {
      if (auto const u = user_of(p); units_[u].forward_pins > 0 && phase_ == Phase::forward && micro_ != nullptr) {
        ZEROTH_EXPECTS(u == reached_ || reached_ >= units_.size() || is_around(u, reached_) || is_around(reached_, u),
                       "unit \"" + units_[u].label() + "\" is read after unit \"" + units_[reached_].label() +
                           "\" was, while an object of unshard() keeps it open: destroy that object before another "
                           "unit is read");
      }
    }
  }
  void open_touched() {
    needed_.clear();
    for (auto const p : touched_) {
      auto const unit = user_of(p);
      if (std::ranges::find(needed_, unit) == needed_.end()) {
        needed_.push_back(unit);
      }
    }
    close_all_but(needed_);
    for (auto const unit : needed_) {
      if (!units_[unit].is_open()) {
        open(unit);
      }
    }
  }
  /// Among the units that use it, returns one that is open, or else the next one in the direction of this phase.
  [[nodiscard]] std::size_t user_of(std::size_t p) const {
    auto const& users = parameters_[p].units;
    if (auto const open = std::ranges::find_if(users, [&](auto unit) { return units_[unit].is_open(); });
        open != users.end()) {
      return *open;
    }
    if (phase_ == Phase::backward) {
      auto const at = std::ranges::upper_bound(users, reached_);
      return at == users.begin() ? users.back() : *std::prev(at);
    }
    auto const at = std::ranges::lower_bound(users, reached_);
    return at == users.end() ? users.front() : *at;
  }

  // ---- guards -----------------------------------------------------------------------------------------------------

  /// Prepares for the operations of `pass`.
  void enter(AnyPass& pass, AnyMicroStep* micro) {
    pass_ = &pass;
    micro_ = micro;
    phase_ = Phase::forward;
    reached_ = 0;
    running_again_ = 0;
    failed_ = false;
    forward_pins_ = 0;
    ++passes_;
    forward_uses_.clear();
    for (auto& unit : units_) {
      unit.backward_turns = unit.forward_pins = unit.backward_pins = 0;
      unit.used = false;
    }
  }
  void leave() noexcept {
    forward_pins_ = 0;
    for (auto& unit : units_) {
      unit.forward_pins = unit.backward_pins = 0;
    }
    if (!failed_) {
      close_all_but({});
    }
    pass_ = nullptr;
    micro_ = nullptr;
  }
  void open(std::size_t u) { phase_ == Phase::backward&& running_again_ == 0 ? open_backward(u) : open_forward(u); }
  void open_forward(std::size_t u) {
    check_call(u);
    for (auto const outer : units_[u].around) {
      if (!units_[outer].is_open()) {
        open_forward(outer);
      }
    }
    auto& unit = units_[u];
    unit.forward.emplace(pass_->forward(*unit.id));
    lend(unit, *unit.forward);
    if (phase_ == Phase::forward) {
      unit.used = true;
      forward_uses_.add(u);
      reached_ = unit.outer ? reached_ : u;
    }
  }
  void check_call(std::size_t u) const {
    auto const found = recomputed_.find(units_[u].module);
    ZEROTH_EXPECTS(found == recomputed_.end() || found->second.calls > 0 || micro_ == nullptr ||
                       phase_ != Phase::forward || !at::GradMode::is_enabled(),
                   "unit \"" + units_[u].label() +
                       "\" is to be run again in backward, but was called without its holder, as Sequential does: call "
                       "the holder, or do not recompute it");
  }
  void open_backward(std::size_t u) {
    auto const place = forward_uses_.visit(u);
    take_turns(u, place);
    auto& unit = units_[u];
    unit.backward.emplace(micro_->backward(*unit.id));
    ++unit.backward_turns;
    lend(unit, *unit.backward);
    close(unit, unit.forward, unit.forward_pins);  // if it has just been run again
    reached_ = unit.outer ? reached_ : u;
  }
  /// Takes the backward visits that autograd does not take, before `next`, which forward used at index `place`. These
  /// are units that forward used later but no gradient reaches, and units that were not used at all.
  void take_turns(std::size_t next, std::size_t place) {
    due_.clear();
    auto const inside = [&](std::size_t u) {
      return next != none && (u == next || is_within(units_[next].name, units_[u].name));
    };
    forward_uses_.visit_from(
        next == none ? 0 : place + 1, [&](std::size_t u) { return !inside(u) && !units_[u].is_in_use(); }, due_);
    for (auto u = next == none ? 0 : next + 1; u < units_.size(); ++u) {
      if (!units_[u].used && units_[u].backward_turns == 0 && !inside(u)) {
        due_.push_back(u);
      }
    }
    std::ranges::sort(due_, std::greater{});
    for (auto const u : due_) {
      static_cast<void>(micro_->backward(*units_[u].id));
      ++units_[u].backward_turns;
    }
  }
  void lend(Unit const& unit, AnyParams const& guard) {
    for (auto const p : unit.parameters) {
      auto& parameter = parameters_[p];
      parameter.storage->open(const_cast<void*>(guard[*parameter.id].data));  // NOLINT: autograd only reads it
      ++parameter.open;
    }
  }
  /// Closes all units except those in `needed`, the units that contain them, and the units inside them.
  [[nodiscard]] bool is_around(std::size_t outer, std::size_t inner) const noexcept {
    return std::ranges::find(units_[inner].around, outer) != units_[inner].around.end();
  }
  void close_all_but(std::vector<std::size_t> const& needed) noexcept {
    for (std::size_t u = units_.size(); u-- > 0;) {
      bool const stays = std::ranges::any_of(
          needed, [&](std::size_t other) { return u == other || is_around(u, other) || is_around(other, u); });
      if (!stays) {
        close(units_[u], units_[u].forward, units_[u].forward_pins);
        close(units_[u], units_[u].backward, units_[u].backward_pins);
      }
    }
  }
  template <class Guard>
  void close(Unit const& unit, std::optional<Guard>& guard, int pins) noexcept {
    if (!guard || pins > 0) {
      return;
    }
    for (auto const p : unit.parameters) {
      if (auto& parameter = parameters_[p]; --parameter.open == 0) {
        parameter.storage->close();
      }
    }
    guard.reset();
  }

  // ---- gradients --------------------------------------------------------------------------------------------------

  void take_gradient(std::size_t index, at::Tensor const& tensor) {
    auto const& parameter = parameters_[index];
    ZEROTH_EXPECTS(used_by_ == nullptr,
                   "a gradient of \"" + parameter.name +
                       "\" came in a pass that uses its Trainer frozen, by a tensor that an earlier pass computed from "
                       "it: detach() that tensor");
    ZEROTH_EXPECTS(phase_ == Phase::backward && pass_ != nullptr,
                   "the gradient of \"" + parameter.name +
                       "\" came by loss.backward(): call backward(loss) of the micro-step, which reports the loss and "
                       "scales its gradient");
    auto const gradient = std::exchange(tensor.mutable_grad(), {});
    ZEROTH_EXPECTS(gradient.layout() == at::kStrided,
                   "the gradient of \"" + parameter.name + "\" is sparse: make its embedding with sparse(false)");
    at::NoGradGuard const no_grad;
    auto const unit = user_of(index);
    if (!units_[unit].backward) {
      close_all_but({unit});
      open_backward(unit);
    }
    auto const memory = units_[unit].backward->grad(*parameter.id);
    if (auto const bytes = static_cast<std::size_t>(memory.count() * bytes_of(memory.dtype()));
        memory.beta() == 0 && gradient.is_contiguous() && gradient.scalar_type() == scalar_type(memory.dtype())) {
      std::memcpy(memory.data(), gradient.const_data_ptr(), bytes);
      return;
    }
    auto const into =
        at::from_blob(memory.data(), gradient.sizes(), at::TensorOptions{}.dtype(scalar_type(memory.dtype())));
    memory.beta() == 0 ? into.copy_(gradient) : into.add_(gradient);
  }
  template <class F>
  void set_gradients(F const& gradient_of) {
    for (auto& parameter : parameters_) {
      if (parameter.trainable) {
        parameter.tensor.mutable_grad() = gradient_of(parameter);
      }
    }
  }

  std::vector<Unit> units_;
  std::vector<Parameter> parameters_;
  std::shared_ptr<Owner> owner_;
  std::unordered_map<::torch::nn::Module const*, Recomputed> recomputed_;
  std::vector<at::Tensor> buffers_;
  std::optional<KeptState> kept_;  // between the two runs of a micro-step
  AnyPass* pass_ = nullptr;
  AnyMicroStep* micro_ = nullptr;
  std::uint64_t passes_ = 0;    // so far
  std::vector<Runtime*> uses_;  // other runtimes that the current pass reads
  Runtime* used_by_ = nullptr;  // the runtime whose pass reads this one
  at::CallbackHandle callback_{};
  Phase phase_ = Phase::after;
  bool failed_ = false;
  int running_again_ = 0;
  int forward_pins_ = 0;                             // of all units
  std::size_t reached_ = 0;                          // the unit that was opened last, but for outer ones
  Uses forward_uses_;                                // of this micro-step
  std::vector<std::size_t> touched_, needed_, due_;  // kept for their memory
};

}  // namespace zeroth::torch_adapter::detail
