package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// git runs git in the repository and returns its output without the last line break. It ignores
// settings of the user that change the output.
func git(root string, args ...string) (string, error) {
	settings := []string{"-C", root, "-c", "core.quotePath=false", "-c", "color.ui=false", "-c", "log.follow=false", "-c", "log.showSignature=false"}
	var out, problem bytes.Buffer
	cmd := exec.Command("git", append(settings, args...)...)
	cmd.Env = gitEnvironment()
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(problem.String()))
	}
	return strings.TrimRight(out.String(), "\n"), nil
}

// gitEnvironment returns the environment without the user's variables of git: in a hook, git sets
// them to another index or working tree.
func gitEnvironment() []string {
	foreign := func(variable string) bool { return strings.HasPrefix(variable, "GIT_") }
	return append(slices.DeleteFunc(os.Environ(), foreign), "GIT_OPTIONAL_LOCKS=0") // other git commands may run
}

// checkoutFault returns why root is not the top folder of a git checkout, or nil.
func checkoutFault(root string) error {
	prefix, err := git(root, "rev-parse", "--show-prefix")
	if err == nil && prefix != "" {
		err = fmt.Errorf("%q is a folder of another git checkout", root)
	}
	return err
}

// historyFault returns why the history of the checkout cannot be read completely, or nil.
func historyFault(root string) error {
	if err := checkoutFault(root); err != nil {
		return err
	}
	switch shallow, err := git(root, "rev-parse", "--is-shallow-repository"); {
	case err != nil:
		return err
	case shallow != "false":
		return errors.New("the clone is shallow")
	}
	if _, err := git(root, "rev-parse", "--quiet", "--verify", "HEAD"); err != nil {
		return errors.New("there is no commit")
	}
	return nil
}

// sinceCommit measures commits. It calls measure with the first commit that added a file. Without
// a complete history there is nothing to measure, which is an error in CI.
func sinceCommit(t *tree, file string, measure func(first string) (result, error)) (result, error) {
	if err := historyFault(t.root); err != nil {
		if t.isCI {
			return result{}, fmt.Errorf("%w; CI needs all commits: run the gates in a clone made without --depth, or run git fetch --unshallow", err)
		}
		return result{skipped: fmt.Sprintf("nothing to check: %v", err)}, nil
	}
	added, err := git(t.root, "log", "--diff-filter=A", "--format=%H", "--", file)
	switch {
	case err != nil:
		return result{}, err
	case added == "":
		return result{skipped: "nothing to check: no commit adds " + file}, nil
	}
	return measure(added[strings.LastIndex(added, "\n")+1:])
}
