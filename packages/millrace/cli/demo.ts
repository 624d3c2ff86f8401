import { join } from "node:path";
import pRetry from "p-retry";
import { besideOptions, type Call, Misuse, runCommand, stopped } from "./command.ts";
import { batch } from "./demo/batch.ts";
import { brand } from "./demo/brand/story.ts";
import { console as openConsole } from "./demo/console.ts";
import { crm } from "./demo/crm.ts";
import { derived } from "./demo/derived.ts";
import { lanes } from "./demo/lanes.ts";
import { lean } from "./demo/lean.ts";
import { ledger } from "./demo/ledger.ts";
import { observe } from "./demo/observe.ts";
import { operate } from "./demo/operate.ts";
import { publish } from "./demo/publish.ts";
import type { Story } from "./demo/story.ts";
import { webhooks } from "./demo/webhooks.ts";
import { ensureDevVars } from "./local/dev-vars.ts";
import { closedFolder, type EngineOptions, startEngine } from "./local/engine-process.ts";
import { freePort, portFrom, requireCallable } from "./local/ports.ts";
import { ROOT, requireInstalled, shown } from "./local/wrangler.ts";
import { wantsHelp } from "./options.ts";
import { paint, say, seconds } from "./terminal.ts";

const STORIES: Record<string, Story> = {
  brand,
  crm,
  publish,
  ledger,
  derived,
  webhooks,
  batch,
  lanes,
  lean,
  observe,
  operate,
  console: openConsole,
};
const VARS = { EMBEDDED_CONTROL: "true" };

/** `npm run demo -- [story]`: one system at work, on an engine of its own that shares nothing with `npm start`. */
async function demo({ args, stop }: Call): Promise<number> {
  if (wantsHelp(args)) {
    say(usage([]));
    return 0;
  }
  const every = Object.values(STORIES).flatMap(({ options = [] }) => options);
  const [name = "brand", second] = besideOptions(args, { text: usage([]), values: [...VALUES, ...every], flags: ["--exit"] });
  if (/^\d+$/.test(name)) throw new Misuse(`“${name}” is no demo. For a port of your choice: npm run demo -- --port ${name}`);
  const story = STORIES[name];
  if (!story) throw new Misuse(`There is no demo “${name}”. There are:\n${list()}`);
  if (second !== undefined) throw new Misuse(`One demo at a time: “${second}” stands behind “${name}”.`);
  requireInstalled();
  const own = story.options ?? [];
  besideOptions(args, { text: usage(own), values: [...VALUES, ...own], flags: ["--exit"] });
  const folder = join(ROOT, ".millrace", name === "brand" ? "demo" : `demo-${name}`);
  const typed = `npm run demo -- ${name}`;
  const port = portFrom(args, process.env.PORT, await freePort(), typed);
  await requireCallable(port, typed);
  say(paint("dim", `Starting an engine for the demo on port ${port}, with an empty database in ${shown(folder)} …`));
  const began = Date.now();
  closedFolder(join(ROOT, ".millrace"));
  closedFolder(folder);
  // Its own secrets: the ones in .dev.vars may lead to upstreams that cost money.
  const secrets = join(folder, "secrets");
  ensureDevVars(secrets);
  const worker = story.worker?.(folder);
  const plot = "open" in story ? await story.open() : { ...story, stop: () => undefined };
  const vars = { ...VARS, ...plot.vars };
  let settings: EngineOptions = {
    folder,
    port,
    typed,
    secrets,
    vars,
    startWithinMs: START_MS,
    signal: stop,
    ...(worker && { worker }),
    ...(story.config && { config: story.config }),
    ...(story.entry && { entry: story.entry }),
  };
  let engine = await startEngine({ ...settings, fresh: true });
  try {
    say(paint("dim", `It runs at ${engine.url} (after ${seconds(Date.now() - began)}).`));
    await plot.tell({
      get engine() {
        return engine;
      },
      stop,
      args,
      async crash(changed = {}) {
        await engine.kill9("everything");
        settings = { ...settings, vars: { ...settings.vars, ...changed } };
        // What died may hold its port for a moment longer.
        engine = await pRetry(() => startEngine(settings), { retries: 4, minTimeout: 500, signal: stop });
      },
    });
    if (!worker && !story.config && process.stdout.isTTY && !args.includes("--exit")) await linger(engine.url, engine.ended, stop);
    return 0;
  } finally {
    plot.stop();
    await engine.stop();
  }
}

/** Nobody tries again: a slow machine may take its time. */
const START_MS = 180_000;

/** Every demo has these. */
const VALUES = ["--port"];

function usage(own: readonly string[]): string {
  const options = ["--port <number>", ...own.map((option) => `${option} <number>`), "--exit"];
  const said = "--exit ends it on a terminal too; by itself one with pages stays there until Ctrl-C, so that they can be opened.";
  return `Usage: npm run demo -- [name] [${options.join("] [")}]. ${said} The demos:\n${list()}`;
}

function list(): string {
  return Object.entries(STORIES)
    .map(([name, { title }]) => `  npm run demo -- ${name.padEnd(10)} ${title}`)
    .join("\n");
}

/** Stays until Ctrl-C, so that people can open the pages. */
async function linger(url: string, ended: Promise<unknown>, stop: AbortSignal): Promise<void> {
  say(`\nThe pages can be opened, and ${url}/openapi.json lists the routes. Ctrl-C ends the demo; with --exit it ends by itself.`);
  await Promise.race([ended, stopped(stop).catch(() => undefined)]);
}

await runCommand(demo);
