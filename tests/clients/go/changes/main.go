// go-redis at work while its cluster changes; see ../../changes.md. Build with -tags v6, v7, v8 or v9.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	loops     = 3
	tags      = 12
	pause     = 20 * time.Millisecond
	increment = "return redis.call('INCR', KEYS[1])"
)

// library is the one under test; its methods stand in legacy.go and modern.go.
type library struct{ client *clusterClient }

// connect returns a client that goes on trying for as long as a failover may take, by the library's own means.
func connect(nodes string) *library {
	return &library{newClusterClient(&clusterOptions{
		Addrs: strings.Split(nodes, ","), MaxRedirects: 60, MaxRetryBackoff: 200 * time.Millisecond,
		ReadTimeout: 20 * time.Second,
	})}
}

func values(commands []*stringCmd) []string {
	texts := make([]string, len(commands))
	for at, command := range commands {
		texts[at] = command.Val()
	}
	return texts
}

// report is what happened since the last phase began; shared by all loops.
type report struct {
	lock   sync.Mutex
	Phase  string         `json:"phase"`
	Done   int            `json:"done"`
	Errors map[string]int `json:"errors"`
	Wrong  []string       `json:"wrong"`
}

// take ends the phase, and returns what there is to say of it.
func (r *report) take(phase string) string {
	r.lock.Lock()
	defer r.lock.Unlock()
	told, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	r.Phase, r.Done, r.Errors, r.Wrong = phase, 0, map[string]int{}, []string{}
	return string(told)
}

func (r *report) holds(what string, holds bool) {
	if !holds {
		r.lock.Lock()
		r.Wrong = append(r.Wrong, what)
		r.lock.Unlock()
	}
}

// loop is one goroutine that writes keys of its own and reads them again.
type loop struct {
	*library
	*report
	tags                    []string
	tried, written, counted []int64
	begun, goodBegunAt      atomic.Int64
	isStopping              *atomic.Bool
}

func newLoop(l *library, r *report, name string, number int, isStopping *atomic.Bool) *loop {
	it := &loop{library: l, report: r, isStopping: isStopping}
	for tag := range tags {
		it.tags = append(it.tags, fmt.Sprintf("{%s:%d:%d}", name, number, tag))
	}
	it.tried, it.written, it.counted = make([]int64, tags), make([]int64, tags), make([]int64, tags)
	return it
}

func (l *loop) run() {
	for !l.isStopping.Load() {
		begun, good := l.begun.Add(1), true
		for at := range l.tags {
			good = l.tries("write", l.write, at) && good
			good = l.tries("read", l.read, at) && good
			good = l.tries("count", l.count, at) && good
			time.Sleep(pause)
		}
		good = l.tries("pipeline", l.pipeline, int(begun)%tags) && good
		good = l.tries("several", l.several, int(begun)%tags) && good
		good = l.tries("script", l.script, int(begun)%tags) && good
		good = l.tries("transaction", l.transaction, int(begun)%tags) && good
		if good {
			l.goodBegunAt.Store(begun)
		}
	}
}

func (l *loop) tries(name string, step func(int) error, at int) bool {
	err := step(at)
	l.report.lock.Lock()
	defer l.report.lock.Unlock()
	if err != nil {
		l.Errors[fmt.Sprintf("%s: %T: %.250v", name, err, err)]++
		return false
	}
	l.Done++
	return true
}

func (l *loop) write(at int) error {
	l.tried[at]++
	err := l.set(l.tags[at]+"v", l.tried[at])
	if err == nil {
		l.written[at] = l.tried[at]
	}
	return err
}

func (l *loop) read(at int) error {
	text, err := l.get(l.tags[at] + "v")
	if err == nil {
		l.expectValue(at, text)
	}
	return err
}

func (l *loop) expectValue(at int, text string) {
	value, err := strconv.ParseInt(text, 10, 64)
	what := fmt.Sprintf("GET %s: %q, written %d to %d", l.tags[at], text, l.written[at], l.tried[at])
	l.holds(what, err == nil && l.written[at] <= value && value <= l.tried[at])
}

func (l *loop) count(at int) error {
	count, err := l.incr(l.tags[at] + "c")
	if err == nil {
		l.expectCount(at, count, 1)
	}
	return err
}

// expectCount holds if so many were added just now, with this count; a library that asks again may count twice.
func (l *loop) expectCount(at int, count, added int64) {
	l.holds(fmt.Sprintf("INCR %s: %d after %d", l.tags[at], count, l.counted[at]), count >= l.counted[at]+added)
	l.counted[at] += added
}

func (l *loop) pipeline(int) error {
	keys := make([]string, tags)
	for at, tag := range l.tags {
		keys[at] = tag + "v"
	}
	texts, err := l.gets(keys)
	if err == nil {
		for at, text := range texts {
			l.expectValue(at, text)
		}
	}
	return err
}

func (l *loop) several(at int) error {
	tag := l.tags[at]
	if err := l.mset(tag+"a", 1, tag+"b", 2); err != nil {
		return err
	}
	found, err := l.mget(tag+"a", tag+"b", tag+"none")
	if err == nil {
		l.holds(fmt.Sprintf("MGET %s: %v", tag, found), fmt.Sprint(found) == "[1 2 <nil>]")
	}
	return err
}

func (l *loop) script(at int) error {
	count, err := l.eval(increment, l.tags[at]+"c")
	if err == nil {
		l.expectCount(at, count.(int64), 1)
	}
	return err
}

func (l *loop) transaction(at int) error {
	first, second, err := l.incrTwice(l.tags[at] + "c")
	if err == nil {
		l.holds(fmt.Sprintf("EXEC %s: %d, %d", l.tags[at], first, second), second == first+1)
		l.expectCount(at, second, 2)
	}
	return err
}

func (l *loop) final(at int) error {
	text, err := l.get(l.tags[at] + "c")
	if err == nil {
		count, _ := strconv.ParseInt(text, 10, 64)
		l.expectCount(at, count, 0)
	}
	return err
}

// awaitGoodCycles waits until every loop has begun a cycle from now on and ended it without an error.
func awaitGoodCycles(all []*loop) {
	for _, l := range all {
		for begun := l.begun.Load(); l.goodBegunAt.Load() <= begun; {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func main() {
	nodes, name := flag.String("nodes", "", "the cluster's nodes"), flag.String("name", "", "what keys begin with")
	flag.Parse()
	client, told, isStopping := connect(*nodes), &report{}, &atomic.Bool{}
	var all []*loop
	for number := range loops {
		all = append(all, newLoop(client, told, *name, number, isStopping))
	}
	fmt.Println("ready")
	input := bufio.NewScanner(os.Stdin)
	input.Scan()
	told.take(input.Text())
	var running sync.WaitGroup
	for _, l := range all {
		running.Add(1)
		go func() { defer running.Done(); l.run() }()
	}
	for input.Scan() && input.Text() != "stop" {
		if input.Text() == "cycle" {
			awaitGoodCycles(all)
			fmt.Println("cycle")
		} else {
			fmt.Println(told.take(input.Text()))
		}
	}
	isStopping.Store(true)
	running.Wait()
	fmt.Println(told.take("end"))
	for _, l := range all {
		for at := range l.tags {
			l.tries("read", l.read, at)
			l.tries("final", l.final, at)
		}
	}
	fmt.Println(told.take(""))
}
