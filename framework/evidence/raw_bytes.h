// The raw bytes of a response on their way into the evidence: in memory, or in a
// spool file, of which a response then holds one block in memory at most.
//
// A spool has no name in the file system and so leaves nothing behind, however
// the process ends. One thread at a time for a spool and all that write to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/file.h"
#include "framework/base/result.h"

namespace upgrade_gate::evidence {

// Blocks that are given back are used again: the file grows to what is kept and
// what is in flight at once.
class Spool {
 public:
  static constexpr std::size_t kBlockBytes = 2048;

  // In `folder`, which must exist.
  static base::Result<std::shared_ptr<Spool>> Create(const std::filesystem::path& folder);

  // The first error of a write. From then on bytes are dropped, and no RawBytes
  // of this spool can be read.
  const base::Status& status() const { return status_; }
  std::uint64_t blocks() const { return next_; }  // that the file has

 private:
  friend class RawBytes;
  using Block = std::uint32_t;
  Spool(base::Fd file, std::string place) : file_(std::move(file)), place_(std::move(place)) {}
  Block Write(std::string_view block);
  base::Status Read(Block block, char* to) const;

  base::Fd file_;
  std::string place_;  // for messages
  base::Status status_;
  std::vector<Block> free_;
  Block next_ = 0;
};

class RawBytes {
 public:
  RawBytes() = default;
  // Null: in memory.
  explicit RawBytes(std::shared_ptr<Spool> spool) : spool_(std::move(spool)) {}
  RawBytes(RawBytes&& other) noexcept { *this = std::move(other); }
  RawBytes& operator=(RawBytes&& other) noexcept;
  ~RawBytes() { Clear(); }

  void Append(std::string_view bytes);
  void Clear();
  std::size_t size() const { return size_; }
  // An error if the spool could not write or read them.
  base::Result<std::string> Read() const;

 private:
  std::shared_ptr<Spool> spool_;
  std::vector<Spool::Block> blocks_;
  std::vector<char> tail_;  // what no full block holds yet
  std::size_t size_ = 0;
};

}  // namespace upgrade_gate::evidence
