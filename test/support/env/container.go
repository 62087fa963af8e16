package env

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Container is a process that sees of this machine what a container of an image with one
// static binary sees: that binary, its mounts, and a root directory that can't be written.
// It has no rights and no environment but those that it is given; its network is this
// machine's.
type Container struct {
	*Process
	root string
}

// Mount is a directory of this machine at a path in a container.
type Mount struct {
	From, At string
	ReadOnly bool
}

// contain makes the root directory $1 as seen by nobody else, mounts there what follows as
// FROM AT ro|rw, up to an empty word, and runs what follows that as user and group $2, with
// the environment in the words up to another empty one.
const contain = `set -e
root=$1 id=$2; shift 2
mount --bind "$root" "$root"
while [ -n "$1" ]; do
  mount --bind "$1" "$root$2"
  [ "$3" = rw ] || mount -o remount,bind,ro "$root$2"
  shift 3
done
shift
mount -o remount,bind,ro "$root"
exec env -i "$@"`

// NewContainer makes the container of a static binary, which is not started yet.
func NewContainer(t T, name, binary string) *Container {
	t.Helper()
	c := &Container{root: t.TempDir()}
	from := Binary(t, binary)
	c.Process = processOf(t, name, "/"+filepath.Base(binary), t.TempDir())
	if err := os.Chmod(c.root, 0o755); err != nil {
		t.Fatalf("make the root of %s: %v", name, err)
	}
	if out, err := exec.Command("cp", from, c.root).CombinedOutput(); err != nil {
		t.Fatalf("make the root of %s: %v\n%s", name, err, out)
	}
	return c
}

// Start runs the binary as a user with mounts and an environment, and waits for the line
// by which it says that it is ready.
func (c *Container) Start(user int64, mounts []Mount, environment []string, args ...string) string {
	c.t.Helper()
	before := c.lines()
	c.Run(user, mounts, environment, args...)
	return c.waitLine(before)
}

// Run is Start, which does not wait.
func (c *Container) Run(user int64, mounts []Mount, environment []string, args ...string) {
	c.t.Helper()
	id := fmt.Sprint(user)
	c.within = []string{"unshare", "--mount", "--propagation", "private", "setpriv", "--no-new-privs", "sh", "-c", contain, "sh", c.root, id}
	for _, m := range mounts {
		if err := os.MkdirAll(filepath.Join(c.root, m.At), 0o755); err != nil {
			c.t.Fatalf("make %q: %v", m.At, err)
		}
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		c.within = append(c.within, m.From, m.At, mode)
	}
	chroot, err := exec.LookPath("chroot")
	if err != nil {
		c.t.Fatalf("find chroot: %v", err)
	}
	c.within = append(append(c.within, ""), environment...)
	c.within = append(c.within, chroot, "--userspec="+id+":"+id, "--groups="+id, c.root)
	c.start(args...)
}

// Arguments are those of the running process as everybody at this machine sees them.
func (c *Container) Arguments() string {
	c.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.cmd.Process.Pid))
	if err != nil {
		c.t.Fatalf("read the arguments of %s: %v", c.name, err)
	}
	return strings.ReplaceAll(string(b), "\x00", " ")
}
