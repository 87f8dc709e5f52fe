#include "engine/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "zeroth/core/error.hpp"

namespace zeroth::engine {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace {

constexpr std::int64_t largest_header = 100'000'000;  // what the format's own reader accepts
constexpr std::int64_t header_alignment = 8;

[[noreturn]] void fail(std::filesystem::path const& file, char const* what, int error) {
  throw SystemError{fmt::format("{}: {}: {}", file.string(), what, std::strerror(error))};
}

[[noreturn]] void refuse(std::filesystem::path const& file, std::string const& why) {
  throw SystemError{fmt::format("{} is no usable safetensors file: {}", file.string(), why)};
}

Dtype parse_dtype(std::filesystem::path const& file, std::string const& tensor, std::string const& name) {
  static constexpr std::array known{
      std::pair{"F32", Dtype::fp32}, std::pair{"BF16", Dtype::bf16}, std::pair{"F16", Dtype::fp16},
      std::pair{"F64", Dtype::fp64}, std::pair{"I64", Dtype::int64}, std::pair{"I32", Dtype::int32},
      std::pair{"U8", Dtype::byte},  std::pair{"I8", Dtype::byte},   std::pair{"BOOL", Dtype::byte}};
  auto const* const found = std::ranges::find_if(known, [&](auto const& entry) { return name == entry.first; });
  if (found == known.end()) {
    refuse(file, fmt::format("tensor \"{}\" has dtype {}", tensor, name));
  }
  return found->second;
}

}  // namespace

SafetensorsReader::SafetensorsReader(std::filesystem::path file) : file_{std::move(file)} {
  descriptor_ = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) {
    fail(file_, "cannot open", errno);
  }
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) {
      fail(file_, "cannot stat", errno);
    }
    file_bytes_ = status.st_size;
    parse();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafetensorsReader::~SafetensorsReader() { ::close(descriptor_); }

void SafetensorsReader::parse() {
  std::uint64_t header_bytes = 0;
  if (file_bytes_ < static_cast<std::int64_t>(sizeof header_bytes)) {
    refuse(file_, fmt::format("it has {} bytes", file_bytes_));
  }
  read_bytes(0, std::as_writable_bytes(std::span{&header_bytes, 1}));
  auto const room = std::min(file_bytes_ - 8, largest_header);
  if (header_bytes > static_cast<std::uint64_t>(room)) {
    refuse(file_, fmt::format("its header would have {} bytes, but at most {} can", header_bytes, room));
  }
  std::string text(header_bytes, '\0');
  read_bytes(8, std::as_writable_bytes(std::span{text}));
  data_begin_ = 8 + static_cast<std::int64_t>(header_bytes);
  try {
    auto const header = nlohmann::json::parse(text);
    for (auto const& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        continue;
      }
      Tensor tensor;
      tensor.dtype = parse_dtype(file_, name, entry.at("dtype").get<std::string>());
      tensor.shape = entry.at("shape").get<std::vector<std::int64_t>>();
      auto const offsets = entry.at("data_offsets").get<std::array<std::int64_t, 2>>();
      tensor.offset = offsets[0];
      tensor.bytes = offsets[1] - offsets[0];
      std::int64_t count = 1;
      for (auto const extent : tensor.shape) {
        if (extent < 0 || (extent > 0 && count > std::numeric_limits<std::int64_t>::max() / 8 / extent)) {
          refuse(file_, fmt::format("tensor \"{}\" has an impossible shape", name));
        }
        count *= extent;
      }
      if (offsets[0] < 0 || offsets[1] < offsets[0] || offsets[1] > file_bytes_ - data_begin_ ||
          tensor.bytes != count * bytes_of(tensor.dtype)) {
        refuse(file_,
               fmt::format("tensor \"{}\" of {} elements is at bytes {} to {} of {}: the file is cut off or damaged",
                           name, count, offsets[0], offsets[1], file_bytes_ - data_begin_));
      }
      tensors_.emplace(name, std::move(tensor));
    }
  } catch (nlohmann::json::exception const& error) {
    refuse(file_, fmt::format("its header does not parse: {}", error.what()));
  }
}

void SafetensorsReader::read_bytes(std::int64_t position, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    auto const got = ::pread(descriptor_, bytes.data(), bytes.size(), position);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      fail(file_, "cannot read", errno);
    }
    if (got == 0) {
      refuse(file_, "it ends too early");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    position += got;
  }
}

void SafetensorsReader::read(Tensor const& tensor, std::int64_t first, std::span<float> values) const {
  auto const position = data_begin_ + tensor.offset + first * bytes_of(tensor.dtype);
  if (tensor.dtype == Dtype::fp32) {
    read_bytes(position, std::as_writable_bytes(values));
    return;
  }
  auto const widen = [&]<class T>(T) {
    std::vector<T> narrow(values.size());
    read_bytes(position, std::as_writable_bytes(std::span{narrow}));
    std::ranges::transform(narrow, values.begin(), [](T value) { return to_float(value); });
  };
  if (tensor.dtype == Dtype::bf16) {
    widen(bf16{});
  } else if (tensor.dtype == Dtype::fp16) {
    widen(fp16{});
  } else {
    refuse(file_, fmt::format("weights of dtype {}; fp32, bf16 and fp16 can be read", name_of(tensor.dtype)));
  }
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path const& file, std::span<NamedShape const> tensors)
    : file_{"weights", file} {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};  // what transformers asks for before it loads a file
  auto& entries = header.get_ref<nlohmann::ordered_json::object_t&>();
  std::int64_t offset = 0;
  for (auto const& [name, shape] : tensors) {
    std::int64_t bytes = bytes_of(Dtype::fp32);
    for (auto const extent : shape) {
      bytes *= extent;
    }
    // Not by header[name], which looks through all that are there.
    entries.push_back({name, {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {offset, offset + bytes}}}});
    offset += bytes;
  }
  auto text = header.dump();
  text.resize((text.size() + header_alignment - 1) / header_alignment * header_alignment, ' ');
  std::uint64_t const header_bytes = text.size();
  file_.write(std::as_bytes(std::span{&header_bytes, 1}));
  file_.write(text);
}

}  // namespace zeroth::engine
