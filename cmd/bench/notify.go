package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
)

// A notify is the socket on which a daemon reports that it is ready, as it does to systemd.
type notify struct {
	path  string
	conn  *net.UnixConn
	ready chan struct{}
}

var notifies atomic.Int64

func newNotify(dir string) (*notify, error) {
	n := &notify{path: filepath.Join(dir, fmt.Sprintf("notify-%d", notifies.Add(1))), ready: make(chan struct{})}
	var err error
	if n.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: n.path, Net: "unixgram"}); err != nil {
		return nil, err
	}
	go func() {
		buf := make([]byte, 256)
		if k, err := n.conn.Read(buf); err == nil && k > 0 {
			close(n.ready)
		}
	}()
	return n, nil
}

func (n *notify) Close() {
	n.conn.Close()
	os.Remove(n.path)
}
