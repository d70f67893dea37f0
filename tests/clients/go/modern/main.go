// The generation of go-redis with contexts, doing a day's work: build with -tags v8 or -tags v9.
// Flushes the database it is given.
package main

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"halcyon.test/clients/check"
)

const goroutines = 20

var ctx = context.Background()

func main() {
	s := check.New(module)
	s.IsServerError = isServerError
	var c Cmdable
	var stats func() *PoolStats
	if s.Cluster {
		client := NewClusterClient(&ClusterOptions{Addrs: []string{s.Addr()}, TLSConfig: s.TLS})
		c, stats = client, client.PoolStats
	} else {
		client := NewClient(&Options{Addr: s.Addr(), TLSConfig: s.TLS})
		c, stats = client, client.PoolStats
	}
	s.Group("connect", func() { connect(s, c) })
	s.Group("strings", func() { stringCommands(s, c) })
	s.Group("keys", func() { keys(s, c) })
	s.Group("lists", func() { lists(s, c) })
	s.Group("hashes", func() { hashes(s, c) })
	s.Group("sets", func() { sets(s, c) })
	s.Group("sorted_sets", func() { sortedSets(s, c) })
	s.Group("pipelines", func() { pipelines(s, c) })
	s.Group("errors", func() { errorReplies(s, c) })
	s.Group("pool", func() { pool(s, c, stats) })
	s.Group("concurrency", func() { concurrency(s, c) })
	if client, ok := c.(*ClusterClient); ok {
		s.Group("topology", func() { topology(s, client) })
	}
	s.Group("server", func() { server(s, c) })
	s.Finish()
}

func sorted(values []string, err error) ([]string, error) {
	sort.Strings(values)
	return values, err
}

func connect(s *check.Suite, c Cmdable) {
	s.Is("PING", "PONG")(c.Ping(ctx).Result())
	s.Is("ECHO", "hällo")(c.Echo(ctx, "hällo").Result())
	s.Is("FLUSHDB", "OK")(c.FlushDB(ctx).Result())
	s.Is("DBSIZE when empty", int64(0))(c.DBSize(ctx).Result())
}

