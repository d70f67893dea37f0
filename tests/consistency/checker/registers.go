package main

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Registers are read, written, and changed if they hold what is expected; each history has to be linearizable. A key is
// used for a few seconds only, so that a history stays short enough to be checked whole.
const (
	registerKeys      = 12
	registerSeconds   = 4
	registerPauseMs   = 12
	checkTimeout      = 60 * time.Second
	compareAndSet     = "if (redis.call('GET', KEYS[1]) or '') == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) return 1 end return 0"
	neverEnds         = int64(math.MaxInt64)
	valueWhereNothing = ""
)

type registerKind int

const (
	read registerKind = iota
	write
	exchange
)

type registerInput struct {
	kind     registerKind
	expected string
	value    string
}

type registerOutput struct {
	value     string
	exchanged bool
	isUnknown bool
}

var registerModel = porcupine.Model{
	Init: func() any { return valueWhereNothing },
	Step: func(state, input, output any) (bool, any) {
		held, in, out := state.(string), input.(registerInput), output.(registerOutput)
		switch in.kind {
		case read:
			return out.value == held, held
		case write:
			return true, in.value
		default:
			if held == in.expected {
				return out.isUnknown || out.exchanged, in.value
			}
			return out.isUnknown || !out.exchanged, held
		}
	},
	DescribeOperation: func(input, output any) string {
		in, out := input.(registerInput), output.(registerOutput)
		switch in.kind {
		case read:
			return fmt.Sprintf("read %q", out.value)
		case write:
			return fmt.Sprintf("write %q", in.value)
		default:
			return fmt.Sprintf("exchange %q for %q: %v, unknown %v", in.expected, in.value, out.exchanged, out.isUnknown)
		}
	},
}

// histories keeps what was done to each key.
type histories struct {
	lock  sync.Mutex
	byKey map[string][]porcupine.Operation
}

func (h *histories) add(key string, operation porcupine.Operation) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.byKey[key] = append(h.byKey[key], operation)
}

// registers is one client of them.
func (t *test) registers(client int) {
	router := newRouter(t.nodes, t.seed*1000+int64(client), t.timeout)
	last := map[string]string{}
	for at := 0; !t.isOver(); at++ {
		time.Sleep(time.Duration(router.rng.Intn(2*registerPauseMs)) * time.Millisecond)
		generation := int(time.Since(t.started).Seconds()) / registerSeconds
		key := fmt.Sprintf("register:%d:%d", generation, router.rng.Intn(registerKeys))
		value := fmt.Sprintf("%d.%d", client, at)
		input := registerInput{kind: read}
		command := []string{"GET", key}
		switch choice := router.rng.Intn(10); {
		case choice < 4:
			input = registerInput{kind: write, value: value}
			command = []string{"SET", key, value}
		case choice < 6:
			input = registerInput{kind: exchange, expected: last[key], value: value}
			command = []string{"EVAL", compareAndSet, "1", key, last[key], value}
		}
		called := t.now()
		var reply any
		var what outcome
		if input.kind == read && router.rng.Intn(3) == 0 {
			// Whoever is asked has to know whether it may answer: who was deposed must not.
			address := t.nodes[router.rng.Intn(len(t.nodes))]
			reply, what, _ = router.callAt(address, time.Now().Add(t.timeout), command)
		} else {
			reply, what, _ = router.call(key, command)
		}
		returned := t.now()
		t.count(what)
		if what == refused || what == unknown && input.kind == read {
			continue
		}
		output := registerOutput{isUnknown: what == unknown}
		if what == unknown {
			returned = neverEnds
		} else if input.kind == read {
			output.value, _ = reply.(string)
			last[key] = output.value
		} else if input.kind == exchange {
			output.exchanged = reply == int64(1)
		}
		t.registered.add(key, porcupine.Operation{
			ClientId: client, Input: input, Call: called, Output: output, Return: returned,
		})
	}
}

// checkRegisters returns how many operations were checked, and what is wrong.
func (t *test) checkRegisters() (int, []string) {
	keys := make([]string, 0, len(t.registered.byKey))
	for key := range t.registered.byKey {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	checked, wrong := 0, []string{}
	for _, key := range keys {
		operations := t.registered.byKey[key]
		checked += len(operations)
		switch porcupine.CheckOperationsTimeout(registerModel, operations, checkTimeout) {
		case porcupine.Illegal:
			wrong = append(wrong, "register "+key+" is not linearizable:\n"+told(operations))
		case porcupine.Unknown:
			wrong = append(wrong, "register "+key+": no answer in "+strconv.Itoa(int(checkTimeout.Seconds()))+" s")
		}
	}
	return checked, wrong
}

func told(operations []porcupine.Operation) string {
	sort.Slice(operations, func(a, b int) bool { return operations[a].Call < operations[b].Call })
	text := ""
	for _, operation := range operations {
		end := "never"
		if operation.Return != neverEnds {
			end = fmt.Sprintf("%.3f", float64(operation.Return)/1e6)
		}
		text += fmt.Sprintf("  %.3f to %s ms, client %d: %s\n", float64(operation.Call)/1e6, end, operation.ClientId,
			registerModel.DescribeOperation(operation.Input, operation.Output))
	}
	return text
}
