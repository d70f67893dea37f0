/* A C program on libhiredis doing a day's work against the server at 127.0.0.1:--port.
 * hiredis has no cluster client: with --cluster this reads COMMAND and CLUSTER SLOTS the way cluster clients
 * built on it do. Flushes the database it is given. */

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 12, MEGABYTE = 1 << 20 };
static const char *const host = "127.0.0.1";
static const char *const wrong_type = "WRONGTYPE Operation against a key holding the wrong kind of value";

static int port, in_cluster, passed, failed, group_passed, group_failed;
static redisContext *context;

static void holds(int condition, const char *what) {
    if (condition) {
        passed++;
    } else {
        failed++;
        printf("  FAIL %s (%s)\n", what, context && context->err ? context->errstr : "connection is well");
    }
}

static void end_group(const char *name) {
    printf("%s: %d passed, %d failed\n", name, passed - group_passed, failed - group_failed);
    group_passed = passed;
    group_failed = failed;
}

/* Writes a reply as text: integers as :1, nil as (nil), errors as -text, arrays as [a b]. */
static size_t show(const redisReply *reply, char *out, size_t room) {
    size_t used = 0;
    if (room < 64) return 0;
    if (!reply) return (size_t)snprintf(out, room, "(no reply)");
    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        return (size_t)snprintf(out, room, ":%lld", reply->integer);
    case REDIS_REPLY_NIL:
        return (size_t)snprintf(out, room, "(nil)");
    case REDIS_REPLY_ARRAY:
        out[used++] = '[';
        for (size_t i = 0; i < reply->elements; i++) {
            if (i) out[used++] = ' ';
            used += show(reply->element[i], out + used, room - used);
            if (room - used < 64) break;
        }
        out[used++] = ']';
        out[used] = 0;
        return used;
    default:
        used = (size_t)snprintf(out, room, "%s%.*s", reply->type == REDIS_REPLY_ERROR ? "-" : "",
                                (int)(reply->len < 200 ? reply->len : 200), reply->str);
        return used < room ? used : room - 1;
    }
}

static void check_reply(redisReply *reply, const char *want, const char *what) {
    static char got[1 << 16], message[1024];
    show(reply, got, sizeof got);
    snprintf(message, sizeof message, "%s: got %.300s, want %.300s", what, got, want);
    holds(strcmp(got, want) == 0, message);
    if (reply) freeReplyObject(reply);
}

/* Runs a command in hiredis's printf form; its reply, shown, must be `want`. */
static void is(const char *want, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    check_reply(redisvCommand(context, format, arguments), want, format);
    va_end(arguments);
}

static redisReply *command(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(context, format, arguments);
    va_end(arguments);
    if (!reply) {
        printf("  FAIL %s: %s\n", format, context->errstr);
        exit(1);
    }
    return reply;
}

static int by_text(const void *left, const void *right) {
    return strcmp((*(redisReply *const *)left)->str, (*(redisReply *const *)right)->str);
}

/* As `is`, for a reply without an order. */
static void is_set(const char *want, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(context, format, arguments);
    va_end(arguments);
    if (reply && reply->type == REDIS_REPLY_ARRAY) qsort(reply->element, reply->elements, sizeof *reply->element, by_text);
    check_reply(reply, want, format);
}

static void integer_within(long long least, long long most, const char *format) {
    redisReply *reply = command(format);
    holds(reply->type == REDIS_REPLY_INTEGER && reply->integer >= least && reply->integer <= most, format);
    freeReplyObject(reply);
}

