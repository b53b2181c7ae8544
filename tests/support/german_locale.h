// A real German locale, in which 1234.5 reads 1.234,5, for the life of the object.
#pragma once

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>

namespace upgrade_gate::test {

// Global to the process, of C and of C++. Throws, so that the test fails, where the
// locale that the build made is missing or does not do what a German one does.
class GermanLocale {
 public:
  GermanLocale() {
    // Where glibc looks for locales, both for setlocale and for std::locale.
    setenv("LOCPATH", UPGRADE_GATE_LOCALES, 1);
    std::locale::global(std::locale("de_DE.UTF-8"));
    if (std::setlocale(LC_ALL, "de_DE.UTF-8") == nullptr) {
      throw std::runtime_error("no locale de_DE.UTF-8 in " UPGRADE_GATE_LOCALES);
    }
    char c[16];
    std::snprintf(c, sizeof c, "%.1f", 1234.5);
    std::ostringstream cpp;
    cpp << 1234.5;
    if (std::string(c) != "1234,5" || cpp.str() != "1.234,5") {
      throw std::runtime_error("the locale de_DE.UTF-8 is not a German one: " + std::string(c) +
                               ", " + cpp.str());
    }
  }
  GermanLocale(const GermanLocale&) = delete;
  GermanLocale& operator=(const GermanLocale&) = delete;
  ~GermanLocale() {
    std::locale::global(before_);
    std::setlocale(LC_ALL, "C");  // as a program starts
  }

 private:
  std::locale before_;
};

}  // namespace upgrade_gate::test
