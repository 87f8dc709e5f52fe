// SPDX-License-Identifier: Apache-2.0
#include "zeroth/checkpoint/file_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <numeric>
#include <tuple>
#include <utility>

#include "checkpoint/hashes.hpp"
#include "core/block_file.hpp"
#include "zeroth/config/document.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::checkpoint {
namespace {

std::byte* allocate_blocks(std::int64_t bytes) {
  auto* const memory = std::aligned_alloc(static_cast<std::size_t>(block_bytes), static_cast<std::size_t>(bytes));
  return memory != nullptr ? static_cast<std::byte*>(memory) : throw std::bad_alloc{};
}

[[nodiscard]] std::int64_t end_of(Piece const& piece) noexcept { return piece.begin + piece.bytes; }

}  // namespace

Reader::Reader(std::filesystem::path folder, bool direct, std::span<std::byte> buffer)
    : folder_{std::move(folder)},
      direct_{direct},
      record_{read_record(folder_)},
      own_buffer_{buffer.empty() ? allocate_blocks(buffer_bytes) : nullptr,
                  [](std::byte* memory) { std::free(memory); }},
      buffer_{buffer.empty() ? own_buffer_.get() : buffer.data()} {}

Reader::~Reader() = default;

void Reader::refuse(int place, std::string_view why) const {
  throw SystemError{fmt::format("checkpoint {}: {}: {}", folder_.string(), file_name(place), why)};
}

InputFile const& Reader::open(int place) {
  if (open_place_ != place) {
    try {
      open_ = std::make_unique<InputFile>(folder_ / file_name(place));
      open_place_ = place;
    } catch (Unreadable const& error) {
      open_place_ = -1;
      refuse(place, error.what());
    }
  }
  return *open_;
}

Reader::Checked Reader::check(int place, InputFile const& input) const {
  auto const& contents = record_.contents;
  auto const expected = file_header(contents, place, record_.save_id);
  Checked result{.data_begin = std::ssize(expected), .hashes = {}};
  auto const hashes = hash_count(contents);
  auto const bytes =
      result.data_begin + contents.state_bytes + hashes * static_cast<std::int64_t>(sizeof(std::uint64_t));
  if (input.bytes() != bytes) {
    refuse(place, fmt::format("has {} bytes, and the checkpoint's has {}", input.bytes(), bytes));
  }
  std::string header(expected.size(), '\0');
  result.hashes.resize(static_cast<std::size_t>(hashes));
  try {
    input.read(0, std::as_writable_bytes(std::span{header}));
    input.read(result.data_begin + contents.state_bytes, std::as_writable_bytes(std::span{result.hashes}));
  } catch (Unreadable const& error) {
    refuse(place, error.what());
  }
  if (header != expected) {
    auto const where = std::ranges::mismatch(header, expected).in1 - header.begin();
    bool const is_of_other = header.find(record_.save_id) == std::string::npos;
    refuse(place, is_of_other ? fmt::format("is of another save than {}, whose id is {}", record_name, record_.save_id)
                              : fmt::format("its header is damaged at byte {}", where));
  }
  return result;
}

Reader::Checked const& Reader::checked(int place) {
  auto const found = checked_.find(place);
  return found != checked_.end() ? found->second : checked_.emplace(place, check(place, open(place))).first->second;
}

void Reader::check_file(int place) { static_cast<void>(checked(place)); }

/// Into the buffer: bytes [begin, end) of the data, which begin at a multiple of hashed_bytes, and end at one or with
/// the data.
void Reader::read_bytes(int place, std::int64_t begin, std::int64_t end) {
  auto const& file = checked(place);
  auto const& input = open(place);
  std::span const buffer{buffer_, static_cast<std::size_t>(whole_blocks(end - begin))};
  std::size_t got = 0;
  try {
    if (direct_) {
      open_->go_direct();
    }
    got = input.read_some(file.data_begin + begin, buffer);
  } catch (Unreadable const& error) {
    refuse(place, fmt::format("{}: {}", error.what(), what_is_at(place, begin, end)));
  }
  if (static_cast<std::int64_t>(got) < end - begin) {
    refuse(place, "has become shorter");
  }
  for (auto at = begin; at < end; at += hashed_bytes) {
    auto const count = std::min(hashed_bytes, end - at);
    auto const hash = xxh3(buffer.subspan(static_cast<std::size_t>(at - begin), static_cast<std::size_t>(count)));
    if (hash != file.hashes[static_cast<std::size_t>(at / hashed_bytes)]) {
      refuse(place, fmt::format("is damaged between bytes {} and {}: their hash is another one: {}",
                                file.data_begin + at, file.data_begin + at + count, what_is_at(place, at, at + count)));
    }
  }
}

