import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startEngine } from "../src/cli/local/engine-process.ts";
import { freePort } from "../src/cli/local/ports.ts";

// node bench/limits.ts: takes of a limit, and adds to a counter of one and of 32 shards. The last line is one object.

const ADDS = 2_000;
const SHARDS = 32;

/** What is asked of the bench's Worker: a path, and the number that it answers. */
type Ask = (path: string) => Promise<number>;

/** Takes of one limit a second; and how many times as many adds a second a counter takes by 32 shards as by one. */
export async function coordinationFigures(ask: Ask, rounds = 3): Promise<{ limiter_takes_per_s: number; counter_shard_gain: number }> {
  const measured: { takes: number; one: number; many: number }[] = [];
  // The first round finds the runtime cold, and is not counted.
  for (let round = 0; round <= rounds; round++) {
    const takes = await ask(`/limiter?count=${ADDS}`);
    const one = await ask(`/counter?count=${ADDS}&shards=1`);
    const many = await ask(`/counter?count=${ADDS}&shards=${SHARDS}`);
    if (round > 0) measured.push({ takes, one, many });
  }
  const [takes, one, many] = (["takes", "one", "many"] as const).map((what) => Math.round(median(measured.map((each) => each[what]))));
  const gain = Math.round(median(measured.map((each) => each.many / each.one)) * 100) / 100;
  console.log(`one limit of three rules\n  ${takes} takes a second`);
  console.log(`one counter, ${ADDS} adds of a call each\n  1 shard ${one}/s · ${SHARDS} shards ${many}/s · ${gain}`);
  return { limiter_takes_per_s: takes ?? 0, counter_shard_gain: gain };
}

function median(numbers: number[]): number {
  return numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}

if (import.meta.main) {
  const root = join(import.meta.dirname, "..");
  const folder = join(root, ".millrace", "bench");
  mkdirSync(folder, { recursive: true });
  const secrets = join(folder, "secrets");
  writeFileSync(secrets, "MILLRACE_KEY=bench\n");
  const engine = await startEngine({ folder, port: await freePort(), secrets, config: join(root, "bench/wrangler.jsonc"), fresh: true });
  try {
    const figures = await coordinationFigures(async (path) => {
      const answer = await fetch(`${engine.url}${path}`);
      if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${(await answer.text()).slice(0, 300)}`);
      return (await answer.json()) as number;
    });
    console.log(JSON.stringify(figures));
  } finally {
    await engine.stop();
  }
}
