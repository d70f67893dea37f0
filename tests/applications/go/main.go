// asynq: a task queue whose every step is a Lua script.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

func must(err error) {
	if err != nil {
		log.Fatal("asynq: ", err)
	}
}

func until(what string, reached func() bool) {
	for deadline := time.Now().Add(30 * time.Second); !reached(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			log.Fatal("asynq: not in time: ", what)
		}
	}
	fmt.Println("asynq:", what)
}

func main() {
	redis := asynq.RedisClientOpt{Addr: "127.0.0.1:" + os.Getenv("PORT"), DB: 2}
	client := asynq.NewClient(redis)
	inspector := asynq.NewInspector(redis)
	var plain, retried, scheduled, grouped atomic.Int64

	mux := asynq.NewServeMux()
	mux.HandleFunc("plain", func(context.Context, *asynq.Task) error { plain.Add(1); return nil })
	mux.HandleFunc("flaky", func(context.Context, *asynq.Task) error {
		if retried.Add(1) < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	mux.HandleFunc("doomed", func(context.Context, *asynq.Task) error { return asynq.SkipRetry })
	mux.HandleFunc("scheduled", func(context.Context, *asynq.Task) error { scheduled.Add(1); return nil })
	mux.HandleFunc("batch", func(_ context.Context, task *asynq.Task) error {
		grouped.Add(int64(len(task.Payload())))
		return nil
	})
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency:              4,
		Queues:                   map[string]int{"high": 3, "default": 1},
		LogLevel:                 asynq.ErrorLevel,
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		TaskCheckInterval:        50 * time.Millisecond,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 50 * time.Millisecond },
		GroupGracePeriod:         time.Second,
		GroupAggregator: asynq.GroupAggregatorFunc(func(_ string, tasks []*asynq.Task) *asynq.Task {
			return asynq.NewTask("batch", make([]byte, len(tasks)))
		}),
	})
	must(server.Start(mux))

	for n := 0; n < 200; n++ {
		queue := []string{"high", "default"}[n%2]
		_, err := client.Enqueue(asynq.NewTask("plain", nil), asynq.Queue(queue))
		must(err)
	}
	until("200 tasks on two queues", func() bool { return plain.Load() == 200 })

	_, err := client.Enqueue(asynq.NewTask("flaky", nil), asynq.MaxRetry(5))
	must(err)
	until("a task that is tried again", func() bool { return retried.Load() == 3 })

	_, err = client.Enqueue(asynq.NewTask("scheduled", nil), asynq.ProcessIn(500*time.Millisecond))
	must(err)
	until("a task for later", func() bool { return scheduled.Load() == 1 })

	_, err = client.Enqueue(asynq.NewTask("plain", nil), asynq.TaskID("only"), asynq.ProcessIn(time.Hour))
	must(err)
	if _, err = client.Enqueue(asynq.NewTask("plain", nil), asynq.TaskID("only")); !errors.Is(err, asynq.ErrTaskIDConflict) {
		log.Fatal("asynq: a second task of one id: ", err)
	}
	_, err = client.Enqueue(asynq.NewTask("plain", []byte("u")), asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour))
	must(err)
	if _, err = client.Enqueue(asynq.NewTask("plain", []byte("u")), asynq.Unique(time.Hour)); !errors.Is(err, asynq.ErrDuplicateTask) {
		log.Fatal("asynq: a second task that shall be unique: ", err)
	}
	must(inspector.DeleteTask("default", "only"))
	fmt.Println("asynq: tasks that are unique")

	_, err = client.Enqueue(asynq.NewTask("doomed", nil))
	must(err)
	until("a task that is given up", func() bool {
		archived, err := inspector.ListArchivedTasks("default")
		return err == nil && len(archived) == 1
	})

	for n := 0; n < 7; n++ {
		_, err = client.Enqueue(asynq.NewTask("part", nil), asynq.Group("g"))
		must(err)
	}
	until("tasks that are grouped", func() bool { return grouped.Load() == 7 })

	info, err := inspector.GetQueueInfo("high")
	must(err)
	if info.Processed != 100 || info.Failed != 0 {
		log.Fatalf("asynq: the queue has %d processed, %d failed", info.Processed, info.Failed)
	}
	fmt.Println("asynq: what the inspector counts")
	server.Shutdown()
	must(client.Close())
}
