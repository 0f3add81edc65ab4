package runlist

import (
	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/audit/render"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/spf13/cobra"
)

// CompleteFindings completes the ids of findings of the named run: those that are open, or
// those whose dismissal waits for a countersignature. There are none where the run cannot be
// audited.
func CompleteFindings(pending bool, folders func(*cobra.Command) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if len(args) != 1 {
			return nil, none
		}
		dir, err := Find(args[0], folders(cmd))
		if err != nil {
			return nil, none
		}
		audited, err := grading.Audit(dir)
		if err != nil {
			return nil, none
		}
		for _, d := range audited.Report.Adjudications {
			if pending && d.Pending == audit.PendingCountersignature {
				ids = append(ids, cobra.CompletionWithDesc(audit.ShortID(d.Finding), d.Reason))
			}
		}
		for _, f := range render.Findings(audited.Report) {
			if !pending && f.Closed == "" && f.Severity != audit.Info {
				ids = append(ids, cobra.CompletionWithDesc(audit.ShortID(f.ID), audit.FindingLine(f)))
			}
		}
		return ids, none
	}
}
