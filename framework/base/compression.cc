#include "framework/base/compression.h"

#include <zstd.h>

#include <memory>

namespace upgrade_gate::base {

std::string Compress(std::string_view bytes) {
  constexpr int kLevel = 3;
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size =
      ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), kLevel);
  UG_CHECK(!ZSTD_isError(size));
  out.resize(size);
  return out;
}

Result<std::string> Decompress(std::string_view bytes, std::uint64_t cap) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                     ZSTD_freeDCtx);
  UG_CHECK(context != nullptr);
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  std::string out;
  std::string piece(ZSTD_DStreamOutSize(), '\0');
  std::size_t left = 1;
  while (in.pos < in.size) {
    ZSTD_outBuffer piece_out{piece.data(), piece.size(), 0};
    left = ZSTD_decompressStream(context.get(), &piece_out, &in);
    if (ZSTD_isError(left)) {
      return EvidenceError(std::string("not a valid zstd frame: ") + ZSTD_getErrorName(left));
    }
    if (out.size() + piece_out.pos > cap) {
      return EvidenceError("decompresses to more than " + std::to_string(cap) + " bytes");
    }
    out.append(piece.data(), piece_out.pos);
  }
  // A frame is only whole once the library asks for nothing more; flush what it still holds.
  while (left != 0) {
    ZSTD_outBuffer piece_out{piece.data(), piece.size(), 0};
    const std::size_t before = left;
    left = ZSTD_decompressStream(context.get(), &piece_out, &in);
    if (ZSTD_isError(left) || (piece_out.pos == 0 && left >= before)) {
      return EvidenceError("zstd frame is cut short");
    }
    if (out.size() + piece_out.pos > cap) {
      return EvidenceError("decompresses to more than " + std::to_string(cap) + " bytes");
    }
    out.append(piece.data(), piece_out.pos);
  }
  return out;
}

}  // namespace upgrade_gate::base
