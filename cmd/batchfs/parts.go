package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/store"
)

// partFlags divide the work of a command among the tasks of an array job.
func partFlags(f *flagSet, part *dataset.Share, merge *bool) {
	f.derived("part", "all", "do part `K/N` of the work, such as 0/16, for --merge; K counts from 0", share(part))
	f.toggle(merge, "merge", false, "join the parts that --part made")
	f.check(func() error {
		if f.Changed("part") && f.Changed("merge") {
			return usage("--part and --merge cannot be given together: each part is a run of its own, and joining them is the last one")
		}
		return nil
	})
}

// share accepts a part and the number of parts.
func share(to *dataset.Share) parser {
	const most = 99999
	return value(to, "K/N, such as 0/16, with K from 0 to N-1 and N up to 99999", func(text string) (dataset.Share, bool) {
		left, right, _ := strings.Cut(text, "/")
		k, errK := strconv.ParseUint(left, 10, 31)
		n, errN := strconv.ParseUint(right, 10, 31)
		return dataset.Share{K: int(k), N: int(n)}, errK == nil && errN == nil && k < n && n <= most
	})
}

// partsHint says how to make the parts that are still missing for a merge.
func (c *console) partsHint(err error, f *flagSet, args []string) error {
	e, ok := errors.AsType[*dataset.PartsError](err)
	if !ok {
		return err
	}
	words := []string{"batchfs", c.command}
	for _, word := range append(f.spelled(), args...) {
		flag, value, given := strings.Cut(word, "=")
		switch {
		case word == "--merge=true":
		case strings.HasPrefix(word, "--") && given:
			words = append(words, flag+"="+shellWord(store.Public(value)))
		default:
			words = append(words, shellWord(store.Public(word)))
		}
	}
	command := strings.Join(words, " ") + " --part "
	const most = 20
	switch parts := e.Parts; len(parts) {
	case 0:
		return hint(err, "for k in 0 1; do %s$k/2; done", command)
	case 1:
		return hint(err, "%s%s", command, parts[0])
	default:
		var names []string
		for _, p := range parts[:min(most, len(parts))] {
			names = append(names, strconv.Itoa(p.K))
		}
		if len(parts) > most {
			names = append(names, fmt.Sprintf("$(seq %d %d)", parts[most].K, parts[len(parts)-1].K))
		}
		return hint(err, "for k in %s; do %s$k/%d; done", strings.Join(names, " "), command, parts[0].N)
	}
}
