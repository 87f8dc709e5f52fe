// SPDX-License-Identifier: Apache-2.0
#include "zeroth/checkpoint/contents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "checkpoint/json_text.hpp"
#include "core/block_file.hpp"

namespace zeroth::checkpoint {
namespace {

constexpr std::string_view rank_state_name = "rank_state";

/// The dtype's name in safetensors.
std::string_view format_name(Dtype dtype) noexcept {
  return dtype == Dtype::fp32 ? "F32" : dtype == Dtype::bf16 ? "BF16" : "F16";
}

bool has_slice(Space const& space, int place) noexcept {
  return place >= space.first_place && place - space.first_place < space.places;
}

/// Calls `f(space, begin)` for all spaces with a slice in file `place`, in file order. Parameters from `begin` on are
/// in the slice.
template <class F>
void each_slice(Contents const& contents, int place, F const& f) {
  for (auto const* const spaces : {&contents.errors, &contents.spaces}) {
    for (auto const& space : *spaces) {
      if (has_slice(space, place)) {
        f(space, space.of_each_rank ? 0 : (place - space.first_place) * space.slice_count);
      }
    }
  }
}

/// "[1/2]" of a part, the suffix of the parameter's name.
std::string part_text(SavedParam const& param) {
  return param.cut ? fmt::format("[{}/{}]", param.cut->part.index, param.cut->part.of) : std::string{};
}

/// The tensors of a file's header, in the order of its data.
class HeaderWriter {
 public:
  HeaderWriter(Contents const& contents, int place, std::string_view save_id) {
    text_ += R"({"__metadata__":{"format":"zeroth checkpoint 1","save_id":)";
    append_quoted(text_, save_id);
    fmt::format_to(std::back_inserter(text_), R"(,"place":"{}","places":"{}"}})", place, contents.places);
    each_slice(contents, place, [&](Space const& space, std::int64_t begin) {
      for (auto const& state : space.states) {
        add_slice(space, state, begin);
      }
    });
    if (auto const bytes = contents.data_bytes(place) - contents.state_bytes(place); bytes > 0) {
      add(rank_state_name, "U8", bytes, 1);
    }
    add("xxh3_64_of_each_mib", "U64", hash_count(contents, place), sizeof(std::uint64_t));
    text_ += '}';
  }

  [[nodiscard]] std::string take() noexcept { return std::move(text_); }

 private:
  void add(std::string_view name, std::string_view dtype, std::int64_t count, std::int64_t element_bytes) {
    auto const begin = end_;
    end_ += count * element_bytes;
    text_ += ',';
    append_quoted(text_, name);
    fmt::format_to(std::back_inserter(text_), R"(:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", dtype, count,
                   begin, end_);
  }

  /// Adds this file's range of every parameter, and the padding between them.
  void add_slice(Space const& space, SavedState const& state, std::int64_t begin) {
    auto const end = begin + space.slice_count;
    auto const dtype = format_name(state.dtype);
    auto const bytes = bytes_of(state.dtype);
    auto at = begin;
    auto const pad_to = [&](std::int64_t next) {
      if (next > at) {
        add(fmt::format("padding/{}", paddings_++), dtype, next - at, bytes);
        at = next;
      }
    };
    for (auto const& param : space.params) {
      auto const first = std::max(param.at, begin);
      auto const last = std::min(param.at + param.count, end);
      if (first < last) {
        pad_to(first);
        name_.clear();
        fmt::format_to(std::back_inserter(name_), "{}/{}{}[{}:{}]", state.name, param.name, part_text(param),
                       first - param.at, last - param.at);
        add(name_, dtype, last - first, bytes);
        at = last;
      }
    }
    pad_to(end);
  }