static void strings(void) {
    is("(nil)", "GET s:none");
    is("OK", "SET s:a %s", "one");
    is("one", "GET s:a");
    is("(nil)", "SET s:a two NX");
    is("one", "GETSET s:a four");
    is(":9", "APPEND s:a +five");
    is("five", "GETRANGE s:a -4 -1");
    is(":9", "SETRANGE s:a 4 -");
    is("four-five", "GET s:a");
    is("OK", "MSET {s}1 v1 {s}2 %s {s}3 v3", "");
    is("[v1  (nil) v3]", "MGET {s}1 {s}2 {s}4 {s}3");
    is(":1", "INCR s:n");
    is(":42", "INCRBY s:n %d", 41);
    is("10.5", "INCRBYFLOAT s:f 10.5");
    is(":-1", "TTL s:a");
    is(":1", "EXPIRE s:a 1000");
    integer_within(901, 1000, "TTL s:a");
    is(":1", "PERSIST s:a");
    is("OK", "SETEX s:ex 500 x");
    integer_within(400001, 500000, "PTTL s:ex");
    is(":1", "EXPIREAT s:ex 1");
    is("(nil)", "GET s:ex");
    unsigned char binary[262];
    for (size_t i = 0; i < sizeof binary; i++) binary[i] = (unsigned char)i;
    is("OK", "SET %b %b", "s:\0\xff\r\n", (size_t)6, binary, sizeof binary);
    redisReply *reply = command("GET %b", "s:\0\xff\r\n", (size_t)6);
    holds(reply->len == sizeof binary && memcmp(reply->str, binary, sizeof binary) == 0, "GET binary");
    freeReplyObject(reply);
    is("OK", "SET s:ключ %s", "値 🚀 ñ");
    is("値 🚀 ñ", "GET s:ключ");
    unsigned char *megabyte = malloc(MEGABYTE);
    for (size_t i = 0; i < MEGABYTE; i++) megabyte[i] = (unsigned char)(i * 31 + i / 256);
    is("OK", "SET s:big %b", megabyte, (size_t)MEGABYTE);
    reply = command("GET s:big");
    holds(reply->len == MEGABYTE && memcmp(reply->str, megabyte, MEGABYTE) == 0, "GET 1 MB");
    freeReplyObject(reply);
    free(megabyte);
    end_group("strings");
}

/* Walks a SCAN-like command; each of `count` names "prefix<i>" must turn up. `step` is 2 for pairs. */
static void scan_finds(const char *walk, const char *prefix, int count, size_t step) {
    char *seen = calloc((size_t)count, 1), format[128], cursor[32] = "0";
    int found = 0, foreign = 0;
    do {
        snprintf(format, sizeof format, walk, cursor);
        redisReply *page = command(format);
        if (page->type != REDIS_REPLY_ARRAY || page->elements != 2) {
            freeReplyObject(page);
            foreign++;
            break;
        }
        snprintf(cursor, sizeof cursor, "%s", page->element[0]->str);
        redisReply *names = page->element[1];
        for (size_t i = 0; i < names->elements; i += step) {
            const char *name = names->element[i]->str;
            int at = strncmp(name, prefix, strlen(prefix)) == 0 ? atoi(name + strlen(prefix)) : -1;
            if (at < 0 || at >= count) foreign++;
            else if (!seen[at]) seen[at] = 1, found++;
        }
        freeReplyObject(page);
    } while (strcmp(cursor, "0") != 0);
    free(seen);
    holds(found == count && foreign == 0, walk);
}

static void keys(void) {
    is("OK", "FLUSHDB");
    is("OK", "MSET {k}a 1 {k}b 2");
    is(":3", "EXISTS {k}a {k}b {k}a {k}c");
    is("string", "TYPE {k}a");
    is("none", "TYPE {k}c");
    is("OK", "RENAME {k}a {k}c");
    is("-ERR no such key", "RENAME {k}a {k}d");
    is(":2", "DEL {k}b {k}c {k}nope");
    is("OK", "SET k:enc 12345");
    is("int", "OBJECT ENCODING k:enc");
    is("OK", "SET k:enc short");
    is("embstr", "OBJECT ENCODING k:enc");
    is("OK", "FLUSHDB");
    for (int i = 0; i < 1000; i++) freeReplyObject(command("SET scan:%d v", i));
    is(":1", "SADD other x");
    is(":1001", "DBSIZE");
    scan_finds("SCAN %s MATCH scan:* COUNT 100", "scan:", 1000, 1);
    is("[other]", "KEYS oth?r");
    end_group("keys");
}

