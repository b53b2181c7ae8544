#include "framework/evidence/seal.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "framework/evidence/sums.h"
#include "tests/unit/evidence/evidence_test_support.h"

namespace upgrade_gate::evidence {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// SHA-256 of "abc" and of nothing, from FIPS 180-4's examples.
constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

class SealTest : public testing::Test {
 protected:
  SealTest() { fs::create_directory(folder()); }

  fs::path folder() const { return temp_.path() / "sealed"; }
  fs::path outside() const { return temp_.path(); }
  void SealIt() {
    const auto sealed = Seal(folder());
    ASSERT_TRUE(sealed) << sealed.error().message;
  }
  // "file: problem" for each finding.
  std::vector<std::string> Check() const {
    const auto check = CheckSeal(folder());
    if (!check) return {"error: " + check.error().message};
    EXPECT_EQ(check->ok(), check->findings.empty());
    return Lines(check->findings);
  }
  // Of SHA256SUMS with these lines, over a folder that holds "a" with "abc".
  std::vector<std::string> CheckWithSums(const std::string& sums) {
    Put(folder() / "a", "abc");
    Put(folder() / kSumsName, sums);
    return Check();
  }
  int ToolAccepts() const {
    return std::system(
        ("cd '" + folder().string() + "' && sha256sum --status --strict -c SHA256SUMS").c_str());
  }

 private:
  TempFolder temp_;
};

TEST_F(SealTest, WritesTheFormatOfSha256sumSortedByName) {
  Put(folder() / "b", "abc");
  Put(folder() / "a" / "z", "");
  Put(folder() / "a.txt", "abc");
  const auto sealed = Seal(folder());
  ASSERT_TRUE(sealed);
  const std::string abc = kAbc, nothing = kNothing;
  const std::string expected = abc + "  a.txt\n" + nothing + "  a/z\n" + abc + "  b\n";
  EXPECT_EQ(Get(folder() / kSumsName), expected);
  EXPECT_EQ(*sealed, base::Sha256Of(expected));
  EXPECT_THAT(Check(), IsEmpty());
  const auto check = CheckSeal(folder());
  EXPECT_EQ(check->digest, *sealed);
  EXPECT_THAT(check->files, ElementsAre(testing::Pair("a.txt", kAbc),
                                        testing::Pair("a/z", kNothing), testing::Pair("b", kAbc)));
}

TEST_F(SealTest, EscapesNamesAsCoreutilsDoesAndTheToolAgrees) {
  Put(folder() / "back\\slash", "abc");
  Put(folder() / "new\nline", "abc");
  Put(folder() / "carriage\rreturn", "abc");
  Put(folder() / "two  spaces", "abc");
  Put(folder() / " leading", "abc");
  Put(folder() / "*star", "abc");
  Put(folder() / "\xff\xfe", "abc");
  SealIt();
  const std::string sums = Get(folder() / kSumsName);
  EXPECT_THAT(sums, HasSubstr(std::string("\\") + kAbc + "  back\\\\slash\n"));
  EXPECT_THAT(sums, HasSubstr(std::string("\\") + kAbc + "  new\\nline\n"));
  EXPECT_THAT(sums, HasSubstr(std::string("\n") + kAbc + "  two  spaces\n"));
  EXPECT_THAT(Check(), IsEmpty());
  EXPECT_EQ(ToolAccepts(), 0);
  Put(folder() / "new\nline", "abd");
  EXPECT_THAT(Check(), ElementsAre(StartsWith("new\\x0aline: changed")));
  EXPECT_NE(ToolAccepts(), 0);
}

TEST_F(SealTest, ASealIsNeverReplaced) {
  Put(folder() / "a", "abc");
  SealIt();
  const auto again = Seal(folder());
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, HasSubstr("already sealed"));
}

TEST_F(SealTest, NothingIsNotSealed) {
  EXPECT_THAT(ErrorOf(Seal(folder())), HasSubstr("holds no file to seal"));
  fs::create_directories(folder() / "a" / "b");
  EXPECT_THAT(ErrorOf(Seal(folder())), HasSubstr("holds no file to seal"));
  EXPECT_FALSE(IsSealed(folder()));
  EXPECT_FALSE(Seal(folder() / "not there"));
}

TEST_F(SealTest, RemovesEmptyFoldersBecauseNoLineCanStandForThem) {
  Put(folder() / "a", "abc");
  fs::create_directories(folder() / "x" / "y" / "z");
  Put(folder() / "full" / "b", "abc");
  SealIt();
  EXPECT_FALSE(fs::exists(folder() / "x"));
  EXPECT_TRUE(fs::exists(folder() / "full" / "b"));
  fs::create_directories(folder() / "x" / "y");
  EXPECT_THAT(Check(), ElementsAre("x/y: is an empty folder, which no seal covers"));
}

