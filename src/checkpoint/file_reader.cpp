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
#include "zeroth/core/utf8.hpp"

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
    open_place_ = -1;
    open_ = std::make_unique<InputFile>(folder_ / file_name(place));
    open_place_ = place;
  }
  return *open_;
}

Reader::Checked Reader::look(int place) {
  auto const& input = open(place);
  auto const& contents = record_.contents;
  auto const expected = file_header(contents, place, record_.save_id);
  Checked result{.data_begin = std::ssize(expected), .hashes = {}, .wrong = {}};
  auto const hashes = hash_count(contents);
  auto const bytes =
      result.data_begin + contents.state_bytes + hashes * static_cast<std::int64_t>(sizeof(std::uint64_t));
  if (input.bytes() != bytes) {
    throw Unreadable{fmt::format("has {} bytes, and the checkpoint's has {}", input.bytes(), bytes)};
  }
  std::string header(expected.size(), '\0');
  result.hashes.resize(static_cast<std::size_t>(hashes));
  input.read(0, std::as_writable_bytes(std::span{header}));
  input.read(result.data_begin + contents.state_bytes, std::as_writable_bytes(std::span{result.hashes}));
  if (header.find(record_.save_id) == std::string::npos && header != expected) {
    throw Unreadable{fmt::format("is of another save than {}, whose id is {}", record_name, escaped(record_.save_id))};
  }
  if (header != expected) {
    result.wrong =
        fmt::format("its header is damaged at byte {}", std::ranges::mismatch(header, expected).in1 - header.begin());
  }
  return result;
}

Reader::Checked const& Reader::checked(int place) {
  if (auto const found = checked_.find(place); found != checked_.end()) {
    return found->second;
  }
  auto file = look(place);
  if (!file.wrong.empty()) {
    throw Unreadable{file.wrong};
  }
  return checked_.emplace(place, std::move(file)).first->second;
}

void Reader::check_file(int place) {
  try {
    static_cast<void>(checked(place));
  } catch (Unreadable const& error) {
    refuse(place, error.what());
  }
}

/// Into the buffer: bytes [begin, end) of the data, which begin at a multiple of hashed_bytes, and end at one or with
/// the data.
void Reader::read_bytes(int place, Checked const& file, std::int64_t begin, std::int64_t end) {
  buffered_.place = -1;
  auto const& input = open(place);
  if (direct_) {
    open_->go_direct();
  }
  std::span const buffer{buffer_, static_cast<std::size_t>(whole_blocks(end - begin))};
  if (static_cast<std::int64_t>(input.read_some(file.data_begin + begin, buffer)) < end - begin) {
    throw Unreadable{"has become shorter"};
  }
}

/// Of what was just read: where those parts begin whose hash is another one.
std::vector<std::int64_t> Reader::damaged_in(Checked const& file, std::int64_t begin, std::int64_t end) const {
  std::vector<std::int64_t> damaged;
  for (auto at = begin; at < end; at += hashed_bytes) {
    std::span const part{buffer_ + (at - begin), static_cast<std::size_t>(std::min(hashed_bytes, end - at))};
    if (xxh3(part) != file.hashes[static_cast<std::size_t>(at / hashed_bytes)]) {
      damaged.push_back(at);
    }
  }
  return damaged;
}

/// As read_bytes(), unless they are there.
void Reader::read_checked(int place, std::int64_t begin, std::int64_t end) {
  if (buffered_.place == place && buffered_.begin == begin && end_of(buffered_) >= end) {
    return;
  }
  check_file(place);
  try {
    auto const& file = checked(place);
    read_bytes(place, file, begin, end);
    for (auto const at : damaged_in(file, begin, end)) {
      auto const part_end = std::min(at + hashed_bytes, end);
      refuse(place, fmt::format("is damaged between bytes {} and {}: their hash is another one: {}",
                                file.data_begin + at, file.data_begin + part_end, what_is_at(place, at, part_end)));
    }
  } catch (Unreadable const& error) {
    refuse(place, fmt::format("{}: {}", error.what(), what_is_at(place, begin, end)));
  }
  buffered_ = {place, begin, end - begin};
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
    for (auto part = begin; part < end; part += buffer_bytes) {
      auto const part_end = std::min(part + buffer_bytes, end);
      read_checked(place, part, part_end);
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
    }
    first = last;
  }
}

void Reader::read(Space const& space, SavedState const& state, std::int64_t first, std::span<std::byte> to) {
  auto const pieces = pieces_of(space, state, first, std::ssize(to) / bytes_of(state.dtype));
  std::vector<std::byte*> begins;
  auto* begin = to.data();
  for (auto const& piece : pieces) {
    begins.push_back(begin);
    begin += piece.bytes;
  }
  read(pieces, [&](std::size_t index, std::int64_t offset, std::span<std::byte const> bytes) {
    std::ranges::copy(bytes, begins[index] + offset);
  });
}

void Reader::add_damage_of_data(int place, Checked const& file, std::vector<Damage>& all) {
  auto const add = [&](std::int64_t begin, std::int64_t end, std::string why) {
    bool const goes_on = !all.empty() && all.back().end == file.data_begin + begin && all.back().why == why;
    if (!goes_on) {
      all.push_back({std::move(why), file.data_begin + begin, 0, {}});
    }
    all.back().end = file.data_begin + end;
  };
  for (std::int64_t begin = 0; begin < record_.contents.state_bytes; begin += buffer_bytes) {
    auto const end = std::min(begin + buffer_bytes, record_.contents.state_bytes);
    try {
      read_bytes(place, file, begin, end);
      for (auto const at : damaged_in(file, begin, end)) {
        add(at, std::min(at + hashed_bytes, end), "is damaged: its hash is another one");
      }
    } catch (Unreadable const& error) {
      add(begin, end, error.what());
    }
  }
  for (auto& each : all) {
    if (each.end > file.data_begin) {
      each.extents =
          extents_at(record_.contents, place, each.begin - file.data_begin, each.end - file.data_begin, most_extents);
    }
  }
}

std::vector<Damage> Reader::damage(int place, bool with_data) {
  std::vector<Damage> all;
  open_place_ = -1;  // what reads past the cache reads no header
  try {
    auto const file = look(place);  // which is not kept: a file that was verified has no table in memory
    if (!file.wrong.empty()) {
      all.push_back({file.wrong, 0, file.data_begin, {}});
    }
    if (with_data) {
      add_damage_of_data(place, file, all);
    }
  } catch (Unreadable const& error) {
    all.push_back({error.what(), 0, 0, {}});
  }
  return all;
}

std::string Reader::what_is_at(int place, std::int64_t begin, std::int64_t end) const {
  constexpr std::size_t most = 4;
  auto const extents = extents_at(record_.contents, place, begin, end, most);
  std::string text;
  for (auto const& [state, param, first, last] : extents.listed) {
    text += fmt::format("{}{} of {} elements [{}, {})", text.empty() ? "" : ", ", escaped(state),
                        config::in_quotes(param), first, last);
  }
  auto const more = extents.count - std::ssize(extents.listed);
  return extents.count == 0 ? "padding" : more > 0 ? fmt::format("{} and {} more", text, more) : text;
}

}  // namespace zeroth::checkpoint
