#include "core/base/zstd.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

namespace muster {
namespace {

constexpr int kMostWindowLog = 23;  // 8 MiB
constexpr std::array kMagic{std::byte{0x28}, std::byte{0xb5}, std::byte{0x2f}, std::byte{0xfd}};

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

Error bad(const std::string& what) {
  return {ErrorCode::kInvalidArgument, "zstd frame: " + what, "bad_compression"};
}

Error no_memory() {
  return {ErrorCode::kResourceExhausted, "zstd: there is no memory for it", "memory"};
}

Error over_limit(const std::string& found, std::uint64_t limit_bytes) {
  return bad("it unpacks to " + found + ", the limit is " + std::to_string(limit_bytes));
}

// What can be seen before anything is unpacked.
Status check_beginning(ByteView frame, std::uint64_t limit_bytes) {
  if (frame.size() < kMagic.size() || !std::equal(kMagic.begin(), kMagic.end(), frame.begin())) {
    return bad("it does not begin with 28 b5 2f fd");
  }
  const unsigned long long content = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (content == ZSTD_CONTENTSIZE_ERROR) return bad("its header is damaged or cut off");
  if (content != ZSTD_CONTENTSIZE_UNKNOWN && content > limit_bytes) {
    return over_limit(std::to_string(content) + " bytes", limit_bytes);
  }
  if (ZSTD_getDictID_fromFrame(frame.data(), frame.size()) != 0) {
    return bad("it wants a dictionary, none is taken");
  }
  return {};
}

}  // namespace

Result<Bytes> zstd_compress(ByteView content, int level) {
  const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  if (context == nullptr) return no_memory();
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  Bytes frame(ZSTD_compressBound(content.size()));
  const std::size_t size =
      ZSTD_compress2(context.get(), frame.data(), frame.size(), content.data(), content.size());
  if (ZSTD_isError(size) != 0) {
    return Error{ErrorCode::kInternal, std::string("zstd: ") + ZSTD_getErrorName(size), "zstd"};
  }
  frame.resize(size);
  return frame;
}

Status zstd_unpack(ByteView frame, std::uint64_t limit_bytes,
                   const std::function<Status(ByteView)>& sink) {
  MUSTER_TRY_STATUS(check_beginning(frame, limit_bytes));
  const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  if (context == nullptr) return no_memory();
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kMostWindowLog);
  Bytes piece(ZSTD_DStreamOutSize());
  ZSTD_inBuffer in{frame.data(), frame.size(), 0};
  std::uint64_t unpacked = 0;
  while (true) {
    ZSTD_outBuffer out{piece.data(), piece.size(), 0};
    const std::size_t taken = in.pos;
    const std::size_t left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left) != 0) return bad(ZSTD_getErrorName(left));
    unpacked += out.pos;
    if (unpacked > limit_bytes) return over_limit("more than that", limit_bytes);
    if (out.pos > 0) MUSTER_TRY_STATUS(sink(ByteView(piece).first(out.pos)));
    if (left == 0) break;
    if (in.pos == in.size && out.pos < out.size) return bad("it is cut off");
    if (in.pos == taken && out.pos == 0) return bad("it does not end");
  }
  if (in.pos != in.size) {
    return bad(std::to_string(in.size - in.pos) + " bytes follow it, none are wanted");
  }
  return {};
}

std::uint64_t zstd_bound(std::uint64_t content_bytes) {
  return ZSTD_compressBound(static_cast<std::size_t>(content_bytes));
}

}  // namespace muster
