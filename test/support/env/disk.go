package env

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// diskSize is the size of the file system of a Disk.
const diskSize = "512M"

// Disk is a file system that can be frozen, read-only or full.
type Disk struct {
	t   T
	dir string
}

// StartDisk moves a directory with its files to a file system of its own, until the test ends. It needs
// root. No process may use the directory during the call.
func StartDisk(t T, dir string) *Disk {
	t.Helper()
	image, previous := filepath.Join(t.TempDir(), "disk"), dir+".previous"
	d := &Disk{t, dir}
	d.run("mkfs.ext4", "-q", image, diskSize)
	if err := errors.Join(os.Rename(dir, previous), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatalf("%v", err)
	}
	d.run("mount", "-o", "loop", image, dir)
	t.Cleanup(func() { // processes that use it may end later
		_, _ = d.try("fsfreeze", "--unfreeze", dir) // it may not be frozen
		d.run("umount", "--lazy", dir)
	})
	d.run("cp", "--archive", previous+"/.", dir)
	if err := os.RemoveAll(previous); err != nil {
		t.Fatalf("%v", err)
	}
	return d
}

// Freeze blocks writes and syncs until Thaw.
func (d *Disk) Freeze() {
	d.t.Helper()
	d.run("fsfreeze", "--freeze", d.dir)
}

// Thaw ends a Freeze.
func (d *Disk) Thaw() {
	d.t.Helper()
	d.run("fsfreeze", "--unfreeze", d.dir)
}

// Lock makes the file system read-only until Unlock. No process may have a file of it open for writing.
func (d *Disk) Lock() {
	d.t.Helper()
	d.run("mount", "-o", "remount,ro", d.dir)
}

// Unlock ends a Lock.
func (d *Disk) Unlock() {
	d.t.Helper()
	d.run("mount", "-o", "remount,rw", d.dir)
}

// Fill leaves no room on the file system until Empty.
func (d *Disk) Fill() {
	d.t.Helper()
	if out, err := d.try("dd", "if=/dev/zero", "of="+d.ballast(), "bs=64K", "status=none"); err == nil || !strings.Contains(out, "No space left") {
		d.t.Fatalf("fill %s: %v: %s", d.dir, err, out)
	}
	_, _ = d.try("dd", "if=/dev/zero", "of="+d.ballast(), "bs=1", "count=65536", "oflag=append", "conv=notrunc", "status=none") // what a block of 64 KiB did not fit in
}

// Empty ends a Fill.
func (d *Disk) Empty() {
	d.t.Helper()
	if err := os.Remove(d.ballast()); err != nil {
		d.t.Fatalf("%v", err)
	}
}

func (d *Disk) ballast() string { return filepath.Join(d.dir, "ballast") }

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
