//go:build v9

// What differs between the versions of this generation.

package main

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

const module = "github.com/redis/go-redis/v9"

type (
	Client         = redis.Client
	ClusterClient  = redis.ClusterClient
	ClusterOptions = redis.ClusterOptions
	Cmdable        = redis.Cmdable
	IntCmd         = redis.IntCmd
	Options        = redis.Options
	Pipeliner      = redis.Pipeliner
	PoolStats      = redis.PoolStats
	StatusCmd      = redis.StatusCmd
	StringCmd      = redis.StringCmd
	Z              = redis.Z
)

const Nil = redis.Nil

var (
	NewClient        = redis.NewClient
	NewClusterClient = redis.NewClusterClient
)

func isServerError(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func zAdd(c Cmdable, key string, members ...Z) *IntCmd { return c.ZAdd(ctx, key, members...) }

func zAddNX(c Cmdable, key string, member Z) *IntCmd { return c.ZAddNX(ctx, key, member) }

func zUnionStore(c Cmdable, to string, keys []string, weights []float64, aggregate string) *IntCmd {
	return c.ZUnionStore(ctx, to, &redis.ZStore{Keys: keys, Weights: weights, Aggregate: aggregate})
}

func byRange(least, most string, offset, count int64) *redis.ZRangeBy {
	return &redis.ZRangeBy{Min: least, Max: most, Offset: offset, Count: count}
}

// configPort reports whether CONFIG GET of the directive answers with the port.
func configPort(c Cmdable, directive string, port int) (bool, error) {
	config, err := c.ConfigGet(ctx, directive).Result()
	return len(config) == 1 && config[directive] == fmt.Sprint(port), err
}

func redisSetGet() redis.SetArgs { return redis.SetArgs{Get: true} }
