// Files that are whole or absent: written aside, synced and renamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/result.h"

namespace upgrade_gate::base {

// The whole file; an error if it is longer than `cap` bytes, is not a regular
// file, or is a symbolic link.
Result<std::string> ReadFile(const std::filesystem::path& path, std::uint64_t cap);
inline constexpr std::uint64_t kDefaultReadCap = 256ULL << 20;

// Writes beside `path`, syncs, renames over it and syncs the folder.
Status WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes);
// Writes and syncs; for a file inside a folder that is itself renamed into place.
Status WriteFile(const std::filesystem::path& path, std::string_view bytes);
Status CreateDirectories(const std::filesystem::path& path);
// Syncs every folder below `from`, renames it to `to` (which must not exist)
// and syncs the folder that holds it.
Status RenameDirectory(const std::filesystem::path& from, const std::filesystem::path& to);
Status RemoveAll(const std::filesystem::path& path);

struct Entry {
  std::string path;                                    // relative to the root, '/'-separated
  enum class Kind { kFile, kDirectory, kOther } kind;  // kOther: links, devices, sockets
};
// Everything below `root`, sorted by path, links not followed.
Result<std::vector<Entry>> ListTree(const std::filesystem::path& root);

Result<std::uint64_t> FreeBytes(const std::filesystem::path& path);

// An exclusive advisory lock held for the object's life.
class FileLock {
 public:
  // Fails at once if another process holds it; the error names its pid.
  static Result<FileLock> Acquire(const std::filesystem::path& path);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// An owned file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { Close(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();
  void Close();

 private:
  int fd_ = -1;
};

}  // namespace upgrade_gate::base
