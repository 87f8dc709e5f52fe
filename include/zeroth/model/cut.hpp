// SPDX-License-Identifier: Apache-2.0
/// How tensor ranks divide a parameter, and which of its elements each has.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// One of the ranks that divide parameters.
struct TensorPart {
  int index = 0;  ///< Counted from 0.
  int of = 1;     ///< Number of ranks; 1: nothing is divided.
  friend bool operator==(TensorPart const&, TensorPart const&) = default;
};

/// How tensor ranks divide a parameter along one dimension. Each has the part with its index of every section.
struct Cut {
  int dim = 0;  ///< Counted from the outermost dimension, 0.
  /// Extents along `dim` that are divided one by one, such as queries, keys and values in one matrix. Their sum is the
  /// parameter's extent. Empty: one section.
  std::vector<std::int64_t> sections{};
  /// 0: the ranks divide each section evenly. Otherwise each part is rounded up to a multiple of this. Elements after
  /// the end of the section are padding: they are zero, are not updated, and are in no file.
  std::int64_t multiple = 0;
  friend bool operator==(Cut const&, Cut const&) = default;
};

/// The cut of an embedding's or a head's rows. All parts together are a multiple of 128 rows, for fast matrix products
/// with any vocabulary (Shoeybi et al. 2019, section 3).
[[nodiscard]] inline Cut cut_of_vocabulary(TensorPart part) {
  constexpr int whole = 128;
  return {.dim = 0, .sections = {}, .multiple = whole / std::gcd(whole, part.of)};
}

namespace model {

/// The maximum of Cut::multiple: far more than a part has, and small enough that no product overflows.
inline constexpr std::int64_t largest_multiple = std::int64_t{1} << 20U;

/// The part of a parameter that one tensor rank has. Elements are numbered in row-major order; those of the part in
/// the part's own shape.
class ZEROTH_EXPORT CutPart {
 public:
  /// `whole` is the shape of the parameter; its name is for messages. Throws ContractError if there is no such
  /// dimension, the sections do not add up to the extent, or the ranks do not divide one of them.
  CutPart(std::string const& name, std::span<std::int64_t const> whole, Cut const& cut, TensorPart part);
  /// All of a parameter of `count` elements.
  [[nodiscard]] static CutPart all_of(std::int64_t count) { return {{}, {&count, 1}, {}, {}}; }
  friend bool operator==(CutPart const&, CutPart const&) = default;

  [[nodiscard]] std::vector<std::int64_t> const& shape() const noexcept { return shape_; }              ///< The part's.
  [[nodiscard]] std::vector<std::int64_t> const& whole_shape() const noexcept { return whole_shape_; }  ///< As given.
  [[nodiscard]] std::int64_t count() const noexcept { return outer_ * extent_ * inner_; }  ///< Elements of the part.
  /// Elements of the whole parameter.
  [[nodiscard]] std::int64_t whole_count() const noexcept { return outer_ * whole_extent_ * inner_; }
  [[nodiscard]] bool has_padding() const noexcept { return has_padding_; }  ///< Whether it has any.

  /// Elements of the part that are consecutive in the parameter, too.
  struct Run {
    std::int64_t first;     ///< Index in the part; negative: other parts have them.
    std::int64_t in_whole;  ///< Index in the parameter; negative: padding.
    std::int64_t count;     ///< Elements.
    [[nodiscard]] bool is_padding() const noexcept { return in_whole < 0; }  ///< No element of the parameter.
    [[nodiscard]] bool is_elsewhere() const noexcept { return first < 0; }   ///< No element of this part.
  };
  /// The run that starts at `element` of the part. Costs the logarithm of the number of sections.
  [[nodiscard]] Run run_from(std::int64_t element) const noexcept;
  /// The run that starts at `element` of the parameter. Elements of other parts may form several runs. Same cost.
  [[nodiscard]] Run run_of_whole(std::int64_t element) const noexcept;
  /// Calls `f(run)` for the runs of elements [first, first + count) of the part, in order.
  template <class F>
  void each_run(std::int64_t first, std::int64_t count, F const& f) const {
    for (auto const end = first + count; first < end;) {
      auto run = run_from(first);
      run.count = std::min(run.count, end - first);
      f(run);
      first += run.count;
    }
  }

 private:
  /// Along the dimension that is cut.
  struct Section {
    std::int64_t in_part;   // where its part begins
    std::int64_t in_whole;  // the same, in the parameter
    std::int64_t count;     // elements of the part that are not padding
    std::int64_t padded;    // with padding
    friend bool operator==(Section const&, Section const&) = default;
  };
  std::vector<std::int64_t> shape_, whole_shape_;
  std::vector<Section> sections_;
  std::int64_t outer_ = 1, inner_ = 1;  // product of the extents before that dimension, and of those after it
  std::int64_t extent_ = 0, whole_extent_ = 0;
  bool has_padding_ = false;
};

/// Calls `f(in_a, in_b, count)` for each run of elements [first, first + count) of `a` that `b` has too, in order.
/// `in_a` and `in_b` are its first indices. Both are parts of one parameter, which may be cut in two ways.
template <class F>
void each_common_run(CutPart const& a, CutPart const& b, std::int64_t first, std::int64_t count, F const& f) {
  a.each_run(first, count, [&](CutPart::Run const& run) {
    for (std::int64_t done = 0; done < run.count && !run.is_padding();) {
      auto const in_b = b.run_of_whole(run.in_whole + done);
      auto const some = std::min(in_b.count, run.count - done);
      if (!in_b.is_elsewhere()) {
        f(run.first + done, in_b.first, some);
      }
      done += some;
    }
  });
}

}  // namespace model
}  // namespace zeroth
