//go:build v8 || v9

package main

import "context"

// The generation of go-redis with contexts.

var ctx = context.Background()

func (l *library) set(key string, value int64) error { return l.client.Set(ctx, key, value, 0).Err() }

func (l *library) get(key string) (string, error) { return l.client.Get(ctx, key).Result() }

func (l *library) incr(key string) (int64, error) { return l.client.Incr(ctx, key).Result() }

func (l *library) eval(script, key string) (any, error) {
	return l.client.Eval(ctx, script, []string{key}).Result()
}

func (l *library) mset(pairs ...any) error { return l.client.MSet(ctx, pairs...).Err() }

func (l *library) mget(keys ...string) ([]any, error) { return l.client.MGet(ctx, keys...).Result() }

func (l *library) gets(keys []string) ([]string, error) {
	commands := make([]*stringCmd, len(keys))
	_, err := l.client.Pipelined(ctx, func(pipe pipeliner) error {
		for at, key := range keys {
			commands[at] = pipe.Get(ctx, key)
		}
		return nil
	})
	return values(commands), err
}

func (l *library) incrTwice(key string) (int64, int64, error) {
	var first, second *intCmd
	_, err := l.client.TxPipelined(ctx, func(pipe pipeliner) error {
		first, second = pipe.Incr(ctx, key), pipe.Incr(ctx, key)
		return nil
	})
	return first.Val(), second.Val(), err
}
