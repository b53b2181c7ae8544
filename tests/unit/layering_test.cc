// The folder table of framework/README.md against every #include.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = UPGRADE_GATE_ROOT;
const char* const kJson = "framework/base/json.h";

std::string Read(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

struct Row {
  std::string folder;
  std::set<std::string> depends;  // folders
};

// Rows as `| `folder` | what it is | -> a, b |`, in the table's order. A
// dependency is named by the last part of its folder.
std::vector<Row> ParseTable(const std::string& text) {
  const std::regex row(R"(^\| `([a-z_/]+)` \| [^|]+ \| ->([a-z_, ]*) \|$)");
  std::vector<Row> rows;
  std::map<std::string, std::string> by_name;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) {
      EXPECT_NE(line.substr(0, 3), "| `") << "a row of another form: " << line;
      continue;
    }
    Row parsed{match[1], {}};
    const std::string list = match[2];
    const std::regex name("[a-z_]+");
    for (std::sregex_iterator it(list.begin(), list.end(), name), end; it != end; ++it) {
      const auto known = by_name.find(it->str());
      EXPECT_NE(known, by_name.end())
          << parsed.folder << " depends on " << it->str() << ", which no row above it is";
      if (known != by_name.end()) parsed.depends.insert(known->second);
    }
    const std::string last = fs::path(parsed.folder).filename().string();
    EXPECT_TRUE(by_name.emplace(last, parsed.folder).second) << "two rows end in " << last;
    rows.push_back(std::move(parsed));
  }
  return rows;
}

struct Include {
  std::string file;    // from the root
  std::string folder;  // of the file
  std::string target;
  bool quoted = false;
};

struct Tree {
  std::set<std::string> folders;  // that hold sources
  std::vector<Include> includes;
  std::set<std::string> public_headers, private_headers;
};

// `HEADERS a.h b.h` and `PRIVATE_HEADERS c.h` of a folder's CMakeLists.txt.
void ReadHeaderLists(const std::string& folder, Tree& tree) {
  const std::string text = Read(kRoot / folder / "CMakeLists.txt");
  const std::regex word(R"([^\s()]+)");
  std::string keyword;
  for (std::sregex_iterator it(text.begin(), text.end(), word), end; it != end; ++it) {
    const std::string token = it->str();
    if (std::regex_match(token, std::regex("[A-Z_]+"))) keyword = token;
    if (!token.ends_with(".h")) continue;
    if (keyword == "HEADERS" || keyword == "FILES")
      tree.public_headers.insert(folder + "/" + token);
    if (keyword == "PRIVATE_HEADERS") tree.private_headers.insert(folder + "/" + token);
  }
}

Tree ReadTree() {
  Tree tree;
  const std::regex include(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  for (const char* top : {"framework", "fixtures", "reports", "suites"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / top)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cc") continue;
      const fs::path file = entry.path().lexically_relative(kRoot);
      const std::string folder = file.parent_path().generic_string();
      tree.folders.insert(folder);
      std::istringstream lines(Read(entry.path()));
      for (std::string line; std::getline(lines, line);) {
        std::smatch match;
        if (line.find('#') == std::string::npos) continue;
        if (!std::regex_search(line, match, include)) continue;
        tree.includes.push_back({file.generic_string(), folder, match[2], match[1] == "\""});
      }
    }
  }
  for (const std::string& folder : tree.folders) ReadHeaderLists(folder, tree);
  return tree;
}

std::string FolderOf(const std::string& target) {
  return fs::path(target).parent_path().generic_string();
}

bool IsStandardOrSystem(const std::string& target) {
  static const std::set<std::string> kSystem = {"fcntl.h", "poll.h", "signal.h", "unistd.h"};
  const bool standard = target.find_first_of("/.") == std::string::npos;
  return standard || target.starts_with("sys/") || kSystem.contains(target);
}

class Layering : public testing::Test {
 protected:
  static const Tree& SharedTree() {
    static const Tree tree = ReadTree();
    return tree;
  }

