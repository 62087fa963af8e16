package env

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// diskSize is how large the file system of a Disk is.
const diskSize = "512M"

// Disk is a file system of its own that can be made to stand still.
type Disk struct {
	t   T
	dir string
}

// StartDisk has a directory, with what is in it, on a file system of its own until the test
// ends, which needs root. Nobody may use the directory meanwhile.
func StartDisk(t T, dir string) *Disk {
	t.Helper()
	image, was := filepath.Join(t.TempDir(), "disk"), dir+".was"
	d := &Disk{t, dir}
	d.run("mkfs.ext4", "-q", image, diskSize)
	if err := errors.Join(os.Rename(dir, was), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatalf("%v", err)
	}
	d.run("mount", "-o", "loop", image, dir)
	t.Cleanup(func() { // whoever uses it still may end later
		_, _ = d.try("fsfreeze", "--unfreeze", dir) // it may not be frozen
		d.run("umount", "--lazy", dir)
	})
	d.run("cp", "--archive", was+"/.", dir)
	if err := os.RemoveAll(was); err != nil {
		t.Fatalf("%v", err)
	}
	return d
}

// Freeze has whoever writes wait, and whoever waits for what was written, until Thaw.
func (d *Disk) Freeze() {
	d.t.Helper()
	d.run("fsfreeze", "--freeze", d.dir)
}

// Thaw ends a Freeze.
func (d *Disk) Thaw() {
	d.t.Helper()
	d.run("fsfreeze", "--unfreeze", d.dir)
}

func (d *Disk) run(command string, args ...string) {
	d.t.Helper()
	if out, err := d.try(command, args...); err != nil {
		d.t.Fatalf("%s %s: %v: %s", command, strings.Join(args, " "), err, out)
	}
}

func (d *Disk) try(command string, args ...string) (out string, err error) {
	b, err := exec.Command(command, args...).CombinedOutput()
	return string(b), err
}
