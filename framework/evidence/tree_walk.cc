#include "framework/evidence/tree_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "framework/base/text.h"
#include "framework/evidence/limits.h"

namespace upgrade_gate::evidence {
namespace {

std::string KindOf(mode_t mode) {
  if (S_ISLNK(mode)) return "is a symbolic link";
  if (S_ISFIFO(mode)) return "is a named pipe";
  if (S_ISSOCK(mode)) return "is a socket";
  if (S_ISBLK(mode) || S_ISCHR(mode)) return "is a device";
  return "is neither a file nor a folder";
}

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

class Walk {
 public:
  Walk(const std::filesystem::path& root, const TreeVisitor& visitor)
      : root_(root), visitor_(visitor) {}

  base::Status Folder(base::Fd fd, const std::string& prefix, int depth) {
    UG_ASSIGN(const std::vector<std::string> names, Names(fd, prefix));
    if (names.empty() && !prefix.empty()) {
      visitor_.problem(prefix, "is an empty folder, which no seal covers");
    }
    for (const std::string& name : names) {
      const std::string path = prefix.empty() ? name : prefix + "/" + name;
      if (++entries_ > kMaxEntries) {
        return base::EvidenceError(fmt::format("{}: holds more than {} files and folders",
                                               base::Visible(root_.string()), kMaxEntries));
      }
      UG_TRY(Entry(fd, name, path, depth));
    }
    return {};
  }

 private:
  base::Status Entry(const base::Fd& folder, const std::string& name, const std::string& path,
                     int depth) {
    struct stat info {};
    if (fstatat(folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      return Failed(path, "cannot stat");
    }
    const bool is_folder = S_ISDIR(info.st_mode);
    if (!is_folder && !S_ISREG(info.st_mode)) {
      visitor_.problem(path, KindOf(info.st_mode));
      return {};
    }
    if (is_folder && depth == kMaxFolderDepth) {
      visitor_.problem(path, fmt::format("is deeper than {} folders", kMaxFolderDepth));
      return {};
    }
    // Non-blocking, and asked again below: it may have become something else by now.
    base::Fd fd(
        openat(folder.get(), name.c_str(),
               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (is_folder ? O_DIRECTORY : 0)));
    if (!fd.valid()) return Failed(path, "cannot open");
    if (is_folder) return Folder(std::move(fd), path, depth + 1);
    if (fstat(fd.get(), &info) != 0) return Failed(path, "cannot stat");
    if (!S_ISREG(info.st_mode)) {
      visitor_.problem(path, KindOf(info.st_mode));
      return {};
    }
    return visitor_.file(path, fd);
  }

  base::Result<std::vector<std::string>> Names(const base::Fd& fd, const std::string& prefix) {
    base::Fd copy(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    const std::unique_ptr<DIR, CloseDirectory> directory(copy.valid() ? fdopendir(copy.get())
                                                                      : nullptr);
    if (directory == nullptr) return Failed(prefix, "cannot list");
    static_cast<void>(copy.release());  // closed with the directory from here on
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = readdir(directory.get());
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      if (names.size() > kMaxEntries) break;
    }
    if (errno != 0) return Failed(prefix, "cannot list");
    std::sort(names.begin(), names.end());
    return names;
  }

  tl::unexpected<base::Error> Failed(const std::string& path, std::string_view what) const {
    const std::string cause = std::strerror(errno);
    return base::InfrastructureError(
        fmt::format("{}: {}: {}", base::Visible((root_ / path).string()), what, cause));
  }

  const std::filesystem::path& root_;
  const TreeVisitor& visitor_;
  std::size_t entries_ = 0;
};

}  // namespace

base::Status WalkTree(const std::filesystem::path& root, const TreeVisitor& visitor) {
  struct stat info {};
  const bool there = lstat(root.c_str(), &info) == 0;
  const std::string cause = std::strerror(errno);
  if (!there) {
    return base::EvidenceError(
        fmt::format("{}: cannot be read: {}", base::Visible(root.string()), cause));
  }
  if (!S_ISDIR(info.st_mode)) {
    visitor.problem(".", S_ISREG(info.st_mode) ? "is a file, not a folder" : KindOf(info.st_mode));
    return {};
  }
  base::Fd fd(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) {
    const std::string why = std::strerror(errno);
    return base::InfrastructureError(
        fmt::format("{}: cannot open: {}", base::Visible(root.string()), why));
  }
  return Walk(root, visitor).Folder(std::move(fd), "", 0);
}
}  // namespace upgrade_gate::evidence