func stringCommands(s *check.Suite, c Cmdable) {
	s.Misses("GET of nothing", Nil)(c.Get(ctx, "s:none").Result())
	s.Is("SET", "OK")(c.Set(ctx, "s:a", "one", 0).Result())
	s.Is("GET", "one")(c.Get(ctx, "s:a").Result())
	s.Is("SETNX on a key", false)(c.SetNX(ctx, "s:a", "two", 0).Result())
	s.Is("SET XX EX", true)(c.SetXX(ctx, "s:a", "three", time.Hour).Result())
	s.Within("TTL", 50*time.Minute, time.Hour)(c.TTL(ctx, "s:a").Result())
	s.Within("PTTL", 50*time.Minute, time.Hour)(c.PTTL(ctx, "s:a").Result())
	s.Is("PERSIST", true)(c.Persist(ctx, "s:a").Result())
	s.Is("PERSIST again", false)(c.Persist(ctx, "s:a").Result())
	s.Is("EXPIRE", true)(c.Expire(ctx, "s:a", 1000*time.Second).Result())
	s.Within("TTL after EXPIRE", 900*time.Second, 1000*time.Second)(c.TTL(ctx, "s:a").Result())
	s.Is("GETSET", "three")(c.GetSet(ctx, "s:a", "four").Result())
	s.Is("APPEND", int64(9))(c.Append(ctx, "s:a", "+five").Result())
	s.Is("STRLEN", int64(9))(c.StrLen(ctx, "s:a").Result())
	s.Is("GETRANGE", "five")(c.GetRange(ctx, "s:a", -4, -1).Result())
	s.Is("SETRANGE", int64(9))(c.SetRange(ctx, "s:a", 4, "-").Result())
	s.Is("GET after SETRANGE", "four-five")(c.Get(ctx, "s:a").Result())
	s.Is("MSET", "OK")(c.MSet(ctx, "{s}1", "v1", "{s}2", "", "{s}3", "v3").Result())
	s.Is("MSETNX", false)(c.MSetNX(ctx, "{s}1", "x", "{s}4", "x").Result())
	s.Is("MGET", []any{"v1", "", nil, "v3"})(c.MGet(ctx, "{s}1", "{s}2", "{s}4", "{s}3").Result())
	s.Is("INCR", int64(1))(c.Incr(ctx, "s:n").Result())
	s.Is("INCRBY", int64(42))(c.IncrBy(ctx, "s:n", 41).Result())
	s.Is("DECRBY", int64(-8))(c.DecrBy(ctx, "s:n", 50).Result())
	s.Is("INCRBYFLOAT", 10.5)(c.IncrByFloat(ctx, "s:f", 10.5).Result())
	s.Is("INCRBYFLOAT down", 10.25)(c.IncrByFloat(ctx, "s:f", -0.25).Result())
	s.Is("SET EX", "OK")(c.Set(ctx, "s:ex", "x", 500*time.Second).Result())
	s.Is("EXPIREAT in the past", true)(c.ExpireAt(ctx, "s:ex", time.Unix(1, 0)).Result())
	s.Misses("GET after EXPIREAT in the past", Nil)(c.Get(ctx, "s:ex").Result())
	s.Is("SET GET", "four-five")(c.SetArgs(ctx, "s:a", "six", redisSetGet()).Result())
	s.Is("GETEX", "six")(c.GetEx(ctx, "s:a", time.Hour).Result())
	s.Within("TTL after GETEX", 50*time.Minute, time.Hour)(c.TTL(ctx, "s:a").Result())
	s.Is("GETDEL", "six")(c.GetDel(ctx, "s:a").Result())
	var binary []byte
	for i := 0; i < 256; i++ {
		binary = append(binary, byte(i))
	}
	binary = append(binary, "\r\n$5\r\n\x00"...)
	s.Is("SET binary", "OK")(c.Set(ctx, "s:\x00\xff\r\n", binary, 0).Result())
	s.Is("GET binary", binary)(c.Get(ctx, "s:\x00\xff\r\n").Bytes())
	s.Is("SET unicode", "OK")(c.Set(ctx, "s:ключ", "値 🚀 ñ", 0).Result())
	s.Is("GET unicode", "値 🚀 ñ")(c.Get(ctx, "s:ключ").Result())
	megabyte := make([]byte, 1<<20)
	for i := range megabyte {
		megabyte[i] = byte(i*31 + i/256)
	}
	s.Is("SET 1 MB", "OK")(c.Set(ctx, "s:big", megabyte, 0).Result())
	s.Is("GET 1 MB", megabyte)(c.Get(ctx, "s:big").Bytes())
	s.Is("STRLEN 1 MB", int64(1<<20))(c.StrLen(ctx, "s:big").Result())
}

func keys(s *check.Suite, c Cmdable) {
	c.FlushDB(ctx)
	s.Is("MSET for keys", "OK")(c.MSet(ctx, "{k}a", 1, "{k}b", 2).Result())
	s.Is("EXISTS", int64(3))(c.Exists(ctx, "{k}a", "{k}b", "{k}a", "{k}c").Result())
	s.Is("TYPE string", "string")(c.Type(ctx, "{k}a").Result())
	s.Is("TYPE of nothing", "none")(c.Type(ctx, "{k}c").Result())
	s.Is("RENAME", "OK")(c.Rename(ctx, "{k}a", "{k}c").Result())
	s.Is("GET renamed", "1")(c.Get(ctx, "{k}c").Result())
	s.Is("RENAMENX onto a key", false)(c.RenameNX(ctx, "{k}c", "{k}b").Result())
	s.Fails("RENAME of nothing", "no such key")(c.Rename(ctx, "{k}a", "{k}d").Result())
	s.Is("DEL", int64(2))(c.Del(ctx, "{k}b", "{k}c", "{k}nope").Result())
	s.Is("UNLINK of nothing", int64(0))(c.Unlink(ctx, "{k}b").Result())
	for _, encoded := range [][2]string{{"12345", "int"}, {"short", "embstr"}, {strings.Repeat("x", 100), "raw"}} {
		c.Set(ctx, "k:enc", encoded[0], 0)
		s.Is("OBJECT ENCODING "+encoded[1], encoded[1])(c.ObjectEncoding(ctx, "k:enc").Result())
	}
	c.FlushDB(ctx)
	want := map[string]bool{}
	for i := 0; i < 1000; i++ {
		key := fmt.Sprintf("scan:%d", i)
		want[key] = true
		c.Set(ctx, key, "v", 0)
	}
	c.SAdd(ctx, "other", "x")
	found, cursor := map[string]bool{}, uint64(0)
	for {
		page, next, err := c.Scan(ctx, cursor, "scan:*", 100).Result()
		for _, key := range page {
			found[key] = true
		}
		if cursor = next; cursor == 0 || err != nil {
			break
		}
	}
	s.True("SCAN finds each key", reflect.DeepEqual(found, want))
	s.Is("KEYS", 11)(count(c.Keys(ctx, "scan:99*").Result()))
	s.Is("DBSIZE", int64(1001))(c.DBSize(ctx).Result())
}