static void collections(void) {
    is(":4", "RPUSH {l}a a b c d");
    is(":6", "LPUSH {l}a y z");
    is("[z y a b c d]", "LRANGE {l}a 0 -1");
    is("OK", "LSET {l}a 1 Y");
    is(":7", "LINSERT {l}a BEFORE a new");
    is(":1", "LREM {l}a 1 new");
    is("[d c]", "RPOP {l}a 2");
    is("z", "LMOVE {l}a {l}b LEFT RIGHT");
    is("[{l}a [Y a]]", "LMPOP 2 {l}none {l}a LEFT COUNT 2");
    is("(nil)", "LPOP l:none");
    end_group("lists");

    is(":3", "HSET h a 1 b two c %s", "");
    is(":0", "HSET h a 2");
    is("[2 (nil) two]", "HMGET h a x b");
    is(":42", "HINCRBY h a 40");
    is("1.5", "HINCRBYFLOAT h f 1.5");
    is_set("[a b c f]", "HKEYS h");
    is_set("[ 1.5 42 a b c f two]", "HGETALL h");
    is(":2", "HDEL h a f nope");
    for (int i = 0; i < 1000; i++) freeReplyObject(command("HSET h:big field:%d %d", i, i));
    is(":1000", "HLEN h:big");
    scan_finds("HSCAN h:big %s COUNT 50", "field:", 1000, 2);
    is("hashtable", "OBJECT ENCODING h:big");
    end_group("hashes");

    is(":4", "SADD {t}a a b c d a");
    is(":3", "SADD {t}b c d e");
    is_set("[a b c d]", "SMEMBERS {t}a");
    is_set("[c d]", "SINTER {t}a {t}b");
    is_set("[a b c d e]", "SUNION {t}a {t}b");
    is_set("[a b]", "SDIFF {t}a {t}b");
    is(":2", "SINTERSTORE {t}i {t}a {t}b");
    is("[:1 :0]", "SMISMEMBER {t}a a z");
    is(":1", "SMOVE {t}a {t}b a");
    for (int i = 0; i < 1000; i++) freeReplyObject(command("SADD t:big m%d", i));
    scan_finds("SSCAN t:big %s COUNT 50", "m", 1000, 1);
    redisReply *taken = command("SPOP t:big 300");
    holds(taken->type == REDIS_REPLY_ARRAY && taken->elements == 300, "SPOP 300");
    int still_there = 0;
    for (size_t i = 0; i < taken->elements; i++) {
        redisReply *member = command("SISMEMBER t:big %s", taken->element[i]->str);
        still_there += member->integer != 0;
        freeReplyObject(member);
    }
    freeReplyObject(taken);
    holds(still_there == 0, "SPOP removes what it returns");
    is(":700", "SCARD t:big");
    end_group("sets");

    is(":4", "ZADD {z}a 1 a 2.5 b 3 c inf d");
    is(":1", "ZADD {z}a NX 9 a -1 e");
    is(":1", "ZADD {z}a XX GT CH 1.5 a");
    is("2.5", "ZSCORE {z}a b");
    is("inf", "ZSCORE {z}a d");
    is("4.25", "ZINCRBY {z}a 1.25 c");
    is("[e -1 a 1.5 b 2.5]", "ZRANGE {z}a 0 2 WITHSCORES");
    is("[c b]", "ZRANGE {z}a 5 2 BYSCORE REV");
    is("[b c]", "ZRANGEBYSCORE {z}a (1.5 +inf LIMIT 0 2");
    is(":6", "ZADD z:lex 0 a 0 b 0 c 0 d 0 e 0 f");
    is("[c d e]", "ZRANGEBYLEX z:lex (b [e");
    is(":2", "ZADD {z}b 10 b 20 q");
    is(":6", "ZUNIONSTORE {z}u 2 {z}b {z}a WEIGHTS 2 1 AGGREGATE MAX");
    is("[20 40 (nil)]", "ZMSCORE {z}u b q x");
    is("[e -1]", "ZPOPMIN {z}a");
    for (int i = 0; i < 1000; i++) freeReplyObject(command("ZADD z:big %d m%d", i, i));
    scan_finds("ZSCAN z:big %s COUNT 50", "m", 1000, 2);
    is(":990", "ZREMRANGEBYRANK z:big 10 -1");
    end_group("sorted_sets");
}

