// BullMQ: its Lua scripts touch keys that they do not declare. Jobs, priorities, delays, retries, flows, repeated jobs, events.
import assert from 'node:assert/strict';
import { FlowProducer, Queue, QueueEvents, Worker } from 'bullmq';

const connection = { host: '127.0.0.1', port: Number(process.env.PORT), maxRetriesPerRequest: null };
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const done = (name) => console.log(`bullmq: ${name}`);
const closing = [];
const open = (thing) => (closing.push(thing), thing);

const queue = open(new Queue('work', { connection }));
const events = open(new QueueEvents('work', { connection }));
await events.waitUntilReady();
const order = [];
const worker = open(new Worker('work', async (job) => {
  if (job.name === 'flaky' && job.attemptsMade < 2) throw new Error('not yet');
  if (job.name === 'doomed') throw new Error('never');
  if (job.name === 'slow') for (let at = 0; at <= 100; at += 50) await job.updateProgress(at);
  order.push(job.name);
  return job.data.n * 2;
}, { connection, concurrency: 4, autorun: false }));

// Before anybody works: priorities decide the order.
for (const [name, priority] of [['third', 3], ['first', 1], ['second', 2]]) await queue.add(name, { n: 1 }, { priority });
assert.deepEqual(await queue.getCountsPerPriority([1, 2, 3]), { 1: 1, 2: 1, 3: 1 });
worker.concurrency = 1;
worker.run();
while (order.length < 3) await wait(20);
assert.deepEqual(order, ['first', 'second', 'third']);
done('priorities');

worker.concurrency = 4;
const jobs = await queue.addBulk(Array.from({ length: 300 }, (_, n) => ({ name: 'double', data: { n } })));
const results = await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 30_000)));
assert.deepEqual(results, jobs.map((_, n) => n * 2));
done('300 jobs in bulk, results by events');

const delayed = await queue.add('later', { n: 5 }, { delay: 400 });
assert.equal(await delayed.getState(), 'delayed');
assert.equal(await delayed.waitUntilFinished(events, 10_000), 10);
done('a delayed job');

const flaky = await queue.add('flaky', { n: 7 }, { attempts: 3, backoff: { type: 'fixed', delay: 50 } });
assert.equal(await flaky.waitUntilFinished(events, 10_000), 14);
const doomed = await queue.add('doomed', {}, { attempts: 1 });
await assert.rejects(doomed.waitUntilFinished(events, 10_000), /never/);
assert.equal(await queue.getFailedCount(), 1);
await doomed.retry();
await assert.rejects(doomed.waitUntilFinished(events, 10_000), /never/);
done('retries and failures');

const slow = await queue.add('slow', { n: 1 });
await slow.waitUntilFinished(events, 10_000);
assert.equal((await queue.getJob(slow.id)).progress, 100);
done('progress');

const flow = open(new FlowProducer({ connection }));
const parentWorker = open(new Worker('parents', async (job) => Object.values(await job.getChildrenValues()).reduce((a, b) => a + b, 0), { connection }));
const parentEvents = open(new QueueEvents('parents', { connection }));
await parentEvents.waitUntilReady();
const tree = await flow.add({ name: 'sum', queueName: 'parents', children: [1, 2, 3].map((n) => ({ name: 'double', queueName: 'work', data: { n } })) });
assert.equal(await tree.job.waitUntilFinished(parentEvents, 20_000), 12);
done('a flow of a parent and its children');

await queue.upsertJobScheduler('tick', { every: 100 }, { name: 'tick', data: { n: 1 } });
const ticks = () => order.filter((name) => name === 'tick').length;
while (ticks() < 3) await wait(20);
assert.equal(await queue.removeJobScheduler('tick'), true);
done('a scheduler');

await queue.pause();
await queue.add('held', { n: 1 });
await wait(200);
assert.ok(!order.includes('held'));
await queue.resume();
while (!order.includes('held')) await wait(20);
done('pause and resume');

await queue.obliterate({ force: true });
assert.equal(await queue.count(), 0);
done('obliterate');
await Promise.all(closing.map((thing) => thing.close()));
