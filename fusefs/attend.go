package fusefs

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// OwnerEnded counts as a signal that asks a mount to end, but only as the first one: files that its
// owner's other processes still read must not be detached from them.
type OwnerEnded struct{}

// Signal implements os.Signal.
func (OwnerEnded) Signal()        {}
func (OwnerEnded) String() string { return "the end of the owner" }

// A Notice says why a mount does not end yet, or does not end completely.
type Notice struct {
	Kind NoticeKind
	Held *HeldError // of HeldUntilAsked and HeldForGood
}

// NoticeKind is what a Notice says.
type NoticeKind int

const (
	// InUse: the mount will be unmounted when nobody uses it any more. A second signal detaches it.
	InUse NoticeKind = iota
	// Detached: what is still open is served until a third signal.
	Detached
	// HeldUntilAsked: the mount was unmounted or detached by someone else, and is held elsewhere.
	// It ends when its holders do, or with the next signal.
	HeldUntilAsked
	// HeldForGood: the mount was unmounted as far as possible.
	HeldForGood
)

// ErrDetach means that a mount in use could not be detached.
var ErrDetach = errors.New("detach")

// live is what Attend needs of a mount.
type live interface {
	Wait()
	Gone() <-chan struct{}
	Holders() []Holder
	Unmount() error
	Detach() error
	ReadPath() string
	Path() string
}

// tryAgain is the interval between unmount attempts while a mount is still in use.
const tryAgain = time.Second

// Attend waits until a mount ends, unmounted from outside or by a signal. On the first
// signal, a mount in use stays until nothing uses it. The second signal detaches it; open
// batches stay readable. A mount that is gone from this namespace but still held elsewhere,
// for example in another mount namespace, ends with the next signal. closed reports that nothing
// holds any part of the mount any more.
func (m *Session) Attend(signals <-chan os.Signal, tell func(Notice)) (closed bool, err error) {
	return attend(m, signals, tell)
}

func attend(m live, signals <-chan os.Signal, tell func(Notice)) (closed bool, err error) {
	a := attendance{live: m, notify: tell, tried: make(chan error, 1)}
	ended, gone := make(chan struct{}), m.Gone()
	go func() {
		m.Wait()
		close(ended)
	}()
	for over := false; !over && err == nil; {
		next := signals
		if a.trying && !a.gone {
			next = nil // wait for the result of the unmount first
		}
		select {
		case <-ended:
			return true, nil
		case <-gone:
			if gone, a.gone = nil, true; a.trying {
				continue // result reports the holders
			}
			if found := m.Holders(); len(found) > 0 {
				tell(Notice{HeldUntilAsked, &HeldError{found}})
			}
		case <-a.again:
			a.try()
		case result := <-a.tried:
			over, err = a.result(result)
		case sig := <-next:
			over, err = a.signal(sig)
		}
	}
	return false, err
}

// attendance is the state of Attend.
type attendance struct {
	live
	notify func(Notice)

	gone    bool // from this namespace
	signals int  // number of signals received
	trying  bool
	tried   chan error       // the result of Unmount
	again   <-chan time.Time // nil, which blocks forever, unless the mount is in use
}

// signal handles one signal; over reports that Attend is done.
func (a *attendance) signal(sig os.Signal) (over bool, err error) {
	if sig == (OwnerEnded{}) && (a.gone || a.signals > 0) {
		return false, nil // it is ending
	}
	a.signals++
	switch {
	case a.gone || a.signals > 2:
		return true, nil
	case a.signals == 1:
		a.try()
		return false, nil
	}
	a.again = nil
	if err := a.Detach(); err != nil {
		return false, fmt.Errorf("%w %s: %w", ErrDetach, a.Path(), err)
	}
	if a.ReadPath() == "passthrough" {
		return true, nil // the kernel serves open files without us
	}
	a.notify(Notice{Kind: Detached})
	return false, nil
}

// try unmounts in the background.
func (a *attendance) try() {
	if !a.trying {
		a.trying = true
		go func() { a.tried <- a.Unmount() }()
	}
}

// result handles the result of an unmount.
func (a *attendance) result(err error) (over bool, failed error) {
	a.trying = false
	var held *HeldError
	switch {
	case err == nil:
		a.again = nil // ended follows
	case errors.As(err, &held):
		a.notify(Notice{HeldForGood, held})
		return true, nil
	case a.again != nil: // the user knows
	case !errors.Is(err, unix.EBUSY):
		return false, fmt.Errorf("unmount %s: %w", a.Path(), err)
	default:
		a.again = time.Tick(tryAgain)
		a.notify(Notice{Kind: InUse})
	}
	return false, nil
}
