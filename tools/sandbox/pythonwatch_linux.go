package sandbox

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of times in /proc, which every Linux has set to this.
const clockTick = 10 * time.Millisecond

// processesOf adds up what pid and the processes below it use, and the temporary folders that they have if they are confined. Pages
// that several of them share count once, which takes a closer look; that is had only where
// memory would be too much otherwise.
func processesOf(pid int, confined bool, l limits) (u usage) {
	family := below(pid, []int{pid}, 2*l.processes)
	var folders int64
	for _, p := range family {
		u.add(p)
	}
	if confined && len(family) > 1 { // the first is bubblewrap outside
		for _, dir := range []string{"tmp", "dev/shm"} {
			var info syscall.Statfs_t
			if syscall.Statfs(fmt.Sprintf("/proc/%d/root/%s", family[1], dir), &info) == nil {
				u.scratch = max(u.scratch, int(info.Files-info.Ffree))
				folders += int64(info.Blocks-info.Bfree) * int64(info.Bsize)
			}
		}
	}
	u.memory += folders
	if u.memory > l.memory {
		u.memory = folders
		for _, p := range family {
			u.memory += proportional(p)
		}
	}
	return u
}

// children lists the processes that pid started.
func children(pid int) (have []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range lists {
		text, _ := os.ReadFile(name) // it may have ended
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				have = append(have, child)
			}
		}
	}
	return have
}

// below lists the processes that pid started, and those that they did, up to just beyond most.
func below(pid int, have []int, most int) []int {
	for _, child := range children(pid) {
		if len(have) > most {
			return have
		}
		have = below(child, append(have, child), most)
	}
	return have
}

// add adds what one process uses; one that has ended uses nothing.
func (u *usage) add(pid int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if err != nil || len(fields) < 22 {
		return
	}
	number := func(field int) int64 { // as proc(5) counts them, from 1
		n, _ := strconv.ParseInt(string(fields[field-3]), 10, 64)
		return n
	}
	u.processes++
	u.tasks += int(number(20))
	u.memory += number(24) * int64(os.Getpagesize())
	u.cpu += time.Duration(number(14)+number(15)+number(16)+number(17)) * clockTick
	open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, name := range open { // files without a name: deleted ones, and those that are memory
		var info syscall.Stat_t
		if syscall.Stat(name, &info) == nil && info.Nlink == 0 && info.Mode&syscall.S_IFMT == syscall.S_IFREG {
			u.disk += info.Blocks * 512
		}
	}
}

// allocated is the space on the disk that a file has.
func allocated(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return 0
}

// proportional is the memory of a process, its part of what is shared.
func proportional(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "Pss: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
