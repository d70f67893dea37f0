package main

import (
	"errors"
	"fmt"
	"math/rand"
	"strconv"
	"strings"
	"time"
)

const slotCount = 16384

// What a call came to.
type outcome int

const (
	// done: it was carried out, and this is the reply.
	done outcome = iota
	// refused: it was not carried out.
	refused
	// unknown: it may or may not have been carried out, and may still be.
	unknown
)

// router is one client of the cluster: it asks whom it believes to own a slot, and learns from MOVED and CLUSTER SLOTS.
// It retries what was certainly not carried out, until the deadline.
type router struct {
	seeds       []string
	owners      map[uint16]string
	connections map[string]*connection
	rng         *rand.Rand
	timeout     time.Duration
	redirects   int
}

func newRouter(seeds []string, seed int64, timeout time.Duration) *router {
	return &router{
		seeds:       seeds,
		owners:      map[uint16]string{},
		connections: map[string]*connection{},
		rng:         rand.New(rand.NewSource(seed)),
		timeout:     timeout,
	}
}

func (r *router) connect(address string) (*connection, error) {
	if known, ok := r.connections[address]; ok {
		return known, nil
	}
	connection, err := dial(address, r.timeout/2)
	if err == nil {
		r.connections[address] = connection
	}
	return connection, err
}

func (r *router) drop(address string) {
	if known, ok := r.connections[address]; ok {
		known.socket.Close()
		delete(r.connections, address)
	}
}

// learn asks a node who owns what.
func (r *router) learn() {
	address := r.seeds[r.rng.Intn(len(r.seeds))]
	connection, err := r.connect(address)
	if err != nil {
		return
	}
	reply, err := connection.call(time.Now().Add(r.timeout/2), []string{"CLUSTER", "SLOTS"})
	if err != nil {
		r.drop(address)
		return
	}
	ranges, _ := reply.([]any)
	for _, each := range ranges {
		fields, ok := each.([]any)
		if !ok || len(fields) < 3 {
			continue
		}
		first, _ := fields[0].(int64)
		last, _ := fields[1].(int64)
		node, _ := fields[2].([]any)
		if len(node) < 2 {
			continue
		}
		host, _ := node[0].(string)
		port, _ := node[1].(int64)
		for slot := first; slot <= last; slot++ {
			r.owners[uint16(slot)] = fmt.Sprintf("%s:%d", host, port)
		}
	}
}

// isNotDone tells errors that say that nothing was carried out.
func isNotDone(text string) bool {
	for _, beginning := range []string{"MOVED", "ASK", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "READONLY", "LOADING",
		"MASTERDOWN", "MISCONF", "BUSY"} {
		if strings.HasPrefix(text, beginning) {
			return true
		}
	}
	// A transaction whose commands were refused when they were queued.
	return strings.HasPrefix(text, "EXECABORT")
}

// call runs commands on the owner of the key's slot: for as long as nothing was carried out, again, until the time is over.
func (r *router) call(key string, commands ...[]string) (any, outcome, error) {
	deadline := time.Now().Add(r.timeout)
	slot := slotOf(key)
	err := errors.New("nobody is known to own the slot")
	for time.Now().Before(deadline) {
		address, ok := r.owners[slot]
		if !ok {
			r.learn()
			if _, ok = r.owners[slot]; !ok {
				time.Sleep(20 * time.Millisecond)
			}
			continue
		}
		var what outcome
		var reply any
		reply, what, err = r.callAt(address, deadline, commands...)
		if what != refused {
			return reply, what, err
		}
		r.followError(slot, err)
	}
	return nil, refused, err
}

// followError takes from an error who owns the slot now, and waits a little where it does not say.
func (r *router) followError(slot uint16, err error) {
	words := strings.Fields(err.Error())
	if len(words) == 3 && words[0] == "MOVED" {
		r.redirects++
		if moved, conversion := strconv.Atoi(words[1]); conversion == nil {
			r.owners[uint16(moved)] = words[2]
		}
		return
	}
	delete(r.owners, slot)
	time.Sleep(time.Duration(5+r.rng.Intn(20)) * time.Millisecond)
}

// callAt runs commands on this node and nowhere else.
func (r *router) callAt(address string, deadline time.Time, commands ...[]string) (any, outcome, error) {
	connection, err := r.connect(address)
	if err != nil {
		return nil, refused, err
	}
	reply, err := connection.call(deadline, commands...)
	var asError replyError
	switch {
	case err == nil:
		return reply, done, nil
	case errors.As(err, &asError):
		if isNotDone(string(asError)) {
			return nil, refused, err
		}
		return nil, unknown, err
	default:
		r.drop(address)
		return nil, unknown, err
	}
}

// slotOf is CRC16 of the key, or of what stands between its first braces.
func slotOf(key string) uint16 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	var crc uint16
	for at := 0; at < len(key); at++ {
		crc ^= uint16(key[at]) << 8
		for bit := 0; bit < 8; bit++ {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % slotCount
}
