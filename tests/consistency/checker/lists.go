package main

import (
	"fmt"
	"sync"
	"time"
)

// Lists grow at their end, and nothing else happens to them. So what one read saw is the beginning of what every later one
// sees; what was acknowledged is there once, what was not at most once, and a read that began after an acknowledgement has it.
const (
	listKeys    = 6
	listPauseMs = 15
)

type appended struct {
	list           int
	element        string
	called         int64
	acknowledged   int64
	isAcknowledged bool
}

type listRead struct {
	list     int
	called   int64
	elements []string
}

type lists struct {
	lock     sync.Mutex
	appended []appended
	reads    []listRead
}

func listKey(list int) string { return fmt.Sprintf("list:%d", list) }

func (t *test) appends(client int) {
	router := newRouter(t.nodes, t.seed*1000+int64(client), t.timeout)
	for at := 0; !t.isOver(); at++ {
		time.Sleep(time.Duration(router.rng.Intn(2*listPauseMs)) * time.Millisecond)
		list := router.rng.Intn(listKeys)
		if router.rng.Intn(20) == 0 {
			t.readList(router, list)
			continue
		}
		element := fmt.Sprintf("%d.%d", client, at)
		called := t.now()
		_, what, _ := router.call(listKey(list), []string{"RPUSH", listKey(list), element})
		t.count(what)
		// What was refused must not be there either.
		t.listed.lock.Lock()
		t.listed.appended = append(t.listed.appended, appended{list, element, called, t.now(), what == done})
		if what == refused {
			t.listed.appended[len(t.listed.appended)-1].element = "refused " + element
		}
		t.listed.lock.Unlock()
	}
}

func (t *test) readList(router *router, list int) bool {
	called := t.now()
	reply, what, _ := router.call(listKey(list), []string{"LRANGE", listKey(list), "0", "-1"})
	if what != done {
		return false
	}
	items, _ := reply.([]any)
	elements := make([]string, 0, len(items))
	for _, item := range items {
		text, _ := item.(string)
		elements = append(elements, text)
	}
	t.listed.lock.Lock()
	defer t.listed.lock.Unlock()
	t.listed.reads = append(t.listed.reads, listRead{list, called, elements})
	return true
}

// checkLists returns how many appends and reads were checked, and what is wrong.
func (t *test) checkLists() (int, []string) {
	wrong := []string{}
	for list := 0; list < listKeys; list++ {
		longest := []string{}
		for _, each := range t.listed.reads {
			if each.list == list && len(each.elements) > len(longest) {
				longest = each.elements
			}
		}
		place := map[string]int{}
		for at, element := range longest {
			if before, ok := place[element]; ok {
				wrong = append(wrong, fmt.Sprintf("%s has %s twice, at %d and %d", listKey(list), element, before, at))
			}
			place[element] = at
		}
		sent := map[string]bool{}
		for _, each := range t.listed.appended {
			if each.list != list {
				continue
			}
			sent[each.element] = true
			if _, ok := place[each.element]; each.isAcknowledged && !ok {
				wrong = append(wrong, fmt.Sprintf("%s has lost %s, acknowledged at %.3f s", listKey(list), each.element,
					float64(each.acknowledged)/1e9))
			}
		}
		for element := range place {
			if !sent[element] {
				wrong = append(wrong, fmt.Sprintf("%s has %s, which nobody appended, or which was refused", listKey(list), element))
			}
		}
		for _, each := range t.listed.reads {
			if each.list == list {
				wrong = append(wrong, t.checkRead(each, longest, place)...)
			}
		}
	}
	return len(t.listed.appended) + len(t.listed.reads), wrong
}

// checkRead compares a read with the longest one.
func (t *test) checkRead(seen listRead, longest []string, place map[string]int) []string {
	key, when := listKey(seen.list), float64(seen.called)/1e9
	for at, element := range seen.elements {
		if longest[at] != element {
			return []string{fmt.Sprintf("%s at %.3f s had %s at %d, later %s", key, when, element, at, longest[at])}
		}
	}
	for _, each := range t.listed.appended {
		at, ok := place[each.element]
		isDue := each.isAcknowledged && each.list == seen.list && each.acknowledged < seen.called
		if isDue && ok && at >= len(seen.elements) {
			return []string{fmt.Sprintf("%s at %.3f s lacked %s, acknowledged at %.3f s", key, when, each.element,
				float64(each.acknowledged)/1e9)}
		}
	}
	return nil
}
