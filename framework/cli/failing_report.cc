#include "framework/cli/failing_report.h"

#include "framework/base/exit_code.h"
#include "framework/base/file.h"
#include "framework/base/text.h"
#include "reports/text/summary_text.h"

namespace upgrade_gate::cli {

base::Status WriteFailingReport(const evidence::Layout& layout, const junit::JunitOptions& options,
                                const base::Error& why) {
  UG_TRY(base::CreateDirectories(layout.report()));
  // The next stage reads this one, so it is replaced first.
  UG_TRY(base::WriteFileAtomically(layout.report() / "verdict.env",
                                   text::RenderBrokenEnv(base::ExitCodeOf(why.kind))));
  UG_TRY(base::WriteFileAtomically(layout.report() / "junit.xml",
                                   junit::RenderBroken(why.message, options)));
  UG_TRY(base::WriteFileAtomically(layout.report() / "summary.txt",
                                   "NO VERDICT: " + base::Visible(why.message, true) + "\n"));
  return base::RemoveAll(layout.report() / "gates");
}

}  // namespace upgrade_gate::cli