  const std::vector<Row> rows_ = ParseTable(Read(kRoot / "framework/README.md"));
  const Tree& tree_ = SharedTree();
};

TEST_F(Layering, TableAndTreeAreNotEmpty) {
  EXPECT_GE(rows_.size(), 16U);
  EXPECT_GE(tree_.folders.size(), 16U);
  EXPECT_GE(tree_.includes.size(), 500U);
  EXPECT_TRUE(tree_.public_headers.contains("framework/gtest/upgrade_test.h"));
  EXPECT_TRUE(tree_.private_headers.contains(kJson));
}

TEST_F(Layering, EveryFolderHasARowAndEveryRowAFolder) {
  std::set<std::string> rows;
  for (const Row& row : rows_) rows.insert(row.folder);
  EXPECT_EQ(rows, tree_.folders);
}

TEST_F(Layering, EveryIncludeIsAnEdgeOfTheTable) {
  std::map<std::string, std::set<std::string>> allowed;
  for (const Row& row : rows_) allowed[row.folder] = row.depends;
  for (const Include& include : tree_.includes) {
    if (!include.quoted) continue;
    const std::string folder = FolderOf(include.target);
    EXPECT_TRUE(tree_.folders.contains(folder)) << include.file << " includes \"" << include.target
                                                << "\", which is not written from the root";
    if (folder == include.folder) continue;
    EXPECT_TRUE(allowed[include.folder].contains(folder))
        << include.file << " includes " << include.target << "; framework/README.md has no edge "
        << include.folder << " -> " << folder;
  }
}

TEST_F(Layering, EveryEdgeOfTheTableIsUsed) {
  std::set<std::pair<std::string, std::string>> used;
  for (const Include& include : tree_.includes) {
    if (include.quoted) used.emplace(include.folder, FolderOf(include.target));
  }
  for (const Row& row : rows_) {
    for (const std::string& depends : row.depends) {
      EXPECT_TRUE(used.contains({row.folder, depends}))
          << "framework/README.md: nothing uses the edge " << row.folder << " -> " << depends;
    }
  }
}

TEST_F(Layering, EveryHeaderIsDeclaredPublicOrPrivate) {
  for (const std::string& folder : tree_.folders) {
    for (const auto& entry : fs::directory_iterator(kRoot / folder)) {
      if (entry.path().extension() != ".h") continue;
      const std::string header = folder + "/" + entry.path().filename().string();
      EXPECT_EQ(tree_.public_headers.count(header) + tree_.private_headers.count(header), 1U)
          << header << " must be once in HEADERS or PRIVATE_HEADERS of " << folder
          << "/CMakeLists.txt";
    }
  }
}

TEST_F(Layering, GoogleTestIsIncludedInOneFolderOnly) {
  for (const Include& include : tree_.includes) {
    const bool gtest = include.target.starts_with("gtest/") || include.target.starts_with("gmock/");
    EXPECT_TRUE(!gtest || include.folder == "framework/gtest") << include.file;
  }
}

TEST_F(Layering, PublicHeadersIncludeNoThirdPartyHeader) {
  for (const Include& include : tree_.includes) {
    if (!tree_.public_headers.contains(include.file) || include.quoted) continue;
    const bool exception =
        include.target == "tl/expected.hpp" && include.file == "framework/base/result.h";
    const bool gtest = include.folder == "framework/gtest" &&
                       (include.target == "gtest/gtest.h" || include.target == "gmock/gmock.h");
    EXPECT_TRUE(exception || gtest || IsStandardOrSystem(include.target))
        << include.file << " includes " << include.target;
  }
}

TEST_F(Layering, PrivateHeadersStayInTheirFolderAndJsonInSources) {
  for (const Include& include : tree_.includes) {
    if (!tree_.private_headers.contains(include.target)) continue;
    EXPECT_FALSE(tree_.public_headers.contains(include.file))
        << include.file << " is public and includes the private " << include.target;
    EXPECT_TRUE(include.target == kJson || FolderOf(include.target) == include.folder)
        << include.file << " includes the private " << include.target << " of another folder";
  }
}

}  // namespace
