package main

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

// Money moves between the accounts of a bank, by transactions and by scripts. Whoever looks at all of them sees the same sum.
const (
	banks        = 4
	bankAccounts = 6
	bankPauseMs  = 15
	bankBalance  = 100
	transfer     = "redis.call('DECRBY', KEYS[1], ARGV[1]) redis.call('INCRBY', KEYS[2], ARGV[1]) return 1"
)

type audits struct {
	lock  sync.Mutex
	count int
	wrong []string
}

func account(bank, number int) string { return fmt.Sprintf("{bank:%d}:%d", bank, number) }

// open gives every account its balance; called before anybody transfers.
func (t *test) open() error {
	router := newRouter(t.nodes, t.seed, 30*time.Second)
	for bank := 0; bank < banks; bank++ {
		command := []string{"MSET"}
		for number := 0; number < bankAccounts; number++ {
			command = append(command, account(bank, number), strconv.Itoa(bankBalance))
		}
		if _, what, err := router.call(account(bank, 0), command); what != done {
			return fmt.Errorf("bank %d did not open: %w", bank, err)
		}
	}
	return nil
}

func (t *test) transfers(client int) {
	router := newRouter(t.nodes, t.seed*1000+int64(client), t.timeout)
	for !t.isOver() {
		time.Sleep(time.Duration(router.rng.Intn(2*bankPauseMs)) * time.Millisecond)
		bank := router.rng.Intn(banks)
		from, to := account(bank, router.rng.Intn(bankAccounts)), account(bank, router.rng.Intn(bankAccounts))
		amount := strconv.Itoa(1 + router.rng.Intn(20))
		var what outcome
		switch router.rng.Intn(5) {
		case 0, 1:
			_, what, _ = router.call(from, []string{"MULTI"}, []string{"DECRBY", from, amount},
				[]string{"INCRBY", to, amount}, []string{"EXEC"})
		case 2, 3:
			_, what, _ = router.call(from, []string{"EVAL", transfer, "2", from, to, amount})
		default:
			t.audit(router, bank)
			continue
		}
		t.count(what)
	}
}

func (t *test) audit(router *router, bank int) bool {
	command := []string{"MGET"}
	for number := 0; number < bankAccounts; number++ {
		command = append(command, account(bank, number))
	}
	reply, what, _ := router.call(account(bank, 0), command)
	if what != done {
		return false
	}
	sum, balances := 0, reply.([]any)
	for _, balance := range balances {
		text, _ := balance.(string)
		number, _ := strconv.Atoi(text)
		sum += number
	}
	t.audited.lock.Lock()
	defer t.audited.lock.Unlock()
	t.audited.count++
	if sum != bankAccounts*bankBalance {
		t.audited.wrong = append(t.audited.wrong, fmt.Sprintf("bank %d has %d at %.3f s, not %d: %v", bank, sum,
			float64(t.now())/1e9, bankAccounts*bankBalance, balances))
	}
	return true
}