  std::string text_;
  std::string name_;  // of the tensor being added
  std::int64_t end_ = 0;
  int paddings_ = 0;
};

}  // namespace

std::int64_t SavedParam::whole_count() const noexcept {
  return std::reduce(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies{});
}

model::CutPart SavedParam::part() const {
  return cut ? model::CutPart{name, shape, cut->cut, cut->part} : model::CutPart::all_of(count);
}

std::int64_t Contents::state_bytes(int place) const noexcept {
  auto const behind = std::ranges::upper_bound(groups, place, {}, &FileGroup::first_place);
  if (behind == groups.begin()) {
    return 0;
  }
  auto const& group = *std::prev(behind);
  return place - group.first_place < group.places ? group.state_bytes : 0;
}

std::int64_t Contents::data_bytes(int place) const noexcept {
  auto const own = static_cast<std::size_t>(place);
  return state_bytes(place) + (own < rank_states.size() ? rank_states[own] : 0);
}

SavedRanks Contents::ranks() const noexcept {
  return {.data = places / (stages() * tensor_ranks), .tensor = tensor_ranks, .stages = stages()};
}

int Contents::stages() const noexcept {
  // Ranks without parameters have files but no group.
  auto const count = static_cast<int>(groups.size());
  return count == 0 ? 1 : std::max({1, count / tensor_ranks, places / groups.front().places / tensor_ranks});
}

void place_states(Contents& contents) {
  std::map<int, FileGroup> groups;
  for (auto* const spaces : {&contents.errors, &contents.spaces}) {
    for (auto& space : *spaces) {
      auto& group = groups.try_emplace(space.first_place, FileGroup{space.first_place, space.places, 0}).first->second;
      for (auto& state : space.states) {
        state.base = group.state_bytes;
        group.state_bytes += space.slice_count * bytes_of(state.dtype);
      }
    }
  }
  contents.groups.clear();
  for (auto const& [first, group] : groups) {
    contents.groups.push_back(group);
  }
}

std::vector<Piece> pieces_of(Space const& space, SavedState const& state, std::int64_t first, std::int64_t count) {
  std::vector<Piece> pieces;
  auto const size = bytes_of(state.dtype);
  for (auto const end = first + count; first < end;) {
    auto const within = first % space.slice_count;
    auto const here = std::min(end - first, space.slice_count - within);
    pieces.push_back(
        {space.first_place + static_cast<int>(first / space.slice_count), state.base + within * size, here * size});
    first += here;
  }
  return pieces;
}

Extents extents_at(Contents const& contents, int place, std::int64_t begin, std::int64_t end, std::size_t most) {
  Extents extents;
  each_slice(contents, place, [&](Space const& space, std::int64_t slice) {
    for (auto const& state : space.states) {
      auto const size = bytes_of(state.dtype);
      auto const from = std::max(begin, state.base);
      auto const to = std::min(end, state.base + space.slice_count * size);
      if (from >= to) {
        continue;
      }
      auto const first = slice + (from - state.base) / size;
      auto const last = slice + (to - state.base + size - 1) / size;
      for (auto const& param : space.params) {
        auto const param_first = std::max(first, param.at);
        auto const param_last = std::min(last, param.at + param.count);
        if (param_first < param_last && static_cast<std::size_t>(extents.count++) < most) {
          extents.listed.push_back({state.name, param.name, param_first - param.at, param_last - param.at,
                                    param.cut ? param.cut->part : TensorPart{}});
        }
      }
    }
  });
  auto const states = contents.state_bytes(place);
  auto const from = std::max(begin, states);
  auto const to = std::min(end, contents.data_bytes(place));
  if (from < to && static_cast<std::size_t>(extents.count++) < most) {
    extents.listed.push_back({std::string{rank_state_name}, "", from - states, to - states, {}});
  }
  return extents;
}

std::int64_t hash_count(Contents const& contents, int place) noexcept {
  return (contents.data_bytes(place) + hashed_bytes - 1) / hashed_bytes;
}

std::string file_name(int place) { return fmt::format("place_{:05}.safetensors", place); }

std::string file_header(Contents const& contents, int place, std::string_view save_id) {
  auto const text = HeaderWriter{contents, place, save_id}.take();
  constexpr std::size_t length_bytes = sizeof(std::uint64_t);
  auto const bytes = whole_blocks(static_cast<std::int64_t>(length_bytes + text.size()));
  std::string header(static_cast<std::size_t>(bytes), ' ');
  static_assert(std::endian::native == std::endian::little);  // the format's byte order
  auto const length = static_cast<std::uint64_t>(bytes) - length_bytes;
  std::memcpy(header.data(), &length, length_bytes);
  header.replace(length_bytes, text.size(), text);
  return header;
}

}  // namespace zeroth::checkpoint
