package testkit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A Partner is a program that a test exchanges lines with. It ends when its input ends.
type Partner struct {
	Cmd      *exec.Cmd
	in, raw  *os.File
	out      *bufio.Reader
	patience time.Duration
}

// StartPartner starts a program. It counts as hung after patience.
func StartPartner(cmd *exec.Cmd, patience time.Duration) (*Partner, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	raw, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	defer stdout.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, os.Stderr
	p := &Partner{Cmd: cmd, in: in, raw: raw, out: bufio.NewReader(raw), patience: patience}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, in.Close(), raw.Close())
	}
	return p, nil
}

// Tell writes a line.
func (p *Partner) Tell(line string) error {
	_, err := io.WriteString(p.in, line+"\n")
	return err
}

// Line reads the next line.
func (p *Partner) Line() (string, error) {
	if err := p.raw.SetReadDeadline(time.Now().Add(p.patience)); err != nil {
		return "", err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s: said %q, then %w", p.Cmd.Path, line, err)
	}
	return strings.TrimSuffix(line, "\n"), nil
}

// Expect reads the next line and compares it.
func (p *Partner) Expect(want string) error {
	got, err := p.Line()
	if err == nil && got != want {
		err = fmt.Errorf("%s said %q, not %q", p.Cmd.Path, got, want)
	}
	return err
}

// Order writes a line that the program answers when it is done.
func (p *Partner) Order(line string) error {
	if err := p.Tell(line); err != nil {
		return err
	}
	return p.Expect("done")
}

// End releases the program and everything it has forked, and returns how it ended when all of them
// are gone. It may be called again.
func (p *Partner) End() error {
	_ = p.in.Close()
	_ = p.raw.SetReadDeadline(time.Now().Add(p.patience))
	_, _ = io.Copy(io.Discard, p.out)
	hung := time.AfterFunc(p.patience/4, func() { _ = p.Cmd.Process.Kill() })
	defer hung.Stop()
	err := p.Cmd.Wait()
	_ = p.raw.Close()
	return err
}

// Output runs a program, for at most patience, and returns its output. The error includes what the
// program wrote to standard error.
func Output(cmd *exec.Cmd, patience time.Duration) (string, error) {
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Start(); err != nil {
		return "", err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, complaint.String())
		}
		return out.String(), err
	case <-time.After(patience):
		_ = cmd.Process.Kill() // do not wait: it may be stuck in the kernel for good
		return "", fmt.Errorf("%s hangs", strings.Join(cmd.Args, " "))
	}
}
