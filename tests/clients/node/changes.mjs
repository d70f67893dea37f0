// ioredis or node-redis (by CLIENT_LIBRARY: the folder in node_modules) at work while its cluster changes; see ../changes.md.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const LOOPS = 3;
const TAGS = 12;
const PAUSE_MS = 20;
const INCREMENT = "return redis.call('INCR', KEYS[1])";
// So many attempts, so far apart, outlast a failover.
const ATTEMPTS = 60;
const ATTEMPT_PAUSE_MS = 200;

const option = (name) => process.argv[process.argv.indexOf(name) + 1];
const require = createRequire(`${process.env.CLIENT_MODULES}/`);
const folder = process.env.CLIENT_LIBRARY;
const library = folder.startsWith("ioredis") ? await ioredis(require(folder)) : await nodeRedis(require(folder));

/** ioredis runs a pipeline on one node: each has the keys of one hash tag. */
async function ioredis({ Cluster, default: fallback }) {
  const places = option("--nodes").split(",").map((node) => ({ host: node.split(":")[0], port: Number(node.split(":")[1]) }));
  const client = new (Cluster ?? fallback.Cluster)(places, {
    maxRedirections: ATTEMPTS,
    retryDelayOnFailover: ATTEMPT_PAUSE_MS,
    retryDelayOnClusterDown: ATTEMPT_PAUSE_MS,
    retryDelayOnTryAgain: ATTEMPT_PAUSE_MS,
  });
  client.on("error", () => {});
  await new Promise((resolve) => client.once("ready", resolve));
  const results = (replies) =>
    replies.map(([error, value]) => {
      if (error) throw error;
      return value;
    });
  return {
    set: (key, value) => client.set(key, value),
    get: (key) => client.get(key),
    incr: (key) => client.incr(key),
    eval: (script, key) => client.eval(script, 1, key),
    mset: (...pairs) => client.mset(...pairs),
    mget: (...keys) => client.mget(...keys),
    gets: (keys) => Promise.all(keys.map((key) => client.pipeline().get(key).exec().then((replies) => results(replies)[0]))),
    incrTwice: async (key) => results(await client.multi().incr(key).incr(key).exec()),
  };
}

async function nodeRedis({ createCluster }) {
  const socket = { reconnectStrategy: ATTEMPT_PAUSE_MS };
  const rootNodes = option("--nodes").split(",").map((node) => ({ url: `redis://${node}` }));
  const client = createCluster({ rootNodes, defaults: { socket }, maxCommandRedirections: ATTEMPTS });
  client.on("error", () => {});
  await client.connect();
  return {
    set: (key, value) => client.set(key, value),
    get: (key) => client.get(key),
    incr: (key) => client.incr(key),
    eval: (script, key) => client.eval(script, { keys: [key] }),
    mset: (...pairs) => client.mSet(pairs),
    mget: (...keys) => client.mGet(keys),
    gets: (keys) => Promise.all(keys.map((key) => client.get(key))),
    incrTwice: (key) => client.multi().incr(key).incr(key).exec(),
  };
}

let phase, done, errors, wrong;

/** Ends the phase, and returns what there is to say of it. */
function take(next) {
  const told = JSON.stringify({ phase, done, errors, wrong });
  [phase, done, errors, wrong] = [next, 0, {}, []];
  return told;
}

const holds = (what, isSo) => isSo || wrong.push(what);

/** Writes keys of its own and reads them again. */
class Loop {
  constructor(name, number) {
    this.tags = Array.from({ length: TAGS }, (_, tag) => `{${name}:${number}:${tag}}`);
    [this.tried, this.written, this.counted] = [0, 1, 2].map(() => Array(TAGS).fill(0));
    [this.begun, this.goodBegunAt, this.isStopping] = [0, 0, false];
  }

  async run() {
    while (!this.isStopping) {
      const begun = ++this.begun;
      let good = true;
      for (let at = 0; at < TAGS; at++) {
        for (const step of ["write", "read", "count"]) good = (await this.tries(step, at)) && good;
        await sleep(PAUSE_MS);
      }
      for (const step of ["pipeline", "several", "script", "transaction"]) good = (await this.tries(step, begun % TAGS)) && good;
      if (good) this.goodBegunAt = begun;
    }
  }

  async tries(step, at) {
    try {
      await this[step](at);
    } catch (error) {
      const text = `${step}: ${error.constructor.name}: ${error.message}`.slice(0, 300);
      errors[text] = (errors[text] ?? 0) + 1;
      return false;
    }
    done++;
    return true;
  }

  async write(at) {
    const value = ++this.tried[at];
    await library.set(`${this.tags[at]}v`, String(value));
    this.written[at] = value;
  }

  async read(at) {
    this.expectValue(at, await library.get(`${this.tags[at]}v`));
  }

  expectValue(at, text) {
    const [least, most] = [this.written[at], this.tried[at]];
    holds(`GET ${this.tags[at]}: ${text}, written ${least} to ${most}`, least <= Number(text) && Number(text) <= most);
  }

  async count(at) {
    this.expectCount(at, await library.incr(`${this.tags[at]}c`), 1);
  }

  /** Holds if so many were added just now, with this count; a library that asks again may count twice. */
  expectCount(at, count, added) {
    holds(`INCR ${this.tags[at]}: ${count} after ${this.counted[at]}`, Number(count) >= this.counted[at] + added);
    this.counted[at] += added;
  }

  async pipeline() {
    const texts = await library.gets(this.tags.map((tag) => `${tag}v`));
    texts.forEach((text, at) => this.expectValue(at, text));
  }

  async several(at) {
    const tag = this.tags[at];
    await library.mset(`${tag}a`, "1", `${tag}b`, "2");
    const found = await library.mget(`${tag}a`, `${tag}b`, `${tag}none`);
    holds(`MGET ${tag}: ${found}`, JSON.stringify(found) === '["1","2",null]');
  }

  async script(at) {
    this.expectCount(at, await library.eval(INCREMENT, `${this.tags[at]}c`), 1);
  }

  async transaction(at) {
    const [first, second] = await library.incrTwice(`${this.tags[at]}c`);
    holds(`EXEC ${this.tags[at]}: ${first}, ${second}`, second === first + 1);
    this.expectCount(at, second, 2);
  }

  async final(at) {
    this.expectCount(at, await library.get(`${this.tags[at]}c`), 0);
  }
}

/** Every loop begins a cycle from now on and ends it without an error. */
async function awaitGoodCycles(loops) {
  for (const loop of loops) {
    const { begun } = loop;
    while (loop.goodBegunAt <= begun) await sleep(10);
  }
}

const loops = Array.from({ length: LOOPS }, (_, number) => new Loop(option("--name"), number));
let running;
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "stop") break;
  if (line === "cycle") {
    await awaitGoodCycles(loops);
    console.log("cycle");
  } else if (running) {
    console.log(take(line));
  } else {
    take(line);
    running = Promise.all(loops.map((loop) => loop.run()));
  }
}
for (const loop of loops) loop.isStopping = true;
await running;
console.log(take("end"));
for (const loop of loops) {
  for (let at = 0; at < TAGS; at++) {
    await loop.tries("read", at);
    await loop.tries("final", at);
  }
}
console.log(take(""));
process.exit(0);
