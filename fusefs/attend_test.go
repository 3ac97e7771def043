package fusefs

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// fakeMount is a mount that stays in use until released, or for some unmount attempts.
type fakeMount struct {
	readPath string
	busy     int // number of unmount attempts that fail
	broken   error
	held     []Holder      // processes that still hold it after unmounting
	gone     chan struct{} // closed when nothing holds it any more
	unlisted chan struct{} // closed when unmounted; nil: same as gone
	said     []string
}

func (m *fakeMount) Holders() []Holder { return m.held }

func (m *fakeMount) Gone() <-chan struct{} {
	if m.unlisted != nil {
		return m.unlisted
	}
	return m.gone
}

const forEver = math.MaxInt

func (m *fakeMount) Wait()            { <-m.gone }
func (m *fakeMount) ReadPath() string { return m.readPath }
func (m *fakeMount) Path() string     { return "/my mnt" }

func (m *fakeMount) Unmount() error {
	m.said = append(m.said, "unmount")
	switch {
	case m.broken != nil:
		return m.broken
	case m.busy > 0:
		m.busy--
		return fmt.Errorf("unmount: %w", unix.EBUSY)
	}
	if m.held != nil {
		return &HeldError{Holders: m.held}
	}
	close(m.gone)
	return nil
}

func (m *fakeMount) Detach() error {
	m.said = append(m.said, "detach")
	return m.broken
}

// TestAttend uses synctest's fake clock.
func TestAttend(t *testing.T) {
	holder := []Holder{{PID: 7, Command: "sleep", Path: "/x"}}
	closed := make(chan struct{})
	close(closed)
	for _, test := range []struct {
		name    string
		mount   fakeMount
		signals int
		owner   bool // the owner ends after the signals
		ended   bool // unmounted from outside
		closed  bool
		fails   bool
		did     string
		told    []NoticeKind // without repetitions
	}{
		{name: "unmounted from outside", ended: true, closed: true},
		{name: "one signal", signals: 1, closed: true, did: "unmount"},
		{name: "in use for a while", mount: fakeMount{busy: 3}, signals: 1, closed: true, did: "unmount unmount unmount unmount", told: []NoticeKind{InUse}},
		{name: "in use, then unmounted from outside", mount: fakeMount{busy: forEver}, signals: 1, ended: true, closed: true, did: "unmount", told: []NoticeKind{InUse}},
		{name: "in use, then detached", mount: fakeMount{busy: forEver, readPath: "passthrough"}, signals: 2, did: "unmount detach", told: []NoticeKind{InUse}},
		{name: "in use and read through the daemon", mount: fakeMount{busy: forEver, readPath: "direct"}, signals: 3, did: "unmount detach",
			told: []NoticeKind{InUse, Detached}},
		{name: "unmounted, and in another namespace", mount: fakeMount{held: holder}, signals: 1, did: "unmount", told: []NoticeKind{HeldForGood}},
		{name: "unmounted from outside, and in another namespace", mount: fakeMount{held: holder, unlisted: closed}, ended: true, closed: true, told: []NoticeKind{HeldUntilAsked}},
		{name: "unmounted from outside, in another namespace, and one signal", mount: fakeMount{held: holder, unlisted: closed}, signals: 1, told: []NoticeKind{HeldUntilAsked}},
		{name: "the owner ends", owner: true, closed: true, did: "unmount"},
		{name: "in use when the owner ends", mount: fakeMount{busy: 3}, owner: true, closed: true, did: "unmount unmount unmount unmount", told: []NoticeKind{InUse}},
		{name: "ending when the owner ends", mount: fakeMount{busy: 3}, signals: 1, owner: true, closed: true, did: "unmount unmount unmount unmount", told: []NoticeKind{InUse}},
		{name: "detached when the owner ends", mount: fakeMount{busy: forEver, readPath: "direct"}, signals: 2, owner: true, ended: true, closed: true, did: "unmount detach",
			told: []NoticeKind{InUse, Detached}},
		{name: "cannot be unmounted", mount: fakeMount{broken: unix.EPERM}, signals: 1, fails: true, did: "unmount"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := test.mount
				m.gone = make(chan struct{})
				signals := make(chan os.Signal, 3)
				time.AfterFunc(time.Millisecond, func() { // when earlier events have been handled
					for range test.signals {
						signals <- syscall.SIGTERM
					}
					if test.owner {
						signals <- OwnerEnded{}
					}
					if test.ended {
						time.AfterFunc(time.Millisecond, func() { close(m.gone) })
					}
				})
				var told []NoticeKind
				closed, err := attend(&m, signals, func(n Notice) {
					told = append(told, n.Kind)
					if (n.Held != nil) != (len(test.mount.held) > 0) || n.Held != nil && !slices.Equal(n.Held.Holders, holder) {
						t.Errorf("told of %+v", n.Held)
					}
				})
				if closed != test.closed || (err != nil) != test.fails {
					t.Errorf("closed %v, error %v", closed, err)
				}
				if got := strings.Join(m.said, " "); got != test.did {
					t.Errorf("did %q, want %q", got, test.did)
				}
				if !slices.Equal(told, test.told) {
					t.Errorf("told %v, want %v", told, test.told)
				}
				if !closed { // release the goroutine in Wait
					close(m.gone)
				}
			})
		})
	}
}
