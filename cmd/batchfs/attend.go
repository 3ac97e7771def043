package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/fusefs"
)

// live is what attend needs of a mount.
type live interface {
	Wait()
	Gone() <-chan struct{}
	Holders() []fusefs.Holder
	Unmount() error
	Detach() error
	ReadPath() string
	Path() string
}

// tryAgain is how often a mount that is to end looks whether it is still in use.
const tryAgain = time.Second

// attend waits for the end of a mount: unmounted from outside, or by a signal. A
// mount in use survives the first signal, until nobody uses it; the second detaches
// it, after which batches that are open stay readable. One that is gone and lives on
// for others, as in another mount namespace, ends with the next signal. What there is
// to know about that goes to tell. closed says that nobody holds anything of the mount
// any more.
func attend(m live, signals <-chan os.Signal, tell func(message, hint string)) (closed bool, err error) {
	a := attendance{live: m, word: shellWord(m.Path()), tell: tell, tried: make(chan error, 1)}
	ended, gone := make(chan struct{}), m.Gone()
	go func() {
		m.Wait()
		close(ended)
	}()
	for {
		over, next := false, signals
		if a.trying && !a.gone {
			next = nil // in a moment, what to do about it is known
		}
		select {
		case <-ended:
			return true, nil
		case <-gone:
			gone, a.gone = nil, true
			a.sayHolders()
		case <-a.again:
			a.try()
		case err := <-a.tried:
			over, err = a.result(err)
			if err != nil {
				return false, err
			}
		case <-next:
			if over, err = a.signal(); err != nil {
				return false, err
			}
		}
		if over {
			return false, nil
		}
	}
}

// attendance is what attend knows of a mount that is to end.
type attendance struct {
	live
	word string // the mountpoint, for a shell
	tell func(message, hint string)

	gone   bool // from this namespace
	asked  int  // how many signals came
	trying bool
	said   bool             // that it is in use
	tried  chan error       // what Unmount said
	again  <-chan time.Time // nil, which never comes, while nothing is to be tried
}

// signal serves one; over ends the attendance.
func (a *attendance) signal() (over bool, err error) {
	a.asked++
	switch {
	case a.gone || a.asked > 2:
		return true, nil
	case a.asked == 1:
		a.try()
		return false, nil
	}
	a.again = nil
	if err := a.Detach(); err != nil {
		return false, fmt.Errorf("detach %s: %w", a.Path(), err)
	}
	if a.ReadPath() == "passthrough" {
		return true, nil // the kernel serves what is open without us
	}
	a.tell(fmt.Sprintf("detached %s; serving what is still open, a third signal ends that", a.Path()), "")
	return false, nil
}

// try unmounts, while other things can happen.
func (a *attendance) try() {
	if !a.trying {
		a.trying = true
		go func() { a.tried <- a.Unmount() }()
	}
}

// result is what became of it.
func (a *attendance) result(err error) (over bool, failed error) {
	a.trying = false
	var held *fusefs.HeldError
	switch {
	case err == nil:
		a.again = nil // the end follows
		return false, nil
	case errors.As(err, &held):
		a.tell(heldWords(a.Path(), held), "")
		return true, nil
	case !a.said && !errors.Is(err, unix.EBUSY):
		return false, hint(fmt.Errorf("unmount %s: %w", a.Path(), err), "batchfs umount --lazy %s", a.word)
	case !a.said:
		a.said, a.again = true, time.Tick(tryAgain)
		a.tell(fmt.Sprintf("%s is in use and will be unmounted as soon as nobody uses it", a.Path()),
			fmt.Sprintf("fuser -vm %s shows who reads it; a second signal, or batchfs umount --lazy %s, detaches it now", a.word, a.word))
	}
	return false, nil
}

// sayHolders tells who keeps a mount alive that somebody has unmounted.
func (a *attendance) sayHolders() {
	if a.trying { // that says so itself
		return
	}
	if found := a.Holders(); len(found) > 0 {
		a.tell(heldWords(a.Path(), &fusefs.HeldError{Holders: found}),
			fmt.Sprintf("it ends when they do; kill %d ends it now", os.Getpid()))
	}
}

// heldWords say of an unmounted mount that others still have it.
func heldWords(mountpoint string, held *fusefs.HeldError) string {
	return fmt.Sprintf("%s is unmounted, and %v", mountpoint, held)
}