func count(values []string, err error) (int, error) { return len(values), err }

func lists(s *check.Suite, c Cmdable) {
	s.Is("RPUSH", int64(4))(c.RPush(ctx, "{l}a", "a", "b", "c", "d").Result())
	s.Is("LPUSH", int64(6))(c.LPush(ctx, "{l}a", "y", "z").Result())
	s.Is("LRANGE", []string{"z", "y", "a", "b", "c", "d"})(c.LRange(ctx, "{l}a", 0, -1).Result())
	s.Is("LLEN", int64(6))(c.LLen(ctx, "{l}a").Result())
	s.Is("LINDEX", "c")(c.LIndex(ctx, "{l}a", -2).Result())
	s.Is("LSET", "OK")(c.LSet(ctx, "{l}a", 1, "Y").Result())
	s.Is("LINSERT", int64(7))(c.LInsertBefore(ctx, "{l}a", "a", "new").Result())
	s.Is("LREM", int64(1))(c.LRem(ctx, "{l}a", 1, "new").Result())
	s.Is("LPOP", "z")(c.LPop(ctx, "{l}a").Result())
	s.Is("RPOP", "d")(c.RPop(ctx, "{l}a").Result())
	s.Is("RPOPLPUSH", "c")(c.RPopLPush(ctx, "{l}a", "{l}b").Result())
	s.Is("LRANGE left", []string{"Y", "a", "b"})(c.LRange(ctx, "{l}a", 0, -1).Result())
	s.Misses("LPOP of nothing", Nil)(c.LPop(ctx, "l:none").Result())
	s.Is("LMOVE", "Y")(c.LMove(ctx, "{l}a", "{l}b", "LEFT", "RIGHT").Result())
	s.Is("LRANGE moved", []string{"c", "Y"})(c.LRange(ctx, "{l}b", 0, -1).Result())
	s.Is("LPOP 2", []string{"a", "b"})(c.LPopCount(ctx, "{l}a", 2).Result())
	var values []any
	var want []string
	for i := 0; i < 1000; i++ {
		values = append(values, i)
		want = append(want, strconv.Itoa(i))
	}
	s.Is("RPUSH 1,000", int64(1000))(c.RPush(ctx, "l:long", values...).Result())
	s.Is("LTRIM", "OK")(c.LTrim(ctx, "l:long", 100, -101).Result())
	s.Is("LRANGE long", want[100:900])(c.LRange(ctx, "l:long", 0, -1).Result())
}

