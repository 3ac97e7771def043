package main

import (
	"fmt"
	"slices"
	"strings"
)

// A scenario prints some rows of the table.
type scenario struct {
	name  string
	run   func(*bench)
	asked bool // runs only on request
}

// compares is the scenario of -compare.
const compares = "compare"

// scenarios in the order of the table.
var scenarios = []scenario{
	{"path", finishedBatches, false},
	{"epoch", againstC(epochs), false},
	{"transforms", againstC(transforms), false},
	{"png", againstC(cityscapeEpochs), false},
	{"packed/epoch", againstC(packedEpochs), false},
	{"packed/first", packing, false},
	{"targets/masks", maskEpochs, false},
	{"targets/boxes", boxEpochs, false},
	{"decoder", decoderAlone, false},
	{"scaling", scaling, false},
	{"first", firstBatch, false},
	{"memory", memoryByWorkers, false},
	{"manifest", manifest, false},
	{"cold/epoch", coldEpochs, true},
	{"cold/workers", coldWorkers, true},
	{"cold/throttled", coldThrottled, true},
	{"cold/slow", coldSlow, true},
	{"cold/quota", coldQuota, true},
	{"cold/memory", coldMemory, true},
	{compares, compareCommits, true},
	{"peers/labels", peers, true},
	{"peers/masks", targetPeers("masks"), true},
	{"peers/boxes", targetPeers("boxes"), true},
	{"liquid/disk", mixesOnDisk, true},
	{"liquid/rivals", rivals, true},
	{"liquid/mixes", mixes, true},
	{"liquid/programs", endToEnd, true},
	{"liquid/h100s", h100s, true},
	{"liquid/hits", constantHits, true},
	{"liquid/uncached", uncached, true},
	{"remote/epoch", remoteEpochs, true},
	{"remote/tier", remoteTier, true},
	{"remote/traffic", remoteTraffic, true},
	{"remote/peers", remotePeers, true},
	{"remote/first", remoteFirst, true},
}

// chosen returns the scenarios to run, given their names, or the part of a name before the slash.
func chosen(only string) (wanted []scenario, err error) {
	list := strings.Split(only, ",")
	asked := func(s scenario, name string) bool { return s.name == name || strings.HasPrefix(s.name, name+"/") }
	for _, s := range scenarios {
		if slices.ContainsFunc(list, func(name string) bool { return asked(s, name) }) || only == "" && !s.asked {
			wanted = append(wanted, s)
		}
	}
	for _, name := range list {
		if only != "" && !slices.ContainsFunc(wanted, func(s scenario) bool { return asked(s, name) }) {
			return nil, fmt.Errorf("-only must name some of %s, not %q", names(scenarios), name)
		}
	}
	return wanted, nil
}

func names(list []scenario) string {
	var all []string
	for _, s := range list {
		all = append(all, s.name)
	}
	return strings.Join(all, ", ")
}
