package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	defaultSize = 1 << 30
	minimumSize = 256 << 20 // the least that a btrfs can be resized to
)

// store is the directory of image files: volumes/ID and snapshots/ID.
type store struct{ root string }

func (s store) volume(id string) string   { return filepath.Join(s.root, "volumes", id) }
func (s store) snapshot(id string) string { return filepath.Join(s.root, "snapshots", id) }
func (s store) unfinished() string        { return filepath.Join(s.root, "unfinished") }

func (s store) prepare() error {
	for _, dir := range []string{s.volume(""), s.snapshot("")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// create makes an empty file system of the given size, or nothing.
func (s store) create(to string, size int64) error {
	return s.finish(to, func(file string) error {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return err
		}
		if err := os.Truncate(file, size); err != nil {
			return err
		}
		return run("mkfs.btrfs", "-q", "-m", "single", file)
	})
}

// copy makes a reflink copy, lengthened to size when that is more, or nothing.
func (s store) copy(from, to string, size int64) error {
	return s.finish(to, func(file string) error {
		if err := run("cp", "--reflink=always", from, file); err != nil {
			return err
		}
		if sizeOf(file) < size {
			return os.Truncate(file, size)
		}
		return nil
	})
}

// finish has a file made under another name, so that it appears whole.
func (s store) finish(to string, make func(file string) error) error {
	os.Remove(s.unfinished())
	if err := make(s.unfinished()); err != nil {
		return err
	}
	now := time.Now()
	if err := os.Chtimes(s.unfinished(), now, now); err != nil {
		return err
	}
	return os.Rename(s.unfinished(), to)
}

func remove(file string) error {
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// free is what is promised to no volume yet, and never more than there really is.
func (s store) free() (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(s.root, &stat); err != nil {
		return 0, err
	}
	free := int64(stat.Blocks) * stat.Bsize
	entries, err := os.ReadDir(s.volume(""))
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		free -= sizeOf(s.volume(entry.Name()))
	}
	return max(0, min(free, int64(stat.Bavail)*stat.Bsize)), nil
}

// A snapshot's id is "volume@name": what it was taken of is known from it.
func snapshotID(volume, name string) string { return volume + "@" + name }

func sourceOf(snapshot string) string {
	volume, _, _ := strings.Cut(snapshot, "@")
	return volume
}

// snapshotNamed finds the snapshot of that name, of whatever volume.
func (s store) snapshotNamed(name string) (id string, err error) {
	entries, err := s.snapshots()
	for _, entry := range entries {
		if snapshotID(sourceOf(entry.Name()), name) == entry.Name() {
			return entry.Name(), nil
		}
	}
	return "", err
}

// snapshots lists all, sorted by id.
func (s store) snapshots() ([]fs.DirEntry, error) { return os.ReadDir(s.snapshot("")) }

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func sizeOf(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