func hashes(s *check.Suite, c Cmdable) {
	fields := map[string]any{}
	for i := 0; i < 1000; i++ {
		fields[fmt.Sprintf("field:%d", i)] = fmt.Sprintf("value %d", i)
	}
	want := map[string]string{}
	for field, value := range fields {
		want[field] = value.(string)
	}
	s.True("HMSET 1,000", c.HMSet(ctx, "h:big", fields).Err() == nil)
	s.Is("HGETALL 1,000", want)(c.HGetAll(ctx, "h:big").Result())
	found, field := map[string]string{}, ""
	scan := c.HScan(ctx, "h:big", 0, "", 50).Iterator()
	for i := 0; scan.Next(ctx); i++ {
		if i%2 == 0 {
			field = scan.Val()
		} else {
			found[field] = scan.Val()
		}
	}
	s.Is("HSCAN", want)(found, scan.Err())
	s.Is("HSET", int64(1))(c.HSet(ctx, "h", "a", 1).Result())
	s.Is("HSET again", int64(0))(c.HSet(ctx, "h", "a", 2).Result())
	s.True("HMSET", c.HMSet(ctx, "h", map[string]any{"b": "two", "c": ""}).Err() == nil)
	s.Is("HSETNX", false)(c.HSetNX(ctx, "h", "a", 9).Result())
	s.Is("HGET", "2")(c.HGet(ctx, "h", "a").Result())
	s.Misses("HGET of nothing", Nil)(c.HGet(ctx, "h", "x").Result())
	s.Is("HGETALL", map[string]string{"a": "2", "b": "two", "c": ""})(c.HGetAll(ctx, "h").Result())
	s.Is("HGETALL of nothing", map[string]string{})(c.HGetAll(ctx, "h:none").Result())
	s.Is("HMGET", []any{"", nil, "two"})(c.HMGet(ctx, "h", "c", "x", "b").Result())
	s.Is("HINCRBY", int64(42))(c.HIncrBy(ctx, "h", "a", 40).Result())
	s.Is("HINCRBYFLOAT", 1.5)(c.HIncrByFloat(ctx, "h", "f", 1.5).Result())
	s.Is("HLEN", int64(4))(c.HLen(ctx, "h").Result())
	s.Is("HEXISTS", true)(c.HExists(ctx, "h", "f").Result())
	s.Is("HKEYS", []string{"a", "b", "c", "f"})(sorted(c.HKeys(ctx, "h").Result()))
	s.Is("HVALS", []string{"", "1.5", "42", "two"})(sorted(c.HVals(ctx, "h").Result()))
	s.Is("HDEL", int64(2))(c.HDel(ctx, "h", "a", "f", "nope").Result())
	s.Is("OBJECT ENCODING hash", "hashtable")(c.ObjectEncoding(ctx, "h:big").Result())
}

func sets(s *check.Suite, c Cmdable) {
	s.Is("SADD", int64(4))(c.SAdd(ctx, "{t}a", "a", "b", "c", "d", "a").Result())
	s.Is("SADD again", int64(3))(c.SAdd(ctx, "{t}b", "c", "d", "e").Result())
	s.Is("SMEMBERS", []string{"a", "b", "c", "d"})(sorted(c.SMembers(ctx, "{t}a").Result()))
	s.Is("SCARD", int64(4))(c.SCard(ctx, "{t}a").Result())
	s.Is("SISMEMBER", true)(c.SIsMember(ctx, "{t}a", "a").Result())
	s.Is("SISMEMBER of nothing", false)(c.SIsMember(ctx, "{t}a", "z").Result())
	s.Is("SMISMEMBER", []bool{true, false})(c.SMIsMember(ctx, "{t}a", "a", "z").Result())
	s.Is("SINTER", []string{"c", "d"})(sorted(c.SInter(ctx, "{t}a", "{t}b").Result()))
	s.Is("SUNION", []string{"a", "b", "c", "d", "e"})(sorted(c.SUnion(ctx, "{t}a", "{t}b").Result()))
	s.Is("SDIFF", []string{"a", "b"})(sorted(c.SDiff(ctx, "{t}a", "{t}b").Result()))
	s.Is("SINTERSTORE", int64(2))(c.SInterStore(ctx, "{t}i", "{t}a", "{t}b").Result())
	s.Is("SUNIONSTORE", int64(5))(c.SUnionStore(ctx, "{t}u", "{t}a", "{t}b").Result())
	s.Is("SDIFFSTORE", int64(2))(c.SDiffStore(ctx, "{t}d", "{t}a", "{t}b").Result())
	s.Is("SMEMBERS stored", []string{"a", "b"})(sorted(c.SMembers(ctx, "{t}d").Result()))
	s.Is("SMOVE", true)(c.SMove(ctx, "{t}a", "{t}b", "a").Result())
	s.Is("SREM", int64(1))(c.SRem(ctx, "{t}b", "a", "zzz").Result())
	var members []any
	all := map[string]bool{}
	for i := 0; i < 1000; i++ {
		member := fmt.Sprintf("m%d", i)
		members = append(members, member)
		all[member] = true
	}
	s.Is("SADD 1,000", int64(1000))(c.SAdd(ctx, "t:big", members...).Result())
	found := map[string]bool{}
	scan := c.SScan(ctx, "t:big", 0, "", 50).Iterator()
	for scan.Next(ctx) {
		found[scan.Val()] = true
	}
	s.Is("SSCAN", all)(found, scan.Err())
	some, err := c.SRandMemberN(ctx, "t:big", 20).Result()
	s.Is("SRANDMEMBER 20", 20)(distinct(some, all), err)
	same, err := c.SRandMemberN(ctx, "t:big", -20).Result()
	s.Is("SRANDMEMBER -20", 20)(len(same), err)
	taken, err := c.SPopN(ctx, "t:big", 300).Result()
	s.Is("SPOP 300", 300)(distinct(taken, all), err)
	rest, err := c.SMembers(ctx, "t:big").Result()
	for _, member := range taken {
		delete(all, member)
	}
	s.Is("SPOP leaves the rest", 700)(distinct(rest, all), err)
	one, err := c.SPop(ctx, "t:big").Result()
	s.Is("SPOP", true)(all[one], err)
	s.Is("SADD integers", int64(3))(c.SAdd(ctx, "t:int", 1, 2, 3).Result())
	s.Is("OBJECT ENCODING intset", "intset")(c.ObjectEncoding(ctx, "t:int").Result())
}

