#include "framework/base/digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "framework/base/file.h"

namespace upgrade_gate::base {

struct Sha256::Impl {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(),
                                                                  EVP_MD_CTX_free};
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  UG_CHECK(impl_->context != nullptr);
  UG_CHECK(EVP_DigestInit_ex(impl_->context.get(), EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(std::string_view bytes) {
  UG_CHECK(EVP_DigestUpdate(impl_->context.get(), bytes.data(), bytes.size()) == 1);
}

Sha256Hex Sha256::Current() const {
  Sha256 copy;
  UG_CHECK(EVP_MD_CTX_copy_ex(copy.impl_->context.get(), impl_->context.get()) == 1);
  return copy.Finish();
}

Sha256Hex Sha256::Finish() {
  std::array<unsigned char, 32> bytes{};
  unsigned length = 0;
  UG_CHECK(EVP_DigestFinal_ex(impl_->context.get(), bytes.data(), &length) == 1 && length == 32);
  constexpr std::string_view kDigits = "0123456789abcdef";
  Sha256Hex hex;
  hex.reserve(64);
  for (const unsigned char byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

Sha256Hex Sha256Of(std::string_view bytes) {
  Sha256 digest;
  digest.Update(bytes);
  return digest.Finish();
}

Result<Sha256Hex> Sha256OfFile(const std::filesystem::path& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return InfrastructureError(path.string() + ": cannot open: " + std::strerror(errno));
  }
  Sha256 digest;
  std::vector<char> buffer(1 << 20);
  for (;;) {
    const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return InfrastructureError(path.string() + ": cannot read: " + std::strerror(errno));
    if (got == 0) return digest.Finish();
    digest.Update({buffer.data(), static_cast<std::size_t>(got)});
  }
}

bool IsSha256Hex(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace upgrade_gate::base
