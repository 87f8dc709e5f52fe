// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "checkpoint/record_format.hpp"
#include "checkpoint/unreadable.hpp"
#include "zeroth/checkpoint/record.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/model/cut.hpp"
#include "zeroth/model/description.hpp"
#include "zeroth/tool/config/document.hpp"
#include "zeroth/tool/core/input_file.hpp"

namespace zeroth::checkpoint {
namespace {

using config::Array;
using config::Node;
using config::Object;

constexpr auto most = std::numeric_limits<std::int64_t>::max();
constexpr auto largest_position = std::int64_t{1} << 60U;  // maximum number of steps and of samples
constexpr int most_places = 1 << 24;
constexpr std::size_t most_states = 8;  // per space

/// The reason why a record cannot be used, without the record's name.
struct Wrong final : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown if another version of Zeroth wrote the file, which is not damage.
struct OtherFormat final : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The path to a node: "spaces[3].params[7].name". It is turned into text only for messages, because a record has many
/// nodes. The parent path and the name must outlive it.
class Path {
 public:
  Path() = default;  ///< The document itself.
  explicit Path(std::string_view name) : name_{name} {}
  Path(Path const& parent, std::string_view name) : parent_{&parent}, name_{name} {}
  Path(Path const& list, std::size_t index) : parent_{&list}, index_{index} {}

  [[nodiscard]] std::string text() const {
    auto const before = parent_ == nullptr ? std::string{} : parent_->text();
    return index_ ? fmt::format("{}[{}]", before, *index_)
                  : fmt::format("{}{}{}", before, before.empty() ? "" : ".", name_);
  }

 private:
  Path const* parent_ = nullptr;
  std::string_view name_;
  std::optional<std::size_t> index_;
};

template <class T>
T const& expect(Node const& node, Path const& path, std::string_view allowed) {
  if (auto const* const value = std::get_if<T>(&node.value)) {
    return *value;
  }
  throw Wrong{fmt::format("{} is {}; allowed: {}", path.text(), show(node), allowed)};
}

/// An object, and the path to it.
class Fields {
 public:
  explicit Fields(Object const& document) : object_{document} {}
  Fields(Node const& node, Path const& path) : object_{expect<Object>(node, path, "an object")}, path_{path} {}

  [[nodiscard]] Node const* find(char const* name) const {
    auto const* const member = config::find(object_, name);
    return member == nullptr ? nullptr : &member->node;
  }
  [[nodiscard]] Node const& at(char const* name) const {
    auto const* const node = find(name);
    return node != nullptr ? *node : throw Wrong{fmt::format("{} is missing", path(name).text())};
  }
  [[nodiscard]] Path path(char const* name) const { return {path_, name}; }
  [[nodiscard]] std::int64_t whole(char const* name, std::int64_t least, std::int64_t largest = most) const {
    auto const& node = at(name);
    auto const* const number = std::get_if<config::Number>(&node.value);
    if (number == nullptr || !number->integer || *number->integer < least || *number->integer > largest) {
      throw Wrong{fmt::format("{} is {}; allowed: a whole number from {} to {}", path(name).text(), show(node), least,
                              largest)};
    }
    return *number->integer;
  }
  [[nodiscard]] double real(char const* name) const {
    return expect<config::Number>(at(name), path(name), "a number").real;
  }
  [[nodiscard]] bool flag(char const* name) const { return expect<bool>(at(name), path(name), "true or false"); }
  [[nodiscard]] std::string const& text(char const* name) const {
    return expect<std::string>(at(name), path(name), "a string");
  }
  /// A seed has 64 bits, so it is stored as a text.
  [[nodiscard]] std::uint64_t seed(char const* name) const {
    auto const& digits = text(name);
    std::uint64_t value = 0;
    auto const* const end = digits.data() + digits.size();
    if (auto const [stopped, error] = std::from_chars(digits.data(), end, value);
        error != std::errc{} || stopped != end) {
      throw Wrong{
          fmt::format("{} is {}; allowed: digits of a whole number below 2^64", path(name).text(), show(at(name)))};
    }
    return value;
  }
  /// Calls `read` with each member of an array, and its path.
  template <class F>
  void each(char const* name, F const& read) const {
    auto const list = path(name);
    std::size_t index = 0;
    for (auto const& node : expect<Array>(at(name), list, "an array")) {
      read(node, Path{list, index++});
    }
  }

