// Two Socket.IO servers that know of each other's clients through the Redis adapter (publish and subscribe).
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { createAdapter } from '@socket.io/redis-adapter';
import Redis from 'ioredis';
import { Server } from 'socket.io';
import { io as connect } from 'socket.io-client';

const done = (name) => console.log(`socket.io: ${name}`);
const links = [];
const link = () => (links.push(new Redis({ host: '127.0.0.1', port: Number(process.env.PORT) })), links.at(-1));

async function node(number) {
  const http = createServer();
  const server = new Server(http, { adapter: createAdapter(link(), link()) });
  server.on('connection', (socket) => {
    socket.on('enter', async (room, answer) => { await socket.join(room); answer(); });
    socket.on('say', (room, text) => socket.to(room).emit('said', text));
  });
  server.on('question', (n, answer) => answer(n * 10 + number));
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  return { server, http, url: `http://127.0.0.1:${http.address().port}` };
}

const nodes = [await node(1), await node(2)];
const clients = nodes.map(({ url }) => connect(url, { transports: ['websocket'] }));
await Promise.all(clients.map((client) => once(client, 'connect')));
await new Promise((resolve) => setTimeout(resolve, 1000));

const everywhere = Promise.all(clients.map((client) => once(client, 'news')));
nodes[0].server.emit('news', { n: 1, bytes: Buffer.from([0, 255]) });
for (const [news] of await everywhere) assert.equal(news.n, 1);
done('a broadcast reaches the clients of both servers');

for (const client of clients) await client.emitWithAck('enter', 'room');
const heard = once(clients[1], 'said');
clients[0].emit('say', 'room', 'hello');
assert.equal((await heard)[0], 'hello');
done('a room over both servers');

assert.equal((await nodes[0].server.fetchSockets()).length, 2);
assert.equal((await nodes[1].server.in('room').fetchSockets()).length, 2);
done('sockets of both servers are found');

const answers = await new Promise((resolve, reject) => nodes[0].server.serverSideEmit('question', 4, (error, all) => error ? reject(error) : resolve(all)));
assert.deepEqual(answers, [42]);
done('servers ask each other');

const left = Promise.all(clients.map((client) => once(client, 'disconnect')));
nodes[1].server.in('room').disconnectSockets(true);
await left;
done('clients of both servers are disconnected');

for (const { server } of nodes) await server.close();
links.forEach((one) => one.disconnect());
process.exit(0);
