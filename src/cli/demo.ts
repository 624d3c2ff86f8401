import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Call, runCommand, stopped } from "./command.ts";
import { tellStory } from "./demo/story.ts";
import { ensureDevVars } from "./local/dev-vars.ts";
import { startEngine } from "./local/engine-process.ts";
import { freePort, portFrom } from "./local/ports.ts";
import { ROOT, requireInstalled, shown } from "./local/wrangler.ts";
import { paint, say, seconds } from "./terminal.ts";

const FOLDER = join(ROOT, ".millrace/demo");
const VARS = { EMBEDDED_CONTROL: "true", KEEPER_NUDGES: "true" };

/** `npm run demo`: the main job with an outage in the middle, on an engine of its own that shares nothing with `npm start`. */
async function demo({ args, stop }: Call): Promise<number> {
  requireInstalled();
  const port = portFrom(args, process.env.PORT, await freePort());
  say(paint("dim", `Starting an engine for the demo on port ${port}, with an empty database in ${shown(FOLDER)} …`));
  const began = Date.now();
  mkdirSync(FOLDER, { recursive: true });
  // Its own secrets: the ones in .dev.vars may lead to upstreams that cost money.
  const secrets = join(FOLDER, "secrets");
  ensureDevVars(secrets);
  const engine = await startEngine({ folder: FOLDER, port, secrets, vars: VARS, fresh: true, signal: stop });
  try {
    say(paint("dim", `It runs at ${engine.url} (after ${seconds(Date.now() - began)}).`));
    await tellStory(engine, stop);
    if (process.stdout.isTTY && !args.includes("--exit")) await linger(engine.url, engine.ended, stop);
    return 0;
  } finally {
    await engine.stop();
  }
}

/** Stays until Ctrl-C, so that people can open the pages. */
async function linger(url: string, ended: Promise<unknown>, stop: AbortSignal): Promise<void> {
  say(`\nThe pages can be opened, and ${url}/openapi.json lists the routes. Ctrl-C ends the demo.`);
  await Promise.race([ended, stopped(stop).catch(() => undefined)]);
}

await runCommand(demo);
