package env

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Container is a process with the file system of a container whose image has one static binary: the
// binary, the mounts, and a read-only root directory. It has no other rights and environment than those
// that it is given. It uses the network of this machine.
type Container struct {
	*Process
	root string
}

// Mount mounts the directory From of this machine at Path in a container.
type Mount struct {
	From, Path string
	ReadOnly   bool
}

// contain is a shell script. Its arguments are the root directory, the ID of user and group, mounts as
// FROM PATH ro|rw, an empty word, and the arguments of env: the environment and the command. It makes
// the root directory in a private mount namespace, and runs the command.
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

// NewContainer returns the container of a static binary, which is not started.
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

// Start runs the binary as a user with mounts and an environment. It waits for the line that shows that
// the process is ready, and returns it.
func (c *Container) Start(user int64, mounts []Mount, environment []string, args ...string) string {
	c.t.Helper()
	before := c.lines()
	c.Run(user, mounts, environment, args...)
	return c.waitLine(before)
}

// Run is Start without the wait.
func (c *Container) Run(user int64, mounts []Mount, environment []string, args ...string) {
	c.t.Helper()
	id := fmt.Sprint(user)
	c.within = []string{"unshare", "--mount", "--propagation", "private", "setpriv", "--no-new-privs", "sh", "-c", contain, "sh", c.root, id}
	for _, m := range mounts {
		if err := os.MkdirAll(filepath.Join(c.root, m.Path), 0o755); err != nil {
			c.t.Fatalf("make %q: %v", m.Path, err)
		}
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		c.within = append(c.within, m.From, m.Path, mode)
	}
	chroot, err := exec.LookPath("chroot")
	if err != nil {
		c.t.Fatalf("find chroot: %v", err)
	}
	c.within = append(append(c.within, ""), environment...)
	c.within = append(c.within, chroot, "--userspec="+id+":"+id, "--groups="+id, c.root)
	c.start(args...)
}

// Arguments returns the arguments of the running process, which all users of this machine can read.
func (c *Container) Arguments() string {
	c.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.cmd.Process.Pid))
	if err != nil {
		c.t.Fatalf("read the arguments of %s: %v", c.name, err)
	}
	return strings.ReplaceAll(string(b), "\x00", " ")
}
