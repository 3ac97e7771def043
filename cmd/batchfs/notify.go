package main

import (
	"net"
	"strings"
)

// notify tells systemd the state of the mount if systemd asked for it (Type=notify). It is
// no error if nothing listens: the mount does not depend on it.
func (e environment) notify(state string) {
	if e.notifySocket == "" {
		return
	}
	name := e.notifySocket
	if abstract, ok := strings.CutPrefix(name, "@"); ok {
		name = "\x00" + abstract
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(state))
}