TEST_F(SealTest, ItsOwnLeftoverIsNotContent) {
  Put(folder() / "a", "abc");
  Put(folder() / "SHA256SUMS.tmp4711", "half");
  SealIt();
  EXPECT_EQ(Get(folder() / kSumsName), std::string(kAbc) + "  a\n");
}

TEST_F(SealTest, RefusesLinksAndSpecialFiles) {
  Put(folder() / "a", "abc");
  fs::create_symlink("a", folder() / "link");
  EXPECT_THAT(ErrorOf(Seal(folder())), HasSubstr("sealed/link: is a symbolic link"));
  fs::remove(folder() / "link");
  ASSERT_EQ(mkfifo((folder() / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf(Seal(folder())), HasSubstr("sealed/pipe: is a named pipe"));
  EXPECT_FALSE(IsSealed(folder()));
}

TEST_F(SealTest, RefusesNamesThatDifferOnlyInCase) {
  Put(folder() / "Rounds" / "a", "abc");
  Put(folder() / "rounds" / "b", "abc");
  EXPECT_THAT(ErrorOf(Seal(folder())), HasSubstr("in nothing but case"));
}

TEST_F(SealTest, RefusesALinkInPlaceOfTheFolder) {
  Put(folder() / "a", "abc");
  fs::create_directory_symlink(folder(), outside() / "link");
  EXPECT_FALSE(Seal(outside() / "link"));
  EXPECT_FALSE(Seal(outside() / "link/"));
}

TEST_F(SealTest, FindsAChangedFile) {
  Put(folder() / "a", "abc");
  Put(folder() / "b", "abc");
  SealIt();
  Put(folder() / "b", "");
  EXPECT_THAT(Check(), ElementsAre("b: changed since it was sealed: sha256 ba7816bf8f01… in "
                                   "SHA256SUMS, e3b0c44298fc… now"));
}

TEST_F(SealTest, FindsAMissingAndAnAddedFile) {
  Put(folder() / "dir" / "a", "abc");
  Put(folder() / "b", "abc");
  SealIt();
  fs::rename(folder() / "dir" / "a", folder() / "dir" / "c");
  EXPECT_THAT(Check(),
              ElementsAre("dir/a: missing", "dir/c: not in SHA256SUMS: added since it was sealed"));
}

TEST_F(SealTest, FindsAFileThatBecameALinkToTheSameBytes) {
  Put(folder() / "a", "abc");
  SealIt();
  fs::rename(folder() / "a", outside() / "same");
  fs::create_symlink(outside() / "same", folder() / "a");
  EXPECT_EQ(ToolAccepts(), 0);  // this is what the tool does not see
  EXPECT_THAT(Check(), ElementsAre("a: is a symbolic link"));
}

TEST_F(SealTest, DoesNotFollowALinkedFolder) {
  Put(folder() / "dir" / "a", "abc");
  Put(folder() / "b", "abc");
  SealIt();
  fs::rename(folder() / "dir", outside() / "elsewhere");
  fs::create_directory_symlink(outside() / "elsewhere", folder() / "dir");
  EXPECT_EQ(ToolAccepts(), 0);
  EXPECT_THAT(Check(), ElementsAre("dir: is a symbolic link", "dir/a: missing"));
}

TEST_F(SealTest, FindsAnAddedLinkAndADanglingOne) {
  Put(folder() / "a", "abc");
  SealIt();
  fs::create_symlink("/etc/passwd", folder() / "x");
  fs::create_symlink("nowhere", folder() / "y");
  EXPECT_THAT(Check(), ElementsAre("x: is a symbolic link", "y: is a symbolic link"));
}

TEST_F(SealTest, FindsPipesSocketsAndDevicesWithoutOpeningThem) {
  Put(folder() / "a", "abc");
  Put(folder() / "pipe", "abc");
  SealIt();
  fs::remove(folder() / "pipe");
  ASSERT_EQ(mkfifo((folder() / "pipe").c_str(), 0600), 0);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = (folder() / "socket").string();
  ASSERT_LT(name.size(), sizeof address.sun_path);
  name.copy(address.sun_path, name.size());
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  std::vector<testing::Matcher<std::string>> expected = {"pipe: is a named pipe",
                                                         "socket: is a socket"};
  // Only a privileged user can make a device.
  if (mknod((folder() / "null").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0) {
    expected.insert(expected.begin(), "null: is a device");
  }
  EXPECT_THAT(Check(), testing::ElementsAreArray(expected));
  close(listener);
}

TEST_F(SealTest, FindsAFolderInPlaceOfAFileAndTheOtherWayRound) {
  Put(folder() / "a", "abc");
  Put(folder() / "dir" / "b", "abc");
  SealIt();
  fs::remove(folder() / "a");
  Put(folder() / "a" / "inside", "abc");
  fs::remove_all(folder() / "dir");
  Put(folder() / "dir", "abc");
  EXPECT_THAT(Check(),
              ElementsAre("a: missing", "a/inside: not in SHA256SUMS: added since it was sealed",
                          "dir: not in SHA256SUMS: added since it was sealed", "dir/b: missing"));
}

TEST_F(SealTest, AMissingSealIsAFindingAndAMissingFolderAnError) {
  Put(folder() / "a", "abc");
  EXPECT_THAT(Check(), ElementsAre("SHA256SUMS: missing: the folder is not sealed"));
  const auto check = CheckSeal(folder() / "not there");
  ASSERT_FALSE(check);
  EXPECT_EQ(check.error().kind, base::ErrorKind::kEvidence);
}

TEST_F(SealTest, ASealThatIsALinkIsAFinding) {
  Put(folder() / "a", "abc");
  SealIt();
  fs::rename(folder() / kSumsName, outside() / "sums");
  fs::create_symlink(outside() / "sums", folder() / kSumsName);
  EXPECT_THAT(Check(), ElementsAre("SHA256SUMS: is a symbolic link, which is not followed"));
  fs::remove(folder() / kSumsName);
  fs::create_symlink("nowhere", folder() / kSumsName);
  EXPECT_THAT(Check(), ElementsAre(StartsWith("SHA256SUMS: is a symbolic link")));
}

TEST_F(SealTest, ASealThatIsAFolderIsAFinding) {
  Put(folder() / "a", "abc");
  fs::create_directory(folder() / kSumsName);
  EXPECT_THAT(Check(), ElementsAre(StartsWith("SHA256SUMS: ")));
}

TEST_F(SealTest, AFolderThatIsALinkIsAFinding) {
  Put(folder() / "a", "abc");
  SealIt();
  fs::create_directory_symlink(folder(), outside() / "link");
  for (const char* name : {"link", "link/"}) {
    const auto check = CheckSeal(outside() / name);
    ASSERT_TRUE(check);
    EXPECT_THAT(Lines(check->findings), ElementsAre(".: is a symbolic link")) << name;
  }
}

TEST_F(SealTest, AnEmptyListIsNotASeal) {
  EXPECT_THAT(CheckWithSums(""), ElementsAre("SHA256SUMS: lists no file",
                                             "a: not in SHA256SUMS: added since it was sealed"));
  fs::remove(folder() / "a");
  EXPECT_THAT(Check(), ElementsAre("SHA256SUMS: lists no file"));
}

TEST_F(SealTest, RefusesNamesThatLeaveTheFolderOrAreNotInOneSpelling) {
  const std::string a = std::string(kAbc) + "  a\n";
  const std::map<std::string, std::string> names = {
      {"../a", "has a component \"..\""},     {"x/../a", "has a component \"..\""},
      {"./a", "has a component \".\""},       {"..", "has a component \"..\""},
      {"/etc/passwd", "is an absolute path"}, {"x//a", "has an empty component"},
      {"x/", "has an empty component"},       {"SHA256SUMS", "cannot seal itself"},
  };
  for (const auto& [name, why] : names) {
    const std::string line = std::string(kAbc) + "  " + name + "\n";
    const bool before = name < "a";
    EXPECT_THAT(CheckWithSums(before ? line + a : a + line),
                ElementsAre(std::string("SHA256SUMS: line ") + (before ? "1" : "2") + ": \"" +
                            name + "\" " + why));
  }
}

TEST_F(SealTest, RefusesDoubledNamesAndCaseCollisions) {
  const std::string abc = kAbc, nothing = kNothing;
  EXPECT_THAT(CheckWithSums(abc + "  a\n" + nothing + "  a\n"),
              ElementsAre("SHA256SUMS: line 2: \"a\" is there twice"));
  EXPECT_THAT(CheckWithSums(abc + "  A\n" + abc + "  a\n"),
              ElementsAre("SHA256SUMS: line 2: \"a\" differs from \"A\" in nothing but case",
                          "A: missing", "a: not in SHA256SUMS: added since it was sealed"));
  Put(folder() / "B" / "x", "abc");
  Put(folder() / "b" / "y", "abc");
  EXPECT_THAT(CheckWithSums(abc + "  B/x\n" + abc + "  a\n" + abc + "  b/y\n"),
              ElementsAre("SHA256SUMS: line 3: \"b/y\" differs from \"B\" in nothing but case",
                          "b/y: not in SHA256SUMS: added since it was sealed"));
}

TEST_F(SealTest, RefusesLinesThatSealWouldNotWrite) {
  const std::string abc = kAbc;
  const std::string upper = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD";
  for (const std::string& line : std::vector<std::string>{
           "\n", abc + " a\n", abc + " *a\n", abc + "\n", abc + "  \n", upper + "  a\n",
           abc.substr(1) + "  a\n", abc + "a  a\n", " " + abc + "  a\n", "\\" + abc + "  a\n",
           abc + "  a\r\n", "\\" + abc + "  a\\x\n", "\\" + abc + "  a\\\n", abc + "  a\\b\n",
           "# comment\n", "SHA256 (a) = " + abc + "\n", std::string(1, '\0') + "\n"}) {
    EXPECT_THAT(CheckWithSums(line),
                testing::Contains(AllOf(StartsWith("SHA256SUMS: line 1: "), HasSubstr("is"))))
        << line;
  }
  EXPECT_THAT(CheckWithSums(abc + "  a"),
              testing::Contains(HasSubstr("line 1: does not end with a newline")));
  Put(folder() / "b", "abc");
  EXPECT_THAT(CheckWithSums(abc + "  b\n" + abc + "  a\n"),
              ElementsAre("SHA256SUMS: line 2: \"a\" is not in order"));
}

TEST_F(SealTest, HostileNamesAreShownVisibly) {
  Put(folder() / "a", "abc");
  SealIt();
  Put(folder() / "x\x1b[2J", "abc");
  EXPECT_THAT(Check(), ElementsAre(StartsWith("x\\x1b[2J: not in SHA256SUMS")));
}

TEST_F(SealTest, FindingsAreCappedAndTheRestCounted) {
  Put(folder() / "a", "abc");
  SealIt();
  for (int i = 0; i < 1010; ++i) Put(folder() / ("x" + std::to_string(i)), "");
  const std::vector<std::string> findings = Check();
  ASSERT_EQ(findings.size(), 1001U);
  EXPECT_EQ(findings.back(), ".: 10 more findings are not listed");
}

TEST_F(SealTest, FoldersThatAreTooDeepAreFindingsAndNotADeadEnd) {
  Put(folder() / "a", "abc");
  SealIt();
  fs::path deep = folder();
  for (int i = 0; i < 40; ++i) deep /= "d";
  Put(deep / "x", "abc");
  EXPECT_THAT(Check(), ElementsAre(HasSubstr("is deeper than 16 folders")));
}

// Every byte counts: whichever is flipped, exactly its file is named.
TEST_F(SealTest, AnyFlippedByteIsFoundInItsFile) {
  Put(folder() / "a.json", "{\"schema\":1,\"number\":12}\n");
  Put(folder() / "dir" / "b.zst", std::string("\x28\xb5\x2f\xfd\0\x01", 6));
  Put(folder() / "dir" / "c", "x");
  SealIt();
  for (const char* name : {"a.json", "dir/b.zst", "dir/c"}) {
    const std::string good = Get(folder() / name);
    for (std::size_t i = 0; i < good.size(); ++i) {
      for (const int mask : {0x01, 0x20, 0x80}) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ mask);
        Put(folder() / name, bad);
        EXPECT_THAT(Check(), ElementsAre(StartsWith(std::string(name) + ": changed")))
            << name << " byte " << i;
      }
    }
    for (std::size_t length = 0; length < good.size(); ++length) {
      Put(folder() / name, good.substr(0, length));
      EXPECT_THAT(Check(), ElementsAre(StartsWith(std::string(name) + ": changed")));
    }
    Put(folder() / name, good);
  }
  EXPECT_THAT(Check(), IsEmpty());
}

TEST_F(SealTest, AnyFlippedByteOfTheSealItselfIsFound) {
  Put(folder() / "a.json", "{}");
  Put(folder() / "dir" / "b\\c", "x");
  SealIt();
  const std::string good = Get(folder() / kSumsName);
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int mask : {0x20, 1 << (i % 8)}) {  // 0x20 is a letter's case
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ mask);
      Put(folder() / kSumsName, bad);
      EXPECT_FALSE(Check().empty()) << "byte " << i << " mask " << mask;
    }
  }
  for (std::size_t length = 0; length < good.size(); ++length) {
    Put(folder() / kSumsName, good.substr(0, length));
    EXPECT_FALSE(Check().empty()) << "cut to " << length;
  }
}

TEST(SumsTest, WhatIsWrittenIsRead) {
  const Sums sums = {{"a", kAbc}, {"b\\n", kNothing}, {"c\nd", kAbc}, {"e\rf", kAbc}};
  const ParsedSums parsed = ParseSums(WriteSums(sums));
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_EQ(parsed.files, sums);
}

}  // namespace
}  // namespace upgrade_gate::evidence
