#include <bit>
#include <string_view>

#include "zeroth/model/description.hpp"

namespace zeroth::model {
namespace {

/// FNV-1a over what a model is made of; every field is closed by its length or kind, so that none runs into the next.
class Hash {
 public:
  void add(std::uint64_t value) noexcept {
    for (int byte = 0; byte < 8; ++byte) {
      state_ = (state_ ^ ((value >> (8 * byte)) & 0xffU)) * 0x100000001b3ULL;
    }
  }
  void add(std::string_view text) noexcept {
    add(static_cast<std::uint64_t>(text.size()));
    for (char const c : text) {
      state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    }
  }
  void add(float value) noexcept { add(static_cast<std::uint64_t>(std::bit_cast<std::uint32_t>(value))); }
  [[nodiscard]] std::uint64_t value() const noexcept { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

struct AddInit {
  Hash& hash;
  void operator()(Constant const& init) const noexcept { hash.add(init.value); }
  void operator()(Normal const& init) const noexcept {
    hash.add(init.stddev);
    hash.add(init.mean);
  }
  void operator()(Uniform const& init) const noexcept {
    hash.add(init.low);
    hash.add(init.high);
  }
  void operator()(PerElement const&) const noexcept {}
};

}  // namespace

std::uint64_t fingerprint(Description const& description) {
  Hash hash;
  hash.add(description.seed);
  hash.add(static_cast<std::uint64_t>(description.units.size()));
  for (auto const& unit : description.units) {
    hash.add(unit.name);
    hash.add(static_cast<std::uint64_t>(unit.uses_per_micro_step));
    hash.add(static_cast<std::uint64_t>(unit.params.size()));
    for (auto const param : unit.params) {
      hash.add(std::uint64_t{param});
    }
    hash.add(static_cast<std::uint64_t>(unit.ties.size()));
    for (auto const param : unit.ties) {
      hash.add(std::uint64_t{param});
    }
  }
  for (auto const& param : description.params) {
    hash.add(param.name);
    hash.add(static_cast<std::uint64_t>(param.shape.size()));
    for (auto const extent : param.shape) {
      hash.add(static_cast<std::uint64_t>(extent));
    }
    hash.add(static_cast<std::uint64_t>(param.init.index()));
    std::visit(AddInit{hash}, param.init);
    hash.add(std::uint64_t{param.options.trainable});
    hash.add(param.options.learning_rate_factor);
    hash.add(param.options.weight_decay_factor);
  }
  return hash.value();
}

}  // namespace zeroth::model
