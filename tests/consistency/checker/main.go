// The clients of a cluster that is being broken, and the judge of what they saw: see ../README.md.
//
// It works until its input says "stop", then waits until the cluster answers everything once more, and prints one line of
// JSON: what was done and what is wrong. The exit code is 1 if anything is.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	registerClients = 6
	listClients     = 4
	bankClients     = 4
	wrongShown      = 5
)

// test is a run: its cluster, and what was seen.
type test struct {
	nodes      []string
	seed       int64
	timeout    time.Duration
	started    time.Time
	over       atomic.Bool
	counts     [3]atomic.Int64
	registered histories
	listed     lists
	audited    audits
}

func (t *test) isOver() bool { return t.over.Load() }

// now is nanoseconds since the start.
func (t *test) now() int64 { return int64(time.Since(t.started)) }

func (t *test) count(what outcome) { t.counts[what].Add(1) }

// result is what the last line says.
type result struct {
	Done      int64    `json:"done"`
	Refused   int64    `json:"refused"`
	Unknown   int64    `json:"unknown"`
	Registers int      `json:"registers"`
	Lists     int      `json:"lists"`
	Audits    int      `json:"audits"`
	Wrong     []string `json:"wrong"`
}

func main() {
	nodes := flag.String("nodes", "", "host:port of every node, with commas")
	seed := flag.Int64("seed", 1, "what the clients' choices follow from")
	timeout := flag.Duration("timeout", 2*time.Second, "how long a client waits for a reply, retries included")
	settle := flag.Duration("settle", 60*time.Second, "how long the cluster may take to answer everything in the end")
	flag.Parse()
	t := &test{nodes: strings.Split(*nodes, ","), seed: *seed, timeout: *timeout, started: time.Now()}
	t.registered.byKey = map[string][]porcupine.Operation{}
	if err := t.open(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	t.run()
	result := t.judge(*settle)
	text, _ := json.Marshal(result)
	fmt.Println(string(text))
	if len(result.Wrong) > 0 {
		os.Exit(1)
	}
}

// run lets all clients work until the input says that it is enough. Each line "report" is answered with what was done so far.
func (t *test) run() {
	var clients sync.WaitGroup
	start := func(count, first int, work func(client int)) {
		for client := first; client < first+count; client++ {
			clients.Add(1)
			// Before Go 1.22 one variable serves all turns of a loop.
			go func(client int) {
				defer clients.Done()
				work(client)
			}(client)
		}
	}
	start(registerClients, 0, t.registers)
	start(listClients, 100, t.appends)
	start(bankClients, 200, t.transfers)
	fmt.Println("working")
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() && input.Text() == "report" {
		fmt.Println(t.counts[done].Load(), t.counts[refused].Load(), t.counts[unknown].Load())
	}
	t.over.Store(true)
	clients.Wait()
}

// judge reads everything once more and looks for what should not be.
func (t *test) judge(settle time.Duration) result {
	wrong := t.readAll(settle)
	result := result{Done: t.counts[done].Load(), Refused: t.counts[refused].Load(), Unknown: t.counts[unknown].Load()}
	var found []string
	result.Registers, found = t.checkRegisters()
	wrong = append(wrong, found...)
	result.Lists, found = t.checkLists()
	wrong = append(wrong, found...)
	result.Audits = t.audited.count
	wrong = append(wrong, t.audited.wrong...)
	if len(wrong) > wrongShown {
		wrong = append(wrong[:wrongShown], fmt.Sprintf("and %d more", len(wrong)-wrongShown))
	}
	result.Wrong = wrong
	return result
}

// readAll reads every list and bank: that which is never answered is wrong.
func (t *test) readAll(settle time.Duration) []string {
	router := newRouter(t.nodes, t.seed-1, t.timeout)
	deadline := time.Now().Add(settle)
	until := func(about string, read func() bool) []string {
		for !read() {
			if time.Now().After(deadline) {
				return []string{fmt.Sprintf("%s was not answered in %v after the last fault", about, settle)}
			}
		}
		return nil
	}
	wrong := []string{}
	for list := 0; list < listKeys; list++ {
		wrong = append(wrong, until(listKey(list), func() bool { return t.readList(router, list) })...)
	}
	for bank := 0; bank < banks; bank++ {
		wrong = append(wrong, until(account(bank, 0), func() bool { return t.audit(router, bank) })...)
	}
	return wrong
}
