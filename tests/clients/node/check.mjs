// Counts what a client program verified and reports it group by group.
import { isDeepStrictEqual, inspect } from "node:util";
import { readFileSync } from "node:fs";

export const HOST = "127.0.0.1";

export class Checks {
  /** Reads --port and --cluster; `directory` is the library's folder in node_modules. */
  constructor(name, directory) {
    const words = process.argv.slice(2);
    const manifest = new URL(`${process.env.CLIENT_MODULES}/${directory}/package.json`, "file:///");
    this.port = Number(words[words.indexOf("--port") + 1]);
    this.cluster = words.includes("--cluster");
    this.name = `client ${name} ${JSON.parse(readFileSync(manifest)).version} ${this.cluster ? "cluster" : "alone"}`;
    this.passed = 0;
    this.failures = [];
    if (!Number.isInteger(this.port)) throw new Error("--port is missing");
  }

  true(what, holds) {
    if (holds === true) this.passed++;
    else this.failures.push(what);
  }

  /** Holds when got has the type and value of want. */
  equal(what, got, want) {
    const show = (value) => inspect(value, { breakLength: Infinity }).slice(0, 300);
    this.true(`${what}: got ${show(got)}, want ${show(want)}`, isDeepStrictEqual(got, want));
  }

  /** Holds when the promise is rejected with the library's error type, and the message contains text. */
  async fails(what, kind, text, promise) {
    try {
      const got = await promise;
      this.failures.push(`${what}: no error but ${inspect(got)}`);
    } catch (error) {
      this.true(`${what}: ${inspect(error).slice(0, 300)}`, error instanceof kind && error.message.includes(text));
    }
  }

  async group(name, body) {
    const [passed, failed] = [this.passed, this.failures.length];
    try {
      await body();
    } catch (error) {
      this.failures.push(inspect(error));
    }
    const wrong = this.failures.slice(failed);
    console.log(`${name}: ${this.passed - passed} passed, ${wrong.length} failed`);
    for (const failure of wrong) console.log(`  FAIL ${failure}`);
    if (this.passed === 0) this.finish(); // Nothing answers.
  }

  finish() {
    const good = this.failures.length === 0 && this.passed > 0;
    console.log(`${this.name}: ${good ? `${this.passed} checks passed` : `${this.failures.length} checks FAILED`}`);
    process.exit(good ? 0 : 1);
  }
}

/** A megabyte with every byte value in it. */
export function megabyte() {
  return Buffer.from(Uint8Array.from({ length: 1 << 20 }, (_, i) => (i * 31 + Math.floor(i / 256)) % 256));
}

/** Every byte value, and what looks like protocol. */
export const binary = Buffer.concat([Buffer.from(Uint8Array.from({ length: 256 }, (_, i) => i)), Buffer.from("\r\n$5\r\n\0")]);

export const range = (n) => Array.from({ length: n }, (_, i) => i);
export const sorted = (values) => [...values].sort();
