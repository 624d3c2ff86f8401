import { setTimeout as sleep } from "node:timers/promises";
import { ask, newTally, type Tally } from "./client.ts";
import type { ChaosCommand } from "./commands.ts";
import type { ChaosEngine, Death } from "./engine.ts";
import type { Random } from "./random.ts";

/** The engine lives this long between two deaths: long enough to get some work done, too short to get much of it finished. */
const LIFE_MS = { shortest: 100, longest: 3000 };
/** This share of the deaths takes wrangler with it. */
const EVERYTHING = 0.25;

/** Sends the commands over the whole time of the deaths, so that every death finds work under way. */
export async function killWhileWorking(
  engine: ChaosEngine,
  commands: readonly ChaosCommand[],
  kills: number,
  random: Random,
  say: (line: string) => void,
): Promise<{ tally: Tally; lastDeathAt: number }> {
  const tally = newTally();
  const clients: Promise<void>[] = [];
  const problems: unknown[] = [];
  const send = async (command: ChaosCommand, startsMs: number) => {
    await sleep(startsMs);
    await ask(engine.url, command, tally).catch((problem) => problems.push(problem));
  };
  let lastDeathAt = 0;
  for (let kill = 1; kill <= kills; kill++) {
    const lifeMs = random.between(LIFE_MS.shortest, LIFE_MS.longest);
    const death: Death = random.chance(EVERYTHING) ? "everything" : "runtime";
    for (const command of shareOf(commands, kill, kills)) {
      const startsMs = random.next() * lifeMs;
      for (let client = 0; client < command.clients; client++) clients.push(send(command, startsMs));
    }
    await sleep(lifeMs);
    const died = await engine.kill(death);
    lastDeathAt = Date.now();
    await engine.revive(death);
    const downMs = Date.now() - lastDeathAt;
    say(
      `kill ${kill} of ${kills}: ${death} (${died} processes) after ${lifeMs} ms, back after ${downMs} ms; ${tally.accepted.size} commands accepted`,
    );
    if (problems.length > 0) break;
  }
  await Promise.all(clients);
  if (problems.length > 0) throw problems[0];
  return { tally, lastDeathAt };
}

function shareOf(commands: readonly ChaosCommand[], kill: number, kills: number): readonly ChaosCommand[] {
  const until = (end: number) => Math.floor((end * commands.length) / kills);
  return commands.slice(until(kill - 1), until(kill));
}
