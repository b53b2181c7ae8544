#include "framework/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace upgrade_gate::base {
namespace fs = std::filesystem;
namespace {

Error SystemError(const fs::path& path, std::string_view what) {
  return Error{ErrorKind::kInfrastructure,
               path.string() + ": " + std::string(what) + ": " + std::strerror(errno)};
}

Status SyncDirectory(const fs::path& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) {
    return tl::unexpected(SystemError(path, "cannot sync folder"));
  }
  return {};
}

fs::path ParentOf(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = other.release();
  }
  return *this;
}

int Fd::release() {
  return std::exchange(fd_, -1);
}

void Fd::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

Result<std::string> ReadFile(const fs::path& path, std::uint64_t cap) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) {
    if (errno == ELOOP) {
      return InfrastructureError(path.string() + ": is a symbolic link, which is not followed");
    }
    return tl::unexpected(SystemError(path, "cannot open"));
  }
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return tl::unexpected(SystemError(path, "cannot stat"));
  if (!S_ISREG(info.st_mode)) return InfrastructureError(path.string() + ": is not a regular file");
  std::string bytes;
  std::string piece(std::size_t{1} << 16, '\0');
  for (;;) {
    const ssize_t got = read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return tl::unexpected(SystemError(path, "cannot read"));
    if (got == 0) return bytes;
    if (bytes.size() + static_cast<std::size_t>(got) > cap) {
      return InfrastructureError(path.string() + ": is longer than the cap of " +
                                 std::to_string(cap) + " bytes");
    }
    bytes.append(piece.data(), static_cast<std::size_t>(got));
  }
}

Status WriteFile(const fs::path& path, std::string_view bytes) {
  Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd.valid()) return tl::unexpected(SystemError(path, "cannot create"));
  while (!bytes.empty()) {
    const ssize_t put = write(fd.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return tl::unexpected(SystemError(path, "cannot write"));
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  if (fsync(fd.get()) != 0) return tl::unexpected(SystemError(path, "cannot sync"));
  return {};
}

Status WriteFileAtomically(const fs::path& path, std::string_view bytes) {
  const fs::path aside = path.string() + ".tmp" + std::to_string(getpid());
  UG_TRY(WriteFile(aside, bytes));
  if (rename(aside.c_str(), path.c_str()) != 0) {
    return tl::unexpected(SystemError(path, "cannot rename into place"));
  }
  return SyncDirectory(ParentOf(path));
}

Status CreateDirectories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    return InfrastructureError(path.string() + ": cannot create folder: " + error.message());
  return {};
}

Status RenameDirectory(const fs::path& from, const fs::path& to) {
  UG_ASSIGN(const auto entries, ListTree(from));
  for (const Entry& entry : entries) {
    if (entry.kind == Entry::Kind::kDirectory) UG_TRY(SyncDirectory(from / entry.path));
  }
  UG_TRY(SyncDirectory(from));
  std::error_code error;
  if (fs::exists(fs::symlink_status(to, error))) {
    return InfrastructureError(to.string() + ": is already there; nothing is overwritten");
  }
  if (rename(from.c_str(), to.c_str()) != 0) {
    return tl::unexpected(SystemError(to, "cannot rename into place"));
  }
  return SyncDirectory(ParentOf(to));
}

Status RemoveAll(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return InfrastructureError(path.string() + ": cannot remove: " + error.message());
  return {};
}

Result<std::vector<Entry>> ListTree(const fs::path& root) {
  std::vector<Entry> entries;
  std::error_code error;
  fs::recursive_directory_iterator it(root, error);
  if (error) return InfrastructureError(root.string() + ": cannot list: " + error.message());
  while (it != fs::recursive_directory_iterator()) {
    const fs::file_status status = it->symlink_status(error);
    if (error)
      return InfrastructureError(it->path().string() + ": cannot stat: " + error.message());
    Entry::Kind kind = Entry::Kind::kOther;
    if (fs::is_regular_file(status)) kind = Entry::Kind::kFile;
    if (fs::is_directory(status)) kind = Entry::Kind::kDirectory;
    entries.push_back({it->path().lexically_relative(root).generic_string(), kind});
    it.increment(error);
    if (error) return InfrastructureError(root.string() + ": cannot list: " + error.message());
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.path < b.path; });
  return entries;
}

Result<std::uint64_t> FreeBytes(const fs::path& path) {
  struct statvfs info {};
  if (statvfs(path.c_str(), &info) != 0) {
    return tl::unexpected(SystemError(path, "cannot read free space"));
  }
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

Result<FileLock> FileLock::Acquire(const fs::path& path) {
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd.valid()) return tl::unexpected(SystemError(path, "cannot open lock"));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return tl::unexpected(SystemError(path, "cannot lock"));
    std::string holder(32, '\0');
    const ssize_t got = pread(fd.get(), holder.data(), holder.size(), 0);
    holder.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    holder.erase(
        std::find_if_not(holder.begin(), holder.end(), [](char c) { return c >= '0' && c <= '9'; }),
        holder.end());
    return InfrastructureError(path.string() + ": is held by another process" +
                               (holder.empty() ? "" : " (pid " + holder + ")") +
                               "; wait for it or stop it");
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(fd.get(), 0) != 0 ||
      pwrite(fd.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return tl::unexpected(SystemError(path, "cannot write lock"));
  }
  return FileLock(fd.release());
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace upgrade_gate::base
