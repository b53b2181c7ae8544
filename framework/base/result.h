// Result<T>: the outcome of an operation that the world can make fail.
//
// Three kinds of outcome are kept apart in this project: a verdict is a value,
// a Result is the world failing, UG_CHECK is a bug of ours. Exceptions of
// third-party libraries are caught in the .cc that calls the library.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace upgrade_gate::base {

// Decides the exit code of a command that ends with this error (exit_code.h).
enum class ErrorKind {
  kUsage,           // an argument or a plan is wrong; the user edits something
  kInfrastructure,  // our side or the machine: no disk, no port, server does not start
  kEvidence,        // evidence is broken, tampered with, or does not belong to the plan
  kNothingRan,      // there was nothing to do, which is never a success
};

// `message` carries place, cause and what to do, in that order, without a
// trailing full stop or newline: "gate.yaml:14:9: unknown key "p9O" (did you mean "p90"?)".
// Several errors of one file are joined by newlines.
struct Error {
  ErrorKind kind = ErrorKind::kInfrastructure;
  std::string message;
};

// A tl::expected that the compiler does not let a caller drop.
template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};
using Status = Result<void>;

inline tl::unexpected<Error> Fail(ErrorKind kind, std::string message) {
  return tl::unexpected<Error>(Error{kind, std::move(message)});
}
inline tl::unexpected<Error> UsageError(std::string message) {
  return Fail(ErrorKind::kUsage, std::move(message));
}
inline tl::unexpected<Error> InfrastructureError(std::string message) {
  return Fail(ErrorKind::kInfrastructure, std::move(message));
}
inline tl::unexpected<Error> EvidenceError(std::string message) {
  return Fail(ErrorKind::kEvidence, std::move(message));
}

// The same error with a place put before its message: "place: message".
inline Error At(std::string_view place, Error error) {
  error.message = std::string(place) + ": " + error.message;
  return error;
}

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace upgrade_gate::base

// A broken invariant is a bug: prints file, line and condition, then aborts.
#define UG_CHECK(condition)           \
  ((condition) ? static_cast<void>(0) \
               : ::upgrade_gate::base::CheckFailed(__FILE__, __LINE__, #condition))

// Returns the error of `expression` from the enclosing function, if it has one.
#define UG_TRY(expression)                                                                \
  do {                                                                                    \
    if (auto ug_status = (expression); !ug_status)                                        \
      return ::tl::unexpected<::upgrade_gate::base::Error>(std::move(ug_status).error()); \
  } while (false)

// UG_ASSIGN(auto x, Parse(y)): declares or assigns x, or returns the error.
#define UG_ASSIGN(declaration, expression) \
  UG_ASSIGN_IMPL_(UG_CONCAT_(ug_result_, __LINE__), declaration, expression)
#define UG_CONCAT_(a, b) UG_CONCAT_INNER_(a, b)
#define UG_CONCAT_INNER_(a, b) a##b
#define UG_ASSIGN_IMPL_(result, declaration, expression)                                        \
  auto result = (expression);                                                                   \
  if (!result) return ::tl::unexpected<::upgrade_gate::base::Error>(std::move(result).error()); \
  declaration = std::move(*result)