// distinct counts the different values that are in all.
func distinct(values []string, all map[string]bool) int {
	seen := map[string]bool{}
	for _, value := range values {
		if all[value] {
			seen[value] = true
		}
	}
	return len(seen)
}

func sortedSets(s *check.Suite, c Cmdable) {
	s.Is("ZADD", int64(4))(zAdd(c, "{z}a", Z{Score: 1, Member: "a"}, Z{Score: 2.5, Member: "b"}, Z{Score: 3, Member: "c"}, Z{Score: math.Inf(1), Member: "d"}).Result())
	s.Is("ZADD NX on a member", int64(0))(zAddNX(c, "{z}a", Z{Score: 9, Member: "a"}).Result())
	s.Is("ZADD NX", int64(1))(zAddNX(c, "{z}a", Z{Score: -1, Member: "e"}).Result())
	s.Is("ZSCORE", 2.5)(c.ZScore(ctx, "{z}a", "b").Result())
	s.Is("ZSCORE of inf", math.Inf(1))(c.ZScore(ctx, "{z}a", "d").Result())
	s.Misses("ZSCORE of nothing", Nil)(c.ZScore(ctx, "{z}a", "nope").Result())
	s.Is("ZMSCORE", []float64{2.5, 3})(c.ZMScore(ctx, "{z}a", "b", "c").Result())
	s.Is("ZINCRBY", 4.25)(c.ZIncrBy(ctx, "{z}a", 1.25, "c").Result())
	s.Is("ZRANGE", []string{"e", "a", "b", "c", "d"})(c.ZRange(ctx, "{z}a", 0, -1).Result())
	s.Is("ZRANGE WITHSCORES", []Z{{Score: -1, Member: "e"}, {Score: 1, Member: "a"}, {Score: 2.5, Member: "b"}})(c.ZRangeWithScores(ctx, "{z}a", 0, 2).Result())
	s.Is("ZREVRANGE", []string{"d", "c"})(c.ZRevRange(ctx, "{z}a", 0, 1).Result())
	s.Is("ZRANGEBYSCORE", []string{"b", "c", "d"})(c.ZRangeByScore(ctx, "{z}a", byRange("(1", "+inf", 0, 0)).Result())
	s.Is("ZRANGEBYSCORE LIMIT WITHSCORES", []Z{{Score: 1, Member: "a"}, {Score: 2.5, Member: "b"}})(c.ZRangeByScoreWithScores(ctx, "{z}a", byRange("-inf", "5", 1, 2)).Result())
	s.Is("ZCOUNT", int64(2))(c.ZCount(ctx, "{z}a", "1", "(4.25").Result())
	s.Is("ZRANK", int64(1))(c.ZRank(ctx, "{z}a", "a").Result())
	s.Is("ZREVRANK", int64(3))(c.ZRevRank(ctx, "{z}a", "a").Result())
	s.Misses("ZRANK of nothing", Nil)(c.ZRank(ctx, "{z}a", "nope").Result())
	s.Is("ZCARD", int64(5))(c.ZCard(ctx, "{z}a").Result())
	for _, member := range "abcdef" {
		zAdd(c, "z:lex", Z{Member: string(member)})
	}
	s.Is("ZRANGEBYLEX", []string{"c", "d", "e"})(c.ZRangeByLex(ctx, "z:lex", byRange("(b", "[e", 0, 0)).Result())
	s.Is("ZREVRANGEBYLEX", []string{"f", "e"})(c.ZRevRangeByLex(ctx, "z:lex", byRange("[e", "+", 0, 0)).Result())
	s.Is("ZLEXCOUNT", int64(2))(c.ZLexCount(ctx, "z:lex", "-", "(c").Result())
	s.Is("ZREMRANGEBYLEX", int64(2))(c.ZRemRangeByLex(ctx, "z:lex", "[a", "[b").Result())
	zAdd(c, "{z}b", Z{Score: 10, Member: "b"}, Z{Score: 20, Member: "q"})
	s.Is("ZUNIONSTORE", int64(6))(zUnionStore(c, "{z}u", []string{"{z}b", "{z}a"}, []float64{2, 1}, "MAX").Result())
	s.Is("ZUNIONSTORE scores", []Z{{Score: 20, Member: "b"}, {Score: 40, Member: "q"}, {Score: math.Inf(1), Member: "d"}})(c.ZRangeWithScores(ctx, "{z}u", 3, -1).Result())
	s.Is("ZPOPMIN", []Z{{Score: -1, Member: "e"}})(c.ZPopMin(ctx, "{z}a").Result())
	s.Is("ZPOPMAX 2", []Z{{Score: math.Inf(1), Member: "d"}, {Score: 4.25, Member: "c"}})(c.ZPopMax(ctx, "{z}a", 2).Result())
	s.Is("ZREM", int64(1))(c.ZRem(ctx, "{z}a", "a", "nope").Result())
	s.Is("ZREMRANGEBYSCORE", int64(1))(c.ZRemRangeByScore(ctx, "{z}a", "-inf", "+inf").Result())
	s.Is("EXISTS once empty", int64(0))(c.Exists(ctx, "{z}a").Result())
	var members []Z
	want := map[string]string{}
	for i := 0; i < 1000; i++ {
		members = append(members, Z{Score: float64(i) / 4, Member: fmt.Sprintf("m%d", i)})
		want[fmt.Sprintf("m%d", i)] = strconv.FormatFloat(float64(i)/4, 'f', -1, 64)
	}
	s.Is("ZADD 1,000", int64(1000))(zAdd(c, "z:big", members...).Result())
	found, member := map[string]string{}, ""
	scan := c.ZScan(ctx, "z:big", 0, "", 50).Iterator()
	for i := 0; scan.Next(ctx); i++ {
		if i%2 == 0 {
			member = scan.Val()
		} else {
			found[member] = scan.Val()
		}
	}
	s.Is("ZSCAN", want)(found, scan.Err())
	s.Is("ZRANGE 1,000", members)(c.ZRangeWithScores(ctx, "z:big", 0, -1).Result())
	s.Is("ZREMRANGEBYRANK", int64(990))(c.ZRemRangeByRank(ctx, "z:big", 10, -1).Result())
}