static void pipelines(void) {
    for (int i = 0; i < 250; i++) {
        redisAppendCommand(context, "SET p:%d value:%d", i, i);
        redisAppendCommand(context, "INCRBY p:n %d", i);
    }
    int good = 0;
    long long sum = 0;
    for (int i = 0; i < 500; i++) {
        void *any = NULL;
        if (redisGetReply(context, &any) != REDIS_OK) break;
        redisReply *reply = any;
        if (i % 2 == 0) good += reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OK") == 0;
        else good += reply->type == REDIS_REPLY_INTEGER && reply->integer == (sum += i / 2);
        freeReplyObject(reply);
    }
    holds(good == 500, "replies of a pipeline of 500");
    for (int i = 0; i < 500; i++) redisAppendCommand(context, "GET p:%d", i);
    good = 0;
    for (int i = 0; i < 500; i++) {
        void *any = NULL;
        char want[32];
        if (redisGetReply(context, &any) != REDIS_OK) break;
        redisReply *reply = any;
        snprintf(want, sizeof want, "value:%d", i);
        good += i < 250 ? reply->type == REDIS_REPLY_STRING && strcmp(reply->str, want) == 0 : reply->type == REDIS_REPLY_NIL;
        freeReplyObject(reply);
    }
    holds(good == 500, "GET of a pipeline of 500");
    end_group("pipelines");
}

static void errors(void) {
    char want[128];
    snprintf(want, sizeof want, "-%s", wrong_type);
    is("OK", "SET e text");
    is(want, "LPUSH e x");
    is(want, "HGET e f");
    is("-ERR value is not an integer or out of range", "INCR e");
    is("-ERR invalid expire time in 'setex' command", "SETEX e 0 x");
    is("-ERR unknown command 'NOSUCH', with args beginning with: 'a' ", "NOSUCH a");
    is("-ERR wrong number of arguments for 'get' command", "GET");
    is("text", "GET e");
    end_group("errors");
}

/* One thread with a connection of its own; returns how many rounds read back what they wrote. */
static void *work(void *argument) {
    intptr_t thread = (intptr_t)argument, good = 0;
    redisContext *own = redisConnect(host, port);
    for (int i = 0; own && !own->err && i < 100; i++) {
        char want[32];
        snprintf(want, sizeof want, "%d/%d", (int)thread, i);
        redisReply *set = redisCommand(own, "SET c:%d:%d %s", (int)thread, i, want);
        redisReply *get = redisCommand(own, "GET c:%d:%d", (int)thread, i);
        redisReply *incr = redisCommand(own, "INCR c:total");
        good += set && get && incr && get->type == REDIS_REPLY_STRING && strcmp(get->str, want) == 0;
        if (set) freeReplyObject(set);
        if (get) freeReplyObject(get);
        if (incr) freeReplyObject(incr);
    }
    if (own) redisFree(own);
    return (void *)good;
}

static void concurrency(void) {
    pthread_t threads[THREADS];
    char want[16];
    for (intptr_t t = 0; t < THREADS; t++)
        if (pthread_create(&threads[t], NULL, work, (void *)t) != 0) abort();
    for (int t = 0; t < THREADS; t++) {
        void *good;
        pthread_join(threads[t], &good);
        holds((intptr_t)good == 100, "replies seen by a thread");
    }
    snprintf(want, sizeof want, "%d", THREADS * 100);
    is(want, "GET c:total");
    end_group("concurrency");
}

