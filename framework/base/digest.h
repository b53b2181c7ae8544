// SHA-256, the only digest of this project, by OpenSSL.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "framework/base/result.h"

namespace upgrade_gate::base {

// 64 lower-case hexadecimal digits, without a "sha256:" prefix.
using Sha256Hex = std::string;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void Update(std::string_view bytes);
  // Of the bytes so far; more may follow.
  Sha256Hex Current() const;
  // Ends the digest; the object takes no more bytes.
  Sha256Hex Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

Sha256Hex Sha256Of(std::string_view bytes);
// Reads the file in pieces; follows a link at the end of `path`.
Result<Sha256Hex> Sha256OfFile(const std::filesystem::path& path);
// True for 64 lower-case hexadecimal digits.
bool IsSha256Hex(std::string_view text);

}  // namespace upgrade_gate::base