func pipelines(s *check.Suite, c Cmdable) {
	var sets []*StatusCmd
	var sums []*IntCmd
	_, err := c.Pipelined(ctx, func(pipe Pipeliner) error {
		for i := 0; i < 250; i++ {
			sets = append(sets, pipe.Set(ctx, fmt.Sprintf("p:%d", i), fmt.Sprintf("value %d", i), 0))
			sums = append(sums, pipe.IncrBy(ctx, fmt.Sprintf("p:n:%d", i%10), int64(i)))
		}
		return nil
	})
	s.True("pipeline of 500", err == nil)
	good, want := 0, make([]int64, 10)
	for i := range sets {
		want[i%10] += int64(i)
		if sets[i].Val() == "OK" && sums[i].Val() == want[i%10] {
			good++
		}
	}
	s.Equal("replies of the pipeline of 500", good, 250)
	var gets []*StringCmd
	_, err = c.Pipelined(ctx, func(pipe Pipeliner) error {
		for i := 0; i < 500; i++ {
			gets = append(gets, pipe.Get(ctx, fmt.Sprintf("p:%d", i)))
		}
		return nil
	})
	s.True("pipeline of 500 GET reports the missing ones", err == Nil)
	good = 0
	for i, get := range gets {
		if i < 250 && get.Val() == fmt.Sprintf("value %d", i) && get.Err() == nil || i >= 250 && get.Err() == Nil {
			good++
		}
	}
	s.Equal("GET of a pipeline of 500", good, 500)
	var push *IntCmd
	var get *StringCmd
	c.Pipelined(ctx, func(pipe Pipeliner) error {
		pipe.Set(ctx, "p:e", "x", 0)
		push, get = pipe.LPush(ctx, "p:e", "y"), pipe.Get(ctx, "p:e")
		return nil
	})
	s.Fails("error in a pipeline", "WRONGTYPE")(push.Result())
	s.Is("pipeline goes on after an error", "x")(get.Result())
}