 private:
  Object const& object_;
  Path path_;
};

std::vector<std::byte> bytes_of_hexadecimal(std::string const& text) {
  std::vector<std::byte> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned value = 0;
    auto const* const begin = text.data() + 2 * i;
    if (std::from_chars(begin, begin + 2, value, 16).ptr != begin + 2) {
      throw Wrong{
          fmt::format("program_state has {}, which is not a byte in hexadecimal", config::in_quotes({begin, 2}))};
    }
    bytes[i] = static_cast<std::byte>(value);
  }
  if (text.size() % 2 != 0 || std::ssize(bytes) > largest_program_state) {
    throw Wrong{fmt::format("program_state has {} digits; allowed: two for each of up to {} bytes", text.size(),
                            largest_program_state)};
  }
  return bytes;
}

optim::LossScaleState loss_scale_of(Fields const& fields) {
  optim::LossScaleState state;
  state.scale = static_cast<float>(fields.real("scale"));
  if (!(state.scale > 0) || !std::isfinite(state.scale)) {
    throw Wrong{fmt::format("{} is {}; allowed: above 0 and finite", fields.path("scale").text(), state.scale)};
  }
  state.hysteresis_left = static_cast<int>(fields.whole("hysteresis_left", 0, std::numeric_limits<int>::max()));
  state.iteration = fields.whole("iteration", 0, largest_position);
  state.last_overflow = fields.whole("last_overflow", -1, largest_position);
  state.exhausted = fields.flag("exhausted");
  return state;
}

/// The cut of a parameter of `shape`. Checks that the cut is possible and that a part is not larger than a model may
/// be.
SavedCut cut_of(Fields const& fields, std::vector<std::int64_t> const& shape) {
  SavedCut saved;
  saved.part.of = static_cast<int>(fields.whole("of", 2, most_places));
  saved.part.index = static_cast<int>(fields.whole("index", 0, saved.part.of - 1));
  saved.cut.dim = static_cast<int>(fields.whole("dim", 0, std::ssize(shape) - 1));
  saved.cut.multiple = fields.whole("multiple", 0, model::largest_multiple);
  auto const extent = shape[static_cast<std::size_t>(saved.cut.dim)];
  auto& sections = saved.cut.sections;
  auto left = extent;
  fields.each("sections", [&](Node const& node, Path const& path) {
    auto const allowed = fmt::format("a whole number from 1 to {}, what is left of dimension {}", left, saved.cut.dim);
    auto const& number = expect<config::Number>(node, path, allowed);
    if (!number.integer || *number.integer < 1 || *number.integer > left) {
      throw Wrong{fmt::format("{} is {}; allowed: {}", path.text(), show(node), allowed)};
    }
    sections.push_back(*number.integer);
    left -= sections.back();
  });
  bool const is_divided =
      saved.cut.multiple > 0 ||
      (sections.empty() ? extent % saved.part.of == 0
                        : std::ranges::all_of(sections, [&](auto each) { return each % saved.part.of == 0; }));
  if ((!sections.empty() && left > 0) || !is_divided) {
    throw Wrong{fmt::format("{}: {} parts do not divide its sections, or these are not dimension {} of {} elements",
                            fields.path("sections").text(), saved.part.of, saved.cut.dim, extent)};
  }
  return saved;
}

/// Elements of a part. Padding may make it larger than the whole parameter.
std::int64_t count_of_part(SavedParam const& param, Fields const& fields) {
  auto const dim = static_cast<std::size_t>(param.cut->cut.dim);
  auto const others = param.whole_count() / param.shape[dim];
  auto const extent = param.part().shape()[dim];
  if (extent > model::largest_count / others) {
    throw Wrong{fmt::format("{} makes the part larger than 2^54 elements", fields.path("cut.multiple").text())};
  }
  return extent * others;
}

SavedParam param_of(Fields const& fields) {
  SavedParam param;
  param.name = fields.text("name");
  if (param.name.empty() || param.name == "__metadata__") {
    throw Wrong{fmt::format("{} is {}; allowed: names that a model allows for parameters", fields.path("name").text(),
                            config::in_quotes(param.name))};
  }
  param.count = 1;
  fields.each("shape", [&](Node const& node, Path const& path) {
    auto const& number = expect<config::Number>(node, path, "a whole number from 1 on");
    if (!number.integer || *number.integer < 1 || *number.integer > model::largest_count / param.count) {
      throw Wrong{fmt::format("{} is {}; allowed: extents from 1 on of up to 2^54 elements", path.text(), show(node))};
    }
    param.shape.push_back(*number.integer);
    param.count *= *number.integer;
  });
  param.at = fields.whole("at", 0, model::largest_count);
  if (fields.find("ties") != nullptr) {
    fields.each("ties", [&](Node const& node, Path const& path) {
      param.ties.push_back(expect<std::string>(node, path, "a string"));
    });
  }
  if (auto const* const cut = fields.find("cut")) {
    param.cut = cut_of({*cut, fields.path("cut")}, param.shape);
    param.count = count_of_part(param, fields);
  }
  return param;
}

SavedState state_of(Fields const& fields) {
  SavedState state;
  state.name = fields.text("name");
  auto const& dtype = fields.text("dtype");
  for (auto const each : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    if (name_of(each) == dtype) {
      state.dtype = each;
      state.base = fields.whole("base", 0);
      return state;
    }
  }
  throw Wrong{
      fmt::format("{} is {}; allowed: fp32, bf16 and fp16", fields.path("dtype").text(), config::in_quotes(dtype))};
}

/// `places` is the number of all files, `format` the record's version.
Space space_of(Fields const& fields, int places, std::int64_t format) {
  Space space;
  space.unit = fields.text("unit");
  space.trainable = fields.flag("trainable");
  space.places = places;
  if (format > 1) {
    space.first_place = static_cast<int>(fields.whole("first_place", 0, places - 1));
    space.places = static_cast<int>(fields.whole("places", 1, places - space.first_place));
  }
  space.of_each_rank = fields.find("of_each_rank") != nullptr && fields.flag("of_each_rank");
  space.slice_count = fields.whole("slice_count", 1, model::largest_count / space.places);
  fields.each("states", [&](Node const& node, Path const& path) {
    space.states.push_back(state_of({node, path}));
    auto const same = std::ranges::count(space.states, space.states.back().name, &SavedState::name);
    if (same > 1 || space.states.size() > most_states) {
      throw Wrong{fmt::format("{}: the state {} occurs twice, or is beyond the first {}", path.text(),
                              config::in_quotes(space.states.back().name), most_states)};
    }
  });
  auto const count = (space.of_each_rank ? 1 : space.places) * space.slice_count;
  auto end = std::int64_t{0};
  fields.each("params", [&](Node const& node, Path const& path) {
    auto param = param_of({node, path});
    if (param.at < end || param.at + param.count > count) {
      throw Wrong{fmt::format("{}: elements {} to {} are beyond the unit's {} or another parameter's", path.text(),
                              param.at, param.at + param.count, count)};
    }
    end = param.at + param.count;
    space.params.push_back(std::move(param));
  });
  return space;
}

std::vector<Space> spaces_of(Fields const& fields, char const* name, int places, std::int64_t format) {
  std::vector<Space> spaces;
  std::int64_t elements = 0;
  fields.each(name, [&](Node const& node, Path const& path) {
    spaces.push_back(space_of({node, path}, places, format));
    elements += spaces.back().slice_count;
    if (elements > model::largest_count) {
      throw Wrong{fmt::format("{}: more than 2^54 elements so far", path.text())};
    }
  });
  return spaces;
}

/// Checks that any two spaces are in the same files, or share none.
void check_groups(Contents const& contents) {
  auto const check = [&](Space const& space) {
    auto const behind = std::ranges::upper_bound(contents.groups, space.first_place, {}, &FileGroup::first_place);
    auto const& group = *std::prev(behind);
    auto const end = space.first_place + space.places;
    if (group.places != space.places || (behind != contents.groups.end() && behind->first_place < end)) {
      throw Wrong{fmt::format("unit {} is in files {} to {}, some of which share other units with files outside these",
                              config::in_quotes(space.unit), space.first_place, end - 1)};
    }
  };
  std::ranges::for_each(contents.errors, check);
  std::ranges::for_each(contents.spaces, check);
}

/// Whether two spaces have parts of the same parameter.
bool are_alike(Space const& space, SavedParam const& param, Space const& other_space, SavedParam const& other) {
  auto const is_same = [](SavedState const& a, SavedState const& b) { return a.name == b.name && a.dtype == b.dtype; };
  return param.shape == other.shape && param.cut.has_value() == other.cut.has_value() &&
         (!param.cut || (param.cut->cut == other.cut->cut && param.cut->part.of == other.cut->part.of)) &&
         space.trainable == other_space.trainable && std::ranges::equal(space.states, other_space.states, is_same);
}

/// Checks that each parameter occurs once, or is divided among all tensor ranks and each part occurs once.
void check_parts(Contents const& contents) {
  auto const found = contents.by_name();
  for (auto const& each : found) {
    auto const refuse = [&](std::string_view why) {
      throw Wrong{fmt::format("parameter {} {}", config::in_quotes(each.name), why)};
    };
    auto const& parts = each.parts;
    auto const& first_space = contents.spaces[parts.front().space];
    auto const& first = first_space.params[parts.front().param];
    auto const expected = static_cast<std::size_t>(first.cut ? contents.tensor_ranks : 1);
    for (std::size_t at = 0; at < parts.size(); ++at) {
      auto const& space = contents.spaces[parts[at].space];
      auto const& param = space.params[parts[at].param];
      if (param.cut && param.cut->part.of != contents.tensor_ranks) {
        refuse(fmt::format("is divided into {} parts, but there were {} tensor ranks", param.cut->part.of,
                           contents.tensor_ranks));
      }
      if (auto const index = static_cast<std::size_t>(param.index()); index != at) {
        refuse(index < at ? "occurs twice" : fmt::format("has no part {}", at));
      }
      if (!are_alike(first_space, first, space, param)) {
        refuse(fmt::format("has parts 0 and {} of different shapes, cuts or states", at));
      }
    }
    if (parts.size() < expected) {
      refuse(fmt::format("has no part {}", parts.size()));
    }
  }
}

/// Calls `f(space, state)` for all states.
template <class F>
void each_state(Contents const& contents, F const& f) {
  for (auto const* const spaces : {&contents.errors, &contents.spaces}) {
    for (auto const& space : *spaces) {
      std::ranges::for_each(space.states, [&](SavedState const& state) { f(space, state); });
    }
  }
}

/// Bytes of each rank's own state.
std::vector<std::int64_t> rank_states_of(Fields const& fields, int places) {
  constexpr std::int64_t largest = std::int64_t{1} << 50U;
  std::vector<std::int64_t> all;
  fields.each("rank_states", [&](Node const& node, Path const& path) {
    auto const allowed = fmt::format("a whole number from 0 to {}", largest);
    auto const& number = expect<config::Number>(node, path, allowed);
    if (!number.integer || *number.integer < 0 || *number.integer > largest) {
      throw Wrong{fmt::format("{} is {}; allowed: {}", path.text(), show(node), allowed)};
    }
    all.push_back(*number.integer);
  });
  if (std::ssize(all) != places) {
    throw Wrong{fmt::format("{} has {} numbers; allowed: {}, one for each file", fields.path("rank_states").text(),
                            all.size(), places)};
  }
  return all;
}

Contents contents_of(Fields const& fields, std::int64_t format) {
  Contents contents;
  contents.places = static_cast<int>(fields.whole("places", 1, most_places));
  contents.tensor_ranks =
      format > format_without_cuts ? static_cast<int>(fields.whole("tensor_ranks", 1, contents.places)) : 1;
  if (format > format_without_rank_states) {
    contents.rank_states = rank_states_of(fields, contents.places);
  }
  if (format > format_without_errors) {
    contents.errors = spaces_of(fields, "errors", contents.places, format);
  }
  contents.spaces = spaces_of(fields, "spaces", contents.places, format);
  if (std::ranges::any_of(contents.spaces, &Space::of_each_rank)) {
    throw Wrong{"spaces has a slice of each rank; allowed: in errors"};
  }
  check_parts(contents);
  std::vector<std::int64_t> bases;
  each_state(contents, [&](Space const&, SavedState const& state) { bases.push_back(state.base); });
  place_states(contents);
  check_groups(contents);
  auto base = bases.begin();
  each_state(contents, [&](Space const& space, SavedState const& state) {
    if (*base++ != state.base) {
      throw Wrong{fmt::format("state {} of unit {} begins at byte {}, but those before it end at {}",
                              config::in_quotes(state.name), config::in_quotes(space.unit), *(base - 1), state.base)};
    }
    if (state.base % bytes_of(state.dtype) != 0) {
      throw Wrong{fmt::format("state {} of unit {} begins at byte {}, within an element", config::in_quotes(state.name),
                              config::in_quotes(space.unit), state.base)};
    }
  });
  if (format == 1 && fields.whole("state_bytes", 0) != contents.state_bytes(0)) {
    throw Wrong{fmt::format("state_bytes is {}, but the states have {}", fields.whole("state_bytes", 0),
                            contents.state_bytes(0))};
  }
  return contents;
}

Record record_of(Fields const& fields) {
  Record record;
  auto const format = fields.whole("format", 1);
  if (format > format_version) {
    throw OtherFormat{
        fmt::format("its format is {}, but this version of Zeroth reads formats 1 to {}", format, format_version)};
  }
  record.save_id = fields.text("save_id");
  record.position.step = fields.whole("step", 0, largest_position);
  auto const in_step = fields.find("updates_per_step") == nullptr ? 1 : fields.whole("updates_per_step", 2, 1 << 20);
  auto const most_applied =
      record.position.step > largest_position / in_step ? largest_position : record.position.step * in_step;
  record.position.applied = fields.whole("applied", 0, most_applied);
  record.position.samples = fields.whole("samples", 0, largest_position);
  if (auto const* const scale = fields.find("loss_scale")) {
    record.position.loss_scale = loss_scale_of({*scale, Path{"loss_scale"}});
  }
  if (auto const* const order = fields.find("order")) {
    Fields const of{*order, Path{"order"}};
    record.order.emplace(
        of.whole("size", 1),
        SampleOrderOptions{.seed = of.seed("seed"),
                           .shuffled = of.flag("shuffled"),
                           .fingerprint = of.find("fingerprint") == nullptr ? 0 : of.seed("fingerprint")});
  }
  record.origin = {fields.text("created"), fields.text("version"), fields.text("host"), fields.whole("process", 0)};
  record.model_seed = fields.seed("model_seed");
  record.rounding_seed = fields.whole("rounding_seed", std::numeric_limits<std::int64_t>::min());
  record.optimizer = fields.text("optimizer");
  record.stage_file = fields.text("stage_file");
  record.program_state = bytes_of_hexadecimal(fields.text("program_state"));
  record.contents = contents_of(fields, format);
  return record;
}

Record parse(std::string const& text) {
  constexpr std::size_t longest_end = 64;
  auto const tail = text.size() > longest_end ? text.size() - longest_end : 0;
  auto const end = text.find(",\n \"xxh3\"", tail);
  if (end == std::string::npos || text.substr(end) != hash_line(std::string_view{text}.substr(0, end))) {
    throw Wrong{end == std::string::npos ? "is damaged: it does not end with its hash" : "is damaged: hash mismatch"};
  }
  config::Problems problems;
  auto const object = config::read_document(text, problems, config::Comments::refused);
  if (!problems.empty()) {
    throw Wrong{problems.text("damaged")};
  }
  return record_of(Fields{object});
}

}  // namespace

void add_spaces_of_text(std::string const& text, Contents& contents) {
  config::Problems problems;
  auto const object = config::read_document(text, problems, config::Comments::refused);
  try {
    if (!problems.empty()) {
      throw Wrong{problems.text("damaged")};
    }
    auto const add = [&](char const* name, std::vector<Space>& to) {
      std::ranges::move(spaces_of(Fields{object}, name, contents.places, format_version), std::back_inserter(to));
    };
    add("errors", contents.errors);
    add("spaces", contents.spaces);
  } catch (Wrong const& error) {
    throw SystemError{fmt::format("another rank's description of its units is damaged: {}", error.what())};
  }
}

Record read_record(std::filesystem::path const& folder) {
  auto const message = [&](std::string_view separator, std::exception const& error) {
    return fmt::format("checkpoint {}: {}{} {}", folder.string(), record_name, separator, error.what());
  };
  try {
    return parse(read_text(folder / record_name, largest_record));
  } catch (Unreadable const& error) {
    throw_unreadable(message("", error), error);
  } catch (Wrong const& error) {
    throw DamagedError{message(":", error)};
  } catch (OtherFormat const& error) {
    throw ContractError{message(":", error)};
  }
}

}  // namespace zeroth::checkpoint
