#include "framework/evidence/raw_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

namespace upgrade_gate::evidence {
namespace {

off_t OffsetOf(std::uint32_t block) {
  return static_cast<off_t>(block) * static_cast<off_t>(Spool::kBlockBytes);
}

}  // namespace

base::Result<std::shared_ptr<Spool>> Spool::Create(const std::filesystem::path& folder) {
  const auto fail = [&] {
    return base::InfrastructureError(fmt::format("{}: cannot make a file for raw streams: {}",
                                                 folder.string(), std::strerror(errno)));
  };
  base::Fd file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file.valid() && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    // A file system without unnamed files.
    std::string name = (folder / ".spool-XXXXXX").string();
    file = base::Fd(mkostemp(name.data(), O_CLOEXEC));
    if (file.valid() && unlink(name.c_str()) != 0) return fail();
  }
  if (!file.valid()) return fail();
  return std::shared_ptr<Spool>(new Spool(std::move(file), folder.string()));
}

Spool::Block Spool::Write(std::string_view block) {
  Block at = next_;
  if (!free_.empty()) {
    at = free_.back();
    free_.pop_back();
  } else if (next_ == std::numeric_limits<Block>::max()) {
    if (status_) status_ = base::InfrastructureError(place_ + ": the raw streams fill their file");
    return at;
  } else {
    ++next_;
  }
  std::size_t done = 0;
  while (status_ && done < block.size()) {
    const ssize_t written = pwrite(file_.get(), block.data() + done, block.size() - done,
                                   OffsetOf(at) + static_cast<off_t>(done));
    if (written > 0) {
      done += static_cast<std::size_t>(written);
    } else if (written < 0 && errno != EINTR) {
      status_ = base::InfrastructureError(
          fmt::format("{}: cannot keep raw streams: {}", place_, std::strerror(errno)));
    }
  }
  return at;
}

base::Status Spool::Read(Block block, char* to) const {
  UG_TRY(status_);
  std::size_t done = 0;
  while (done < kBlockBytes) {
    const ssize_t got = pread(file_.get(), to + done, kBlockBytes - done,
                              OffsetOf(block) + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return base::InfrastructureError(
          fmt::format("{}: cannot read raw streams back: {}", place_,
                      got == 0 ? "the file ends early" : std::strerror(errno)));
    }
    done += static_cast<std::size_t>(got);
  }
  return {};
}

RawBytes& RawBytes::operator=(RawBytes&& other) noexcept {
  if (this == &other) return *this;
  Clear();
  spool_ = other.spool_;  // the other may go on writing
  blocks_ = std::exchange(other.blocks_, {});
  tail_ = std::exchange(other.tail_, {});
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void RawBytes::Append(std::string_view bytes) {
  size_ += bytes.size();
  if (!spool_) {
    tail_.insert(tail_.end(), bytes.begin(), bytes.end());
    return;
  }
  while (!bytes.empty()) {
    const std::size_t take = std::min(bytes.size(), Spool::kBlockBytes - tail_.size());
    if (tail_.size() + take > tail_.capacity()) {  // never more than a block
      tail_.reserve(std::min(Spool::kBlockBytes, 2 * (tail_.size() + take)));
    }
    tail_.insert(tail_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(take));
    bytes.remove_prefix(take);
    if (tail_.size() == Spool::kBlockBytes) {
      blocks_.push_back(spool_->Write({tail_.data(), tail_.size()}));
      tail_.clear();
    }
  }
}

void RawBytes::Clear() {
  if (spool_) spool_->free_.insert(spool_->free_.end(), blocks_.begin(), blocks_.end());
  blocks_.clear();
  tail_.clear();
  size_ = 0;
}

base::Result<std::string> RawBytes::Read() const {
  if (spool_) UG_TRY(spool_->status_);
  std::string bytes(blocks_.size() * Spool::kBlockBytes, '\0');
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    UG_TRY(spool_->Read(blocks_[i], bytes.data() + i * Spool::kBlockBytes));
  }
  bytes.append(tail_.data(), tail_.size());
  return bytes;
}

}  // namespace upgrade_gate::evidence