func errorReplies(s *check.Suite, c Cmdable) {
	const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
	c.Set(ctx, "e", "text", 0)
	s.Fails("LPUSH on a string", wrongType)(c.LPush(ctx, "e", "x").Result())
	s.Fails("HGET on a string", wrongType)(c.HGet(ctx, "e", "f").Result())
	s.Fails("INCR of text", "ERR value is not an integer or out of range")(c.Incr(ctx, "e").Result())
	s.Fails("LSET of nothing", "ERR no such key")(c.LSet(ctx, "e:none", 1, "x").Result())
	s.Fails("GETRANGE on a list", wrongType)(func() (any, error) {
		c.RPush(ctx, "e:l", "x")
		return c.GetRange(ctx, "e:l", 0, 1).Result()
	}())
	s.Is("GET after the errors", "text")(c.Get(ctx, "e").Result())
}

func pool(s *check.Suite, c Cmdable, stats func() *PoolStats) {
	before := stats()
	for i := 0; i < 200; i++ {
		c.Set(ctx, "pool", i, 0)
	}
	after := stats()
	s.Is("GET after 200 commands", "199")(c.Get(ctx, "pool").Result())
	s.Equal("connections opened by 200 commands in a row", after.Misses-before.Misses, uint32(0))
	s.True("pool hits", after.Hits-before.Hits >= 200)
	if !s.Cluster {
		other := NewClient(&Options{Addr: s.Addr(), TLSConfig: s.TLS, DB: 3, PoolSize: 1})
		defer other.Close()
		first, err := clientID(other)
		s.True("CLIENT ID", err == nil && first > 0)
		s.Is("CLIENT ID of one pooled connection", first)(clientID(other))
		s.Is("SET in database 3", "OK")(other.Set(ctx, "d", "x", 0).Result())
		s.Misses("GET in database 0", Nil)(c.Get(ctx, "d").Result())
		s.Is("DEL in database 3", int64(1))(other.Del(ctx, "d").Result())
	}
}

func concurrency(s *check.Suite, c Cmdable) {
	good := make([]int, goroutines)
	var running sync.WaitGroup
	for g := 0; g < goroutines; g++ {
		running.Add(1)
		go func(g int) {
			defer running.Done()
			for i := 0; i < 100; i++ {
				key, value := fmt.Sprintf("c:%d:%d", g, i), fmt.Sprintf("%d/%d", g, i)
				set := c.Set(ctx, key, value, 0).Err()
				got, err := c.Get(ctx, key).Result()
				incr := c.Incr(ctx, "c:total").Err()
				if set == nil && err == nil && incr == nil && got == value {
					good[g]++
				}
			}
		}(g)
	}
	running.Wait()
	for g := range good {
		s.Equal(fmt.Sprintf("replies seen by goroutine %d", g), good[g], 100)
	}
	s.Is("INCR from all goroutines", strconv.Itoa(goroutines*100))(c.Get(ctx, "c:total").Result())
}