/// Calls `take` for every part of [begin, end) that was read into the buffer.
void Reader::read_run(int place, std::int64_t begin, std::int64_t end,
                      std::function<void(std::int64_t, std::int64_t)> const& take) {
  for (; begin < end; begin += buffer_bytes) {
    auto const part_end = std::min(begin + buffer_bytes, end);
    read_bytes(place, begin, part_end);
    take(begin, part_end);
  }
}

void Reader::read(std::span<Piece const> pieces, TakeBytes const& take) {
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::tuple{pieces[i].place, pieces[i].begin}; });
  auto const down = [](std::int64_t at) { return at / hashed_bytes * hashed_bytes; };
  auto const up = [&](std::int64_t at) { return std::min(down(at + hashed_bytes - 1), record_.contents.state_bytes); };
  for (std::size_t first = 0; first < order.size();) {
    auto const place = pieces[order[first]].place;
    auto const begin = down(pieces[order[first]].begin);
    auto end = up(end_of(pieces[order[first]]));
    auto last = first + 1;
    for (; last < order.size() && pieces[order[last]].place == place && down(pieces[order[last]].begin) <= end;
         ++last) {
      end = std::max(end, up(end_of(pieces[order[last]])));
    }
    read_run(place, begin, end, [&](std::int64_t part, std::int64_t part_end) {
      for (auto each = first; each < last && pieces[order[each]].begin < part_end; ++each) {
        auto const& piece = pieces[order[each]];
        auto const from = std::max(piece.begin, part);
        auto const count = std::min(end_of(piece), part_end) - from;
        if (count > 0) {
          take(order[each], from - piece.begin, {buffer_ + (from - part), static_cast<std::size_t>(count)});
        } else if (each == first) {
          ++first;  // it ended before this part
        }
      }
    });
    first = last;
  }
}

void Reader::verify(int place) {
  read_run(place, 0, record_.contents.state_bytes, [](std::int64_t, std::int64_t) {});
  check_file(place);
}

/// The states that bytes [begin, end) of the data are of, and the elements of parameters in them.
std::string Reader::what_is_at(int place, std::int64_t begin, std::int64_t end) const {
  constexpr int most = 4;
  std::string text;
  int found = 0;
  auto const add = [&](SavedState const& state, SavedParam const& param, std::int64_t first, std::int64_t last) {
    if (++found <= most) {
      text += fmt::format("{}{} of {} elements [{}, {})", text.empty() ? "" : ", ", state.name,
                          config::in_quotes(param.name), first, last);
    }
  };
  for (auto const& space : record_.contents.spaces) {
    for (auto const& state : space.states) {
      auto const size = bytes_of(state.dtype);
      auto const from = std::max(begin, state.base);
      auto const to = std::min(end, state.base + space.slice_count * size);
      if (from >= to) {
        continue;
      }
      auto const first = place * space.slice_count + (from - state.base) / size;
      auto const last = place * space.slice_count + (to - state.base + size - 1) / size;
      for (auto const& param : space.params) {
        auto const param_first = std::max(first, param.at);
        auto const param_last = std::min(last, param.at + param.count);
        if (param_first < param_last) {
          add(state, param, param_first - param.at, param_last - param.at);
        }
      }
    }
  }
  return found == 0 ? "padding" : found > most ? fmt::format("{} and {} more", text, found - most) : text;
}

}  // namespace zeroth::checkpoint
