package main

import (
	"fmt"
	"os"

	"golang.org/x/term"
)

// A progress shows the current measurement at a terminal, on one temporary line.
type progress struct {
	on    bool
	title string
}

func newProgress() progress { return progress{on: term.IsTerminal(int(os.Stderr.Fd()))} }

// step shows that part i of n, from 0, has begun.
func (p progress) step(what string, i, n int) {
	if p.on {
		fmt.Fprintf(os.Stderr, "\r\033[K%s: %s, %d of %d", p.title, what, i+1, n)
	}
}

func (p progress) clear() {
	if p.on {
		fmt.Fprint(os.Stderr, "\r\033[K")
	}
}
