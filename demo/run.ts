import { join } from "node:path";
import pRetry from "p-retry";
import { besideOptions, type Call, Misuse, runCommand, stopped, type Usage } from "../packages/millrace/cli/command.ts";
import { ensureDevVars } from "../packages/millrace/cli/local/dev-vars.ts";
import { closedFolder, startEngine } from "../packages/millrace/cli/local/engine-process.ts";
import { freePort, portFrom, requireCallable } from "../packages/millrace/cli/local/ports.ts";
import { ROOT, requireInstalled, shown } from "../packages/millrace/cli/local/wrangler.ts";
import { wantsHelp } from "../packages/millrace/cli/options.ts";
import { paint, say, seconds } from "../packages/millrace/cli/terminal.ts";
import { tell } from "./story.ts";

const TYPED = "npm run demo --";
const USAGE: Usage = {
  text: `Usage: ${TYPED} [--port <number>] [--exit]. Runs the brand's main job on a new engine, with a kill -9 in the middle. On a terminal it stays until Ctrl-C, unless --exit is given.`,
  values: ["--port"],
  flags: ["--exit"],
};
const FOLDER = join(ROOT, ".millrace/demo");
/** The time limit of the first start, which is sufficient for a slow machine. A failed start is not retried. */
const START_MS = 180_000;

/** Run with `npm run demo`. Runs the main job of a brand on a separate engine, which shares no state with the engine of `npm start`. */
async function demo({ args, stop }: Call): Promise<number> {
  if (wantsHelp(args)) {
    say(USAGE.text);
    return 0;
  }
  const [beside] = besideOptions(args, USAGE);
  if (beside !== undefined) {
    const meant = /^\d+$/.test(beside) ? ` Set the port with: ${TYPED} --port ${beside}` : "";
    throw new Misuse(`The demo takes no "${beside}".${meant} ${USAGE.text}`);
  }
  requireInstalled();
  const port = portFrom(args, process.env.PORT, await freePort(), TYPED);
  await requireCallable(port, TYPED);
  say(paint("dim", `Starting an engine for the demo on port ${port}, with an empty database in ${shown(FOLDER)} …`));
  const began = Date.now();
  closedFolder(join(ROOT, ".millrace"));
  closedFolder(FOLDER);
  // The demo has its own secrets, because the secrets in .dev.vars may belong to paid upstreams.
  const secrets = join(FOLDER, "secrets");
  ensureDevVars(secrets);
  const vars = { EMBEDDED_CONTROL: "true", KEEPER_PERIOD_MS: "1000" };
  const settings = { folder: FOLDER, port, typed: TYPED, secrets, vars, startWithinMs: START_MS, signal: stop };
  let engine = await startEngine({ ...settings, fresh: true });
  try {
    say(paint("dim", `The engine runs at ${engine.url} (started in ${seconds(Date.now() - began)}).`));
    await tell({
      get engine() {
        return engine;
      },
      stop,
      async crash() {
        await engine.kill9("everything");
        // The port may remain in use for a moment after the processes are killed.
        engine = await pRetry(() => startEngine(settings), { retries: 4, minTimeout: 500, signal: stop });
      },
    });
    if (process.stdout.isTTY && !args.includes("--exit")) await linger(engine.url, engine.ended, stop);
    return 0;
  } finally {
    await engine.stop();
  }
}

/** Waits for Ctrl-C, so that the pages can be opened. */
async function linger(url: string, ended: Promise<unknown>, stop: AbortSignal): Promise<void> {
  say(`\nThe pages can be opened, and ${url}/openapi.json lists the routes. Ctrl-C ends the demo; with --exit it ends by itself.`);
  await Promise.race([ended, stopped(stop).catch(() => undefined)]);
}

await runCommand(demo);