func server(s *check.Suite, c Cmdable) {
	info, err := c.Info(ctx, "server").Result()
	mode := "standalone"
	if s.Cluster {
		mode = "cluster"
	}
	if s.TLS == nil { // It tells the plain port, if there is one.
		s.Is("INFO tcp_port", true)(strings.Contains(info, fmt.Sprintf("\r\ntcp_port:%d\r\n", s.Port)), err)
	}
	s.Is("INFO redis_mode", true)(strings.Contains(info, "\r\nredis_mode:"+mode+"\r\n"), err)
	s.Is("CONFIG GET", true)(configPort(c, s.PortDirective(), s.Port))
	node := NewClient(&Options{Addr: s.Addr(), TLSConfig: s.TLS, PoolSize: 1})
	defer node.Close()
	commands, err := node.Command(ctx).Result()
	s.True(fmt.Sprintf("COMMAND: %v", err), err == nil && len(commands) > 100)
	if get := commands["get"]; get != nil {
		s.Equal("COMMAND get", fmt.Sprint(get.Arity, get.FirstKeyPos, get.LastKeyPos, get.StepCount, get.ReadOnly), "2 1 1 1 true")
	} else {
		s.True("COMMAND has get", false)
	}
	name, listed, err := nameConnection(node, "halcyon-test")
	s.Is("CLIENT GETNAME", "halcyon-test")(name, err)
	s.Is("CLIENT LIST", 1)(listed, err)
	now, err := node.Time(ctx).Result()
	s.Is("TIME", true)(now.Unix() > 1_600_000_000, err)
	s.Is("SET before FLUSHDB", "OK")(c.Set(ctx, "server", 1, 0).Result())
	size, err := c.DBSize(ctx).Result()
	s.Is("DBSIZE with data", true)(size > 0, err)
	s.Is("FLUSHDB", "OK")(c.FlushDB(ctx).Result())
	s.Is("DBSIZE after FLUSHDB", int64(0))(c.DBSize(ctx).Result())
}

func topology(s *check.Suite, c *ClusterClient) {
	slots, err := c.ClusterSlots(ctx).Result()
	s.Is("CLUSTER SLOTS", 1)(len(slots), err)
	if len(slots) == 1 {
		s.Equal("CLUSTER SLOTS range", fmt.Sprint(slots[0].Start, "-", slots[0].End), "0-16383")
		s.Equal("CLUSTER SLOTS nodes", len(slots[0].Nodes), 1)
		address := slots[0].Nodes[0].Addr
		s.Equal("CLUSTER SLOTS port", address[strings.LastIndex(address, ":")+1:], strconv.Itoa(s.Port))
	}
	primaries := 0
	err = eachPrimary(c, func(node *Client) error {
		primaries++
		return node.Ping(ctx).Err()
	})
	s.Is("primaries", 1)(primaries, err)
	s.Is("CLUSTER KEYSLOT", int64(3443))(c.ClusterKeySlot(ctx, "{user1000}.following").Result())
	info, err := c.ClusterInfo(ctx).Result()
	s.Is("CLUSTER INFO", true)(strings.Contains(info, "cluster_state:ok\r\n"), err)
	nodes, err := c.ClusterNodes(ctx).Result()
	s.Is("CLUSTER NODES", true)(strings.Contains(nodes, "myself,master") && strings.Contains(nodes, " 0-16383\n"), err)
	s.Is("SET with a hash tag", "OK")(c.Set(ctx, "{user1000}.x", 1, 0).Result())
	s.Is("CLUSTER COUNTKEYSINSLOT", int64(1))(c.ClusterCountKeysInSlot(ctx, 3443).Result())
	s.Is("CLUSTER GETKEYSINSLOT", []string{"{user1000}.x"})(c.ClusterGetKeysInSlot(ctx, 3443, 10).Result())
	s.Fails("MGET over slots", "CROSSSLOT Keys in request don't hash to the same slot")(c.MGet(ctx, "a", "b").Result())
	s.True("reload of the topology", reload(c) == nil)
	s.Is("GET after the reload", "1")(c.Get(ctx, "{user1000}.x").Result())
}

// nameConnection uses a pipeline, which keeps to one connection: the name belongs to that.
func nameConnection(node *Client, name string) (got string, listed int, err error) {
	var names, list *StringCmd
	_, err = node.Pipelined(ctx, func(pipe Pipeliner) error {
		pipe.ClientSetName(ctx, name)
		names, list = pipe.ClientGetName(ctx), pipe.ClientList(ctx)
		return nil
	})
	return names.Val(), strings.Count(list.Val(), " name="+name+" "), err
}

func clientID(node *Client) (int64, error) { return node.ClientID(ctx).Result() }

func eachPrimary(c *ClusterClient, visit func(*Client) error) error {
	return c.ForEachMaster(ctx, func(_ context.Context, node *Client) error { return visit(node) })
}

func reload(c *ClusterClient) error {
	c.ReloadState(ctx)
	return nil
}
