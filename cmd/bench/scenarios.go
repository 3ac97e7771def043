package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A scenario makes some rows of the table.
type scenario struct {
	name     string
	contests func(context.Context, *bench) ([]contest, error)
	needs    []func(*bench) *pictures // made before
	asked    bool                     // only on request
}

func photos(b *bench) *pictures     { return &b.photos }
func stills(b *bench) *pictures     { return &b.stills }
func realPhotos(b *bench) *pictures { return &b.real }
func cityscapes(b *bench) *pictures { return &b.cityscapes }

var (
	none []func(*bench) *pictures
	some = append(none, photos)
	pngs = append(none, cityscapes)
	both = append(none, photos, cityscapes)
)

// What begins the names of scenarios with an object store, and about the claims of Liquid; and the
// one of -compare.
const onStore, onMixes, compares = "remote/", "liquid/", "compare"

// scenarios in the order of the table.
var scenarios = []scenario{
	{"path", finishedBatches, some, false},
	{"epoch", againstC(epochs), some, false},
	{"transforms", againstC(transforms), some, false},
	{"png", againstC(cityscapeEpochs), pngs, false},
	{"packed/epoch", againstC(packedEpochs), append(both, stills), false},
	{"packed/first", packing, some, false},
	{"targets/masks", maskEpochs, both, false},
	{"targets/boxes", boxEpochs, some, false},
	{"decoder", decoderAlone, some, false},
	{"scaling", scaling, some, false},
	{"first", firstBatch, some, false},
	{"memory", memoryByWorkers, some, false},
	{"manifest", manifest, none, false},
	{"cold/epoch", coldEpochs, both, true},
	{"cold/workers", coldWorkers, some, true},
	{"cold/throttled", coldThrottled, some, true},
	{"cold/slow", coldSlow, some, true},
	{"cold/quota", coldQuota, some, true},
	{"cold/memory", coldMemory, some, true},
	{compares, compareCommits, none, true},
	{"peers/labels", peers, some, true},
	{"peers/masks", maskPeers, some, true},
	{"peers/boxes", boxPeers, some, true},
	{onMixes + "bytes", sameBytes, both, true},
	{onMixes + "disk", mixesOnDisk, both, true},
	{onMixes + "rivals", rivals, both, true},
	{onMixes + "mixes", mixes, both, true},
	{onMixes + "programs", endToEnd, both, true},
	{onMixes + "trainings", trainings, some, true},
	{onMixes + "h100s", h100s, some, true},
	{onMixes + "hits", constantHits, some, true},
	{onMixes + "uncached", uncached, some, true},
	{onStore + "epoch", remoteEpochs, some, true},
	{onStore + "tier", remoteTier, some, true},
	{onStore + "traffic", remoteTraffic, some, true},
	{onStore + "peers", remotePeers, some, true},
	{onStore + "first", remoteFirst, some, true},
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
