# Renames identifiers of formatvalues_test.go to those of commit 2b91ea79.
s/\bDetail:/Note:/g
s/\bWaiting:/Heard:/g
s/\bSearchPending:/Survey:/g
s/\bpendingRemoval\b/guardedRemoval/g
s/\bx\.Desired\.set(/x.setWant(/g
s/\bx\.Records\.set(/x.setRecord(/g
s/\bx\.Observed\.Set(/x.SetLive(/g
s/\bx\.Reports\.Restore(/x.Recall(/g
s/\bx\.Reports\.Set(/x.SetReport(/g
s/\bx\.Reports\.MarkUnsent(/x.MarkUnsent(/g