static void topology(void) {
    redisReply *slots = command("CLUSTER SLOTS");
    int shaped = slots->type == REDIS_REPLY_ARRAY && slots->elements == 1 && slots->element[0]->elements == 3 &&
                 slots->element[0]->element[2]->elements >= 3;
    holds(shaped, "CLUSTER SLOTS has one range with one node");
    if (shaped) {
        redisReply *range = slots->element[0], *node = range->element[2];
        holds(range->element[0]->integer == 0 && range->element[1]->integer == 16383, "CLUSTER SLOTS range");
        holds(node->element[0]->type == REDIS_REPLY_STRING, "CLUSTER SLOTS host is a string");
        holds(node->element[1]->integer == port, "CLUSTER SLOTS port");
        holds(node->element[2]->len == 40, "CLUSTER SLOTS id");
    }
    freeReplyObject(slots);
    redisReply *nodes = command("CLUSTER NODES");
    holds(nodes->type == REDIS_REPLY_STRING && strstr(nodes->str, "myself,master") && strstr(nodes->str, " 0-16383\n"), "CLUSTER NODES");
    freeReplyObject(nodes);
    redisReply *info = command("CLUSTER INFO");
    holds(info->type == REDIS_REPLY_STRING && strstr(info->str, "cluster_state:ok\r\n"), "CLUSTER INFO");
    freeReplyObject(info);
    is(":3443", "CLUSTER KEYSLOT {user1000}.following");
    is("-CROSSSLOT Keys in request don't hash to the same slot", "MGET a b");
    end_group("topology");
}

static void server(void) {
    char line[64];
    redisReply *info = command("INFO");
    snprintf(line, sizeof line, "\r\ntcp_port:%d\r\n", port);
    holds(info->type == REDIS_REPLY_STRING && strstr(info->str, line), "INFO tcp_port");
    snprintf(line, sizeof line, "\r\nredis_mode:%s\r\n", in_cluster ? "cluster" : "standalone");
    holds(info->type == REDIS_REPLY_STRING && strstr(info->str, line), "INFO redis_mode");
    freeReplyObject(info);
    is("(nil)", "CLIENT GETNAME");
    is("OK", "CLIENT SETNAME halcyon-test");
    is("halcyon-test", "CLIENT GETNAME");
    snprintf(line, sizeof line, "[port %d]", port);
    is(line, "CONFIG GET port");
    redisReply *rows = command("COMMAND"), *get = command("COMMAND INFO get");
    snprintf(line, sizeof line, ":%zu", rows->elements);
    is(line, "COMMAND COUNT");
    holds(get->elements == 1 && get->element[0]->elements >= 6 && strcmp(get->element[0]->element[0]->str, "get") == 0 &&
              get->element[0]->element[1]->integer == 2,
          "COMMAND INFO get");
    freeReplyObject(rows);
    freeReplyObject(get);
    is("OK", "FLUSHDB");
    is(":0", "DBSIZE");
    end_group("server");
}

int main(int count, char **words) {
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--port") == 0 && i + 1 < count) port = atoi(words[++i]);
        else if (strcmp(words[i], "--cluster") == 0) in_cluster = 1;
    }
    if (!port) {
        fputs("--port is missing\n", stderr);
        return 2;
    }
    context = redisConnect(host, port);
    if (!context || context->err) {
        holds(0, "connect");
    } else {
        is("PONG", "PING");
        is("hällo", "ECHO %s", "hällo");
        is("OK", "FLUSHDB");
        is(":0", "DBSIZE");
        end_group("connect");
        strings();
        keys();
        collections();
        pipelines();
        errors();
        concurrency();
        if (in_cluster) topology();
        server();
        redisFree(context);
    }
    const char *mode = in_cluster ? "cluster" : "alone";
    if (failed || !passed) {
        printf("client hiredis %d.%d.%d %s: %d checks FAILED\n", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH, mode, failed);
        return 1;
    }
    printf("client hiredis %d.%d.%d %s: %d checks passed\n", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH, mode, passed);
    return 0;
}
