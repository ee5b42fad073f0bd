package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mountsOf lists where the image file is mounted, and the loop device that holds it.
func mountsOf(file string) (targets []string, device string, err error) {
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, "", err
	}
	defer table.Close()
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		// 36 35 98:0 /root /target options [optional…] - type source options
		before, after, ok := strings.Cut(lines.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 2 || !strings.HasPrefix(right[1], "/dev/loop") {
			continue
		}
		backing, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(right[1]), "loop/backing_file"))
		if err == nil && strings.TrimSpace(string(backing)) == file {
			targets, device = append(targets, left[4]), right[1]
		}
	}
	return targets, device, lines.Err()
}

// mountVolume mounts the image file at target: by loop the first time, by bind
// when another pod of this node has it already.
func mountVolume(file, target string, mounted []string) error {
	if err := os.MkdirAll(target, 0o750); err != nil {
		return err
	}
	if len(mounted) > 0 {
		return unix.Mount(mounted[0], target, "", unix.MS_BIND, "")
	}
	if err := run("mount", "-t", "btrfs", "-o", "loop,noatime", file, target); err != nil {
		return err
	}
	// A volume may be larger than the snapshot it was made from.
	return growFileSystem(target)
}

// canMountCopies: a copied file system has its source's UUID. Linux gives the
// second one mounted a temporary UUID since 6.7; before, it would mount the first.
func canMountCopies() bool { return exists("/sys/fs/btrfs/features/temp_fsid") }

func growFileSystem(target string) error { return run("btrfs", "filesystem", "resize", "max", target) }

// giveToGroup lets the pod's fsGroup write in the volume's root, and only there:
// what lies deeper keeps its modes, since PostgreSQL insists on them.
func giveToGroup(target string, gid int) error {
	return errors.Join(os.Chown(target, -1, gid), unix.Chmod(target, 0o2770))
}

func makeReadOnly(target string) error {
	return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

func unmount(target string) error {
	if err := unix.Unmount(target, 0); err != nil && err != unix.EINVAL && err != unix.ENOENT {
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	return remove(target)
}
