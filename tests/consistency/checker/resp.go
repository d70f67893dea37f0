package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// replyError is an error reply: the command was not carried out, unless the reply says otherwise.
type replyError string

func (e replyError) Error() string { return string(e) }

// connection speaks RESP2 to one node.
type connection struct {
	socket net.Conn
	reader *bufio.Reader
}

func dial(address string, timeout time.Duration) (*connection, error) {
	socket, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return nil, err
	}
	return &connection{socket: socket, reader: bufio.NewReader(socket)}, nil
}

// call sends commands together and returns the last reply, or the first error reply among them. A transaction is sent only
// once it has begun: its commands would otherwise be carried out one by one.
func (c *connection) call(deadline time.Time, commands ...[]string) (any, error) {
	if len(commands) > 1 && commands[0][0] == "MULTI" {
		if _, err := c.call(deadline, commands[0]); err != nil {
			return nil, err
		}
		commands = commands[1:]
	}
	var out strings.Builder
	for _, words := range commands {
		fmt.Fprintf(&out, "*%d\r\n", len(words))
		for _, word := range words {
			fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	if err := c.socket.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c.socket, out.String()); err != nil {
		return nil, err
	}
	var last any
	var refused error
	for range commands {
		reply, err := c.reply()
		var asError replyError
		if errors.As(err, &asError) {
			if refused == nil {
				refused = err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		last = reply
	}
	return last, refused
}

// reply reads one reply: int64, string, nil, []any, or a replyError.
func (c *connection) reply() (any, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return nil, errors.New("an empty line instead of a reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, replyError(rest)
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$':
		length, err := strconv.Atoi(rest)
		if err != nil || length < 0 {
			return nil, err
		}
		text := make([]byte, length+2)
		if _, err := io.ReadFull(c.reader, text); err != nil {
			return nil, err
		}
		return string(text[:length]), nil
	case '*':
		count, err := strconv.Atoi(rest)
		if err != nil || count < 0 {
			return nil, err
		}
		items := make([]any, count)
		var refused error
		for at := range items {
			item, err := c.reply()
			var asError replyError
			if errors.As(err, &asError) {
				refused = err
			} else if err != nil {
				return nil, err
			}
			items[at] = item
		}
		return items, refused
	}
	return nil, fmt.Errorf("%q is no reply", line)
}
