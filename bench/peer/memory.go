package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// peak measures by how much the process grows, at most, from one moment to another.
type peak struct {
	residentKB int
}

func startPeak() (peak, error) {
	// Five resets the high-water mark to what is resident now. Where that is forbidden, the mark of the whole process
	// counts, which can only be larger; a process that has solved nothing yet has no higher one to speak of.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	resident, err := statusKB("VmRSS")
	return peak{residentKB: resident}, err
}

// grownMB is in units of 1,048,576 bytes.
func (p peak) grownMB() (float64, error) {
	highest, err := statusKB("VmHWM")
	if err != nil {
		return 0, err
	}
	return float64(max(highest-p.residentKB, 0)) / 1024, nil
}

func statusKB(field string) (int, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for _, line := range bytes.Split(text, []byte("\n")) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) == field {
			return strconv.Atoi(string(bytes.Trim(value, " \tkB")))
		}
	}
	return 0, fmt.Errorf("reading memory: no %s in the process status", field)
}
