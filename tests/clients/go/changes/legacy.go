//go:build v6 || v7

package main

// The generation of go-redis without contexts.

func (l *library) set(key string, value int64) error { return l.client.Set(key, value, 0).Err() }

func (l *library) get(key string) (string, error) { return l.client.Get(key).Result() }

func (l *library) incr(key string) (int64, error) { return l.client.Incr(key).Result() }

func (l *library) eval(script, key string) (any, error) {
	return l.client.Eval(script, []string{key}).Result()
}

func (l *library) mset(pairs ...any) error { return l.client.MSet(pairs...).Err() }

func (l *library) mget(keys ...string) ([]any, error) { return l.client.MGet(keys...).Result() }

func (l *library) gets(keys []string) ([]string, error) {
	commands := make([]*stringCmd, len(keys))
	_, err := l.client.Pipelined(func(pipe pipeliner) error {
		for at, key := range keys {
			commands[at] = pipe.Get(key)
		}
		return nil
	})
	return values(commands), err
}

func (l *library) incrTwice(key string) (int64, int64, error) {
	var first, second *intCmd
	_, err := l.client.TxPipelined(func(pipe pipeliner) error {
		first, second = pipe.Incr(key), pipe.Incr(key)
		return nil
	})
	return first.Val(), second.Val(), err
}
